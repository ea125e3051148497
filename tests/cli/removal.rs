//! `rm`, `prune` and `mv`.

use std::fs;

use serde_json::Value;

use super::program::{Root, expect_tree, row, tree};

/// Sessions `old`, `mid` and `new`, whose last events are days apart, and a sub-session of `mid` that is older than all.
fn root() -> Root {
    let root = Root::new();
    for (id, days) in [("old", 100_u64), ("mid", 50), ("new", 1)] {
        root.run(&["new", "--id", id, "--cwd", "/w"]).expect(0);
        root.run_with(&["append", id], dated(0, days).as_bytes()).expect(0);
    }
    let header = r#"{"type":"session","version":2,"id":"sub","createdAt":5,"cwd":"/w","parentSession":"mid","isSeeded":false,"origin":"subagent","delegationDepth":1}"#;
    root.run_with(&["import", "-"], format!("{header}\n{}", dated(0, 200)).as_bytes()).expect(0);
    root
}

fn dated(seq: u64, days_ago: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let row = row(seq);
    let mut row: Value = serde_json::from_str(&row).unwrap();
    row["time"] = (now - days_ago * 86_400_000).into();
    // The order of members is the writer's.
    format!("{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":{},\"data\":{}}}\n", row["time"], row["data"])
}

fn ids(root: &Root) -> Vec<String> {
    let mut ids: Vec<String> = root
        .run(&["ls", "--json"])
        .expect(0)
        .json()
        .iter()
        .map(|one| one["id"].as_str().unwrap().into())
        .collect();
    ids.sort();
    ids
}

#[test]
fn sessions_are_deleted_with_their_folders_and_nothing_else() {
    let root = root();
    let before = tree(&root.path());
    root.run(&["rm", "old", "--dry-run"]).expect(0);
    root.run(&["rm", "old", "nowhere"]).expect(1).says("nowhere");
    expect_tree(&root.path(), &before);
    let log = root.log("old");
    root.run(&["rm", log.to_str().unwrap()]).expect(2).says("deleted as a whole");

    let ran = root.run(&["rm", "old", "new", "--json"]).expect(0);
    assert_eq!(ran.json().iter().map(|one| one["id"].clone()).collect::<Vec<_>>(), ["old", "new"]);
    assert!(ran.json().iter().all(|one| one["files"] == 1 && one["deleted"] == true));
    assert!(!log.parent().unwrap().exists());
    assert_eq!(ids(&root), ["mid", "sub"]);
    root.run(&["rm", "mid", "-r"]).expect(0);
    assert_eq!(ids(&root), [""; 0]);
    assert_eq!(tree(&root.path()), [], "the project's folder went with its last session");
}

#[test]
fn a_session_that_is_written_is_not_deleted() {
    let root = root();
    let mut writer = root.spawn(&["append", "mid"]);
    let input = writer.stdin.as_mut().unwrap();
    std::io::Write::write_all(input, dated(1, 1).as_bytes()).unwrap();
    let mut said = std::io::BufReader::new(writer.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut String::new()).unwrap();
    root.run(&["rm", "mid"]).expect(1).says("not deleted");
    root.run(&["prune", "--all", "--keep", "0", "--yes"]).expect(1).says("not deleted");
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    assert_eq!(ids(&root), ["mid"]);
}

#[test]
fn pruning_goes_by_the_last_activity_of_a_session_and_its_sub_sessions() {
    let root = root();
    let before = tree(&root.path());
    root.run(&["prune", "--older-than", "30d"]).expect(2);
    let planned = root.run(&["prune", "--older-than", "70d", "--dry-run", "--json"]).expect(0).json();
    assert_eq!(planned.iter().map(|one| one["id"].clone()).collect::<Vec<_>>(), ["old"]);
    root.run(&["prune", "--older-than", "30d", "--keep", "3", "--yes"]).expect(0).says("nothing to prune");
    expect_tree(&root.path(), &before);
    root.run(&["prune", "--older-than", "70d", "--yes"]).expect(0);
    assert_eq!(ids(&root), ["mid", "new", "sub"]);
    root.run(&["prune", "--max-size", "0", "--keep", "1", "--project", "/elsewhere", "--yes"]).expect(0);
    assert_eq!(ids(&root), ["mid", "new", "sub"]);
    root.run(&["prune", "--max-size", "0", "--keep", "1", "--project", "/w", "--yes"]).expect(0);
    assert_eq!(ids(&root), ["new"]);
}

#[test]
fn what_is_not_in_order_is_never_pruned() {
    let root = root();
    let log = root.log("old");
    let mut bytes = fs::read(&log).unwrap();
    bytes[3] ^= 1;
    fs::write(&log, bytes).unwrap();
    root.run(&["prune", "--all", "--keep", "0", "--yes"]).expect(0).says("left alone");
    assert!(log.exists());
    root.run(&["rm", log.parent().unwrap().to_str().unwrap()]).expect(0);
    assert!(!log.exists());
}

#[test]
fn the_sessions_of_a_project_move_with_its_folder_and_with_those_inside_of_it() {
    let root = Root::new();
    let dirs = ["old", "old/inner", "older", "new"].map(|name| root.scratch().join(name));
    dirs.iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
    let [old, inner, older, new] = dirs.map(|dir| dir.to_str().unwrap().to_owned());
    for (id, cwd, encoding) in [("a", &old, "indexed"), ("b", &inner, "zstd"), ("c", &older, "plain")] {
        root.run(&["new", "--id", id, "--cwd", cwd, "--encoding", encoding]).expect(0);
        root.append(id, 0..30);
    }
    let before = tree(&root.path());
    let planned = root.run(&["mv", &old, &new, "--dry-run", "--json"]).expect(0).json();
    expect_tree(&root.path(), &before);
    let moved = root.run(&["mv", &format!("{old}/"), &new, "--json"]).expect(0).json();
    assert_eq!(planned.len(), 2);
    for (planned, moved) in planned.iter().zip(&moved) {
        assert_eq!((&planned["moved"], &moved["moved"]), (&false.into(), &true.into()));
        assert_eq!(planned["path"], moved["path"]);
    }
    let cwd = |id: &str| root.run(&["stat", id, "--json"]).expect(0).object()["cwd"].clone();
    assert_eq!(
        (cwd("a"), cwd("b"), cwd("c")),
        (new.clone().into(), format!("{new}/inner").into(), older.into())
    );
    for id in ["a", "b", "c"] {
        let rows: Vec<String> = (0..30).map(|seq| row(seq).trim_end().to_owned()).collect();
        assert_eq!(root.events(id), rows);
        root.append(id, 30..31);
    }
    root.run(&["verify", root.path().to_str().unwrap()]).expect(0);
    root.run(&["mv", &old, &new]).expect(0).says("no session");
    root.run(&["mv", &new, &new]).expect(2);
}
