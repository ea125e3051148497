//! Ids and folders that try to leave the root.

use std::fs;
use std::path::PathBuf;

use seslog::json::Text;
use seslog::store::{FileStore, SessionAccess};

use crate::program::{Root, row, tree};

#[test]
fn an_id_names_a_folder_of_its_project_and_nothing_else() {
    let long = "x".repeat(300);
    let ids = [
        "..",
        ".",
        "/",
        "//",
        "../../escape",
        "a/../../b",
        "/etc/passwd",
        "~",
        "~root",
        "a\nb",
        "\u{1b}[2J",
        "-rf",
        "--root",
        "session.lock",
        "a\\b",
        "C:\\x",
        "é",
        "\u{202e}gnp",
        "con",
        "*",
        "$(reboot)",
        "%2e%2e",
        "..;",
        " ",
        "\u{feff}",
        "a\u{0}b",
    ];
    let root = Root::new();
    let mut made = 0;
    for id in ids {
        if id.contains('\0') {
            // No program gets a zero byte in an argument. In a log it comes as an escape.
            let export = root.scratch().join("nul.jsonl");
            let header = "{\"type\":\"session\",\"version\":2,\"id\":\"a\\u0000b\",\"createdAt\":5,\"cwd\":\"/../w\\u0000\",\"isSeeded\":false,\"delegationDepth\":0}\n";
            fs::write(&export, header).unwrap();
            root.run(&["import", export.to_str().unwrap()]).expect(0);
            fs::remove_file(&export).unwrap();
        } else {
            root.run(&["new", &format!("--id={id}"), "--cwd", "/../../w"]).expect(0);
            // By the library: the program takes what is a path for one.
            let store = FileStore::new(root.path());
            let handle = store.open(&Text::from(id), SessionAccess::Write).unwrap();
            handle.append(&[row(0).trim_end().as_bytes()]).unwrap();
            handle.close().unwrap();
            assert_eq!(store.stat(&Text::from(id)).unwrap().unwrap().event_count, Some(1), "{id:?}");
        }
        made += 1;
    }
    root.run(&["new", "--id", &long]).expect(1).says("next: ");
    root.run(&["new", "--id", ""]).expect(1);
    assert_eq!(root.run(&["ls", "--json"]).expect(0).json().len(), made);
    // All of it stands two folders below the root, under names of letters, digits and a few signs.
    let outside = tree(root.scratch()).into_iter().filter(|(path, _)| !path.starts_with(root.path()));
    assert_eq!(outside.map(|(path, _)| path).collect::<Vec<_>>(), Vec::<PathBuf>::new());
    for (path, _) in tree(&root.path()) {
        let below = path.strip_prefix(root.path()).unwrap();
        assert_eq!(below.components().count(), 3, "{below:?}");
        let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-~/".contains(byte);
        assert!(below.as_os_str().as_encoded_bytes().iter().all(harmless), "{below:?}");
    }
}
