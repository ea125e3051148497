//! Symbolic links planted at every path that is created or published. Nothing is written through one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::program::{Root, row, seslog, tree};

/// A folder and a file that no verb may change.
fn victim(root: &Root) -> (PathBuf, PathBuf) {
    let folder = root.scratch().join("victim");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("file"), "precious").unwrap();
    (folder.clone(), folder.join("file"))
}

#[track_caller]
fn untouched(root: &Root, what: &str) {
    let folder = root.scratch().join("victim");
    let found = tree(&folder);
    assert_eq!(found, [(folder.join("file"), b"precious".to_vec())], "{what}");
}

/// A torn log, its path, and the name that its torn end will be set aside under.
fn torn(root: &Root) -> (PathBuf, PathBuf) {
    let path = root.session("s", "indexed", 3);
    let border = fs::metadata(&path).unwrap().len();
    root.append("s", 3..9);
    let bytes = fs::read(&path).unwrap();
    let bytes = &bytes[..bytes.len() - 30];
    fs::write(&path, bytes).unwrap();
    let torn = &bytes[border as usize..];
    let crc = crate::build::crc32(0, torn);
    let aside =
        format!("{}.torn-{border}-{}-{crc:08x}", path.file_name().unwrap().to_string_lossy(), torn.len());
    (path.clone(), path.with_file_name(aside))
}

/// What stands at a place, given the session's folder.
type Place = fn(&Path) -> PathBuf;

#[test]
fn a_link_at_the_log_the_lock_or_the_folders_of_a_session_is_never_written_through() {
    let at: [(&str, Place); 5] = [
        ("log", |folder| folder.join("session.v2.jsonl.zst")),
        ("older log", |folder| folder.join("session.jsonl")),
        ("lock", |folder| folder.join("session.lock")),
        ("session folder", Path::to_path_buf),
        ("project folder", |folder| folder.parent().unwrap().to_path_buf()),
    ];
    for (name, place) in at {
        for to in ["file", "folder", "nothing"] {
            let root = Root::new();
            let (folder, file) = victim(&root);
            let target = match to {
                "file" => file,
                "folder" => folder.clone(),
                _ => root.scratch().join("nothing"),
            };
            let link = place(&root.path().join("--w--/s"));
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(&target, &link).unwrap();
            let what = format!("a link to {to} at the {name}");
            if (name, to) == ("project folder", "folder") {
                // Somebody keeps a project elsewhere: a new folder is made there, and nothing else is touched.
                root.run(&["new", "--id", "s", "--cwd", "/w"]).expect(0);
                fs::remove_dir_all(folder.join("s")).unwrap();
                untouched(&root, &what);
                continue;
            }
            let made = root.run(&["new", "--id", "s", "--cwd", "/w"]);
            assert_eq!(made.code, 1, "{what}: {}{}", made.text(), made.stderr);
            let export = root.scratch().join("export.jsonl");
            fs::write(
                &export,
                "{\"type\":\"session\",\"version\":2,\"id\":\"s\",\"createdAt\":5,\"cwd\":\"/w\",\"isSeeded\":false,\"delegationDepth\":0}\n",
            )
            .unwrap();
            let imported = root.run(&["import", export.to_str().unwrap()]);
            assert_eq!(imported.code, 1, "{what}: {}", imported.text());
            root.run(&["append", "s"]).expect(1);
            untouched(&root, &what);
            assert!(!root.scratch().join("nothing").exists(), "{what}: made");
            assert_eq!(fs::read_link(&link).unwrap(), target, "{what}: the link is replaced");
        }
    }
}

#[test]
fn a_link_in_place_of_a_log_that_was_there_is_neither_read_nor_appended_to() {
    let root = Root::new();
    victim(&root);
    let path = root.session("s", "indexed", 3);
    let moved = root.scratch().join("victim/log");
    fs::rename(&path, &moved).unwrap();
    symlink(&moved, &path).unwrap();
    let before = fs::read(&moved).unwrap();
    for args in [&["append", "s"][..], &["cat", "s"], &["recover", path.to_str().unwrap()], &["fork", "s"]] {
        assert_ne!(root.run_with(args, row(3).as_bytes()).code, 0, "{args:?}");
    }
    assert_eq!(fs::read(&moved).unwrap(), before);
    // A session's folder that was moved, with a link in its place, is the same session: its own log is appended to. One that
    // leads to another session is not taken for this one.
    fs::remove_file(&path).unwrap();
    fs::rename(&moved, &path).unwrap();
    let folder = path.parent().unwrap();
    let elsewhere = root.scratch().join("elsewhere");
    fs::rename(folder, &elsewhere).unwrap();
    symlink(&elsewhere, folder).unwrap();
    root.run_with(&["append", "s"], row(3).as_bytes()).expect(0);
    assert!(fs::read(elsewhere.join("session.v2.jsonl.zst")).unwrap().starts_with(&before));
    let other = root.session("other", "indexed", 1);
    let before = fs::read(&other).unwrap();
    fs::remove_file(folder).unwrap();
    symlink(other.parent().unwrap(), folder).unwrap();
    root.run_with(&["append", "s"], row(1).as_bytes()).expect(1);
    root.run(&["recover", "s"]).expect(1);
    assert_eq!(fs::read(&other).unwrap(), before);
    untouched(&root, "moved folders");
}

#[test]
fn a_link_at_a_torn_copy_is_not_written_through_and_keeps_the_log_from_being_cut() {
    for verb in ["append", "recover"] {
        let root = Root::new();
        let (_, file) = victim(&root);
        let (path, aside) = torn(&root);
        let before = fs::read(&path).unwrap();
        symlink(&file, &aside).unwrap();
        let ran =
            root.run_with(&[verb, "s"], if verb == "append" { row(3) } else { String::new() }.as_bytes());
        untouched(&root, verb);
        match ran.code {
            // Refused, and nothing cut.
            1 => assert_eq!(fs::read(&path).unwrap(), before, "{verb}"),
            // Set aside under another name.
            code => {
                assert_eq!(code, 0, "{}", ran.stderr);
                let kept = tree(path.parent().unwrap())
                    .into_iter()
                    .any(|(_, bytes)| before.ends_with(&bytes) && bytes.len() > 64);
                assert!(kept, "{verb}");
            }
        }
        fs::remove_file(&aside).unwrap();
        root.run(&["recover", "s"]).expect(0);
    }
}

#[test]
fn a_link_at_an_output_is_an_output_that_exists() {
    let root = Root::new();
    let (folder, file) = victim(&root);
    let (path, _) = torn(&root);
    let log = path.to_str().unwrap();
    for target in [&file, &root.scratch().join("nothing")] {
        let out = root.scratch().join("out.jsonl");
        for end in ["", ".other.jsonl", ".damaged"] {
            let link = PathBuf::from(format!("{}{end}", out.display()));
            symlink(target, &link).unwrap();
            let saved = seslog(&["recover", log, "--salvage", out.to_str().unwrap()], b"");
            // There are no rows in two versions here, so nothing goes to that name.
            assert_eq!(saved.code == 1, end != ".other.jsonl", "{end}: {}{}", saved.text(), saved.stderr);
            if end.is_empty() {
                seslog(&["convert", log, out.to_str().unwrap()], b"").expect(1).says("exists");
            }
            fs::remove_file(&link).unwrap();
            let _made = (fs::remove_file(&out), fs::remove_file(format!("{}.damaged", out.display())));
            untouched(&root, end);
        }
    }
    // A folder that a link leads to is where a person put it.
    let door = root.scratch().join("door");
    let inside = root.scratch().join("inside");
    fs::create_dir(&inside).unwrap();
    symlink(&inside, &door).unwrap();
    seslog(&["convert", log, door.join("copy.jsonl").to_str().unwrap()], b"").expect(3);
    assert!(inside.join("copy.jsonl").exists());
    assert_eq!(tree(&folder).len(), 1);
}
