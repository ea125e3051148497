//! The cases of `../shared/cases`, copied to `tests/data/cases`: what the program makes of logs from real bug reports.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::program::{Ran, Root, copy, expect_tree, has_program, seslog, tree};

/// Name of a case's folder, by its number.
fn folder(number: &str) -> PathBuf {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let found = fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path());
    found
        .into_iter()
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{number}-")))
        .unwrap_or_else(|| panic!("case {number} is in tests/data/cases"))
}

/// A case in a scratch folder, and what is expected of it.
struct Case {
    root: Root,
    checks: Vec<Value>,
}

impl Case {
    fn new(number: &str) -> Self {
        let from = folder(number);
        let expected = fs::read(from.join("expected.json")).unwrap();
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        let checks = expected["checks"].as_array().unwrap().clone();
        let root = Root::copy_of(&from);
        Self { root, checks }
    }

    fn path(&self, input: &str) -> PathBuf {
        self.root.path().join(input)
    }

    /// A verb on one file of the case.
    fn on(&self, verb: &str, input: &str, more: &[&str]) -> Ran {
        let path = self.path(input);
        let mut args = vec![verb, path.to_str().unwrap()];
        args.extend(more);
        seslog(&args, b"")
    }

    fn verify(&self, input: &str) -> (i32, Value) {
        let ran = self.on("verify", input, &["--json"]);
        (ran.code, ran.object())
    }

    /// Salvages one file and gives the words of the JSON answer and the saved lines.
    fn salvage(&self, input: &str) -> (Ran, Vec<Vec<u8>>) {
        let out = self.root.scratch().join(format!("saved-{}", input.replace('/', "_")));
        let before = fs::read(self.path(input)).unwrap();
        let ran = self.on("recover", input, &["--json", "--salvage", out.to_str().unwrap()]);
        assert_eq!(fs::read(self.path(input)).unwrap(), before, "salvage leaves the log alone");
        let saved = fs::read(&out).unwrap_or_default();
        let lines =
            saved.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
        (ran, lines)
    }
}

fn number(check: &Value, name: &str) -> u64 {
    check["values"][name].as_u64().unwrap_or_else(|| panic!("{name} in {check}"))
}

fn input(check: &Value) -> &str {
    check["input"].as_str().unwrap()
}

/// A log that is damaged before its end: refused by `recover` and by plain reading, never a byte changed.
fn refuses_and_keeps(case: &Case, file: &str) {
    let before = tree(&case.root.path());
    case.on("cat", file, &[]).expect(1).says("next: ");
    case.on("recover", file, &["--dry-run"]).expect(1);
    let ran = case.on("recover", file, &[]).expect(1).says("next: ");
    assert!(ran.stderr.contains("--salvage"), "{}", ran.stderr);
    expect_tree(&case.root.path(), &before);
}

#[test]
fn r01_two_writers_used_the_same_numbers() {
    let case = Case::new("R01");
    for check in &case.checks {
        let file = input(check);
        let (code, verified) = case.verify(file);
        assert_eq!((code, verified["state"].as_str()), (3, Some("corrupt")), "{file}");
        assert!(verified.get("tornAt").is_none());
        let rows = check["values"].get("rows").or(check["values"].get("stored_rows")).unwrap();
        assert_eq!(&verified["rows"], rows);
        let damage = &verified["damage"][0];
        assert_eq!(damage["kind"], "repeat");
        assert_eq!(
            (&damage["expected"], &damage["got"]),
            (&check["values"]["expected_seq"], &check["values"]["got_seq"])
        );
        if let Some(frame) = check["values"].get("frame_index") {
            assert_eq!(&damage["frame"], frame);
        }
        if let Some(before) = check["values"].get("rows_before") {
            assert_eq!(
                (&damage["rowsBefore"], &damage["rowsAfter"]),
                (before, &check["values"]["rows_after"])
            );
        }
        refuses_and_keeps(&case, file);
        let lenient = case.on("cat", file, &["--lenient", "--rows", "--no-header"]).expect(3);
        assert_eq!(lenient.lines().len() as u64, rows.as_u64().unwrap());
        let append = {
            let path = case.path(file);
            seslog(
                &["append", path.to_str().unwrap()],
                b"{\"type\":\"plan/mode\",\"data\":{\"active\":true}}\n",
            )
        };
        append.expect(1);

        let (ran, saved) = case.salvage(file);
        let answer = ran.expect(3).object();
        assert_eq!(saved.len() as u64, answer["rows"].as_u64().unwrap() + 1);
        let doubled = check["values"]["doubled_seqs"].as_array().unwrap().len() as u64;
        assert_eq!(answer["otherRows"].as_u64(), Some(doubled), "{file}");
        assert!(Path::new(answer["other"].as_str().unwrap()).is_file(), "the other side is kept");
        if let Some(events) = check["values"].get("events_after_recover") {
            assert_eq!(&answer["events"], events);
        }
        if let Some(longest) = check["values"].get("rows_of_longest_chain") {
            assert_eq!(&answer["rows"], longest);
        }
    }
}

#[test]
fn r07_numbers_are_missing_in_the_middle() {
    let case = Case::new("R07");
    for check in &case.checks {
        let file = input(check);
        let (code, verified) = case.verify(file);
        assert_eq!((code, verified["state"].as_str()), (3, Some("corrupt")));
        let damage = &verified["damage"][0];
        assert_eq!(damage["kind"], "gap");
        assert_eq!(
            (&damage["expected"], &damage["got"]),
            (&check["values"]["expected_seq"], &check["values"]["got_seq"])
        );
        if let Some(line) = check["values"].get("line") {
            assert_eq!(&damage["line"], line);
        }
        assert_eq!(damage["rowsBefore"].as_u64(), Some(number(check, "rows_before_gap")));
        assert!(verified["damage"][0]["message"].as_str().unwrap().contains("2 missing"));
        refuses_and_keeps(&case, file);
        let strict = case.on("cat", file, &["--no-header"]).expect(1);
        assert_eq!(
            strict.lines().len() as u64,
            number(check, "rows_before_gap"),
            "and the error says that it is not all"
        );
        let all = case.on("cat", file, &["--no-header", "--lenient"]).expect(3);
        assert_eq!(all.lines().len() as u64, number(check, "rows"));
        let (ran, saved) = case.salvage(file);
        let answer = ran.expect(3).object();
        assert_eq!(saved.len() as u64, number(check, "rows") + 1);
        assert_eq!(answer["missing"][0]["start"].as_u64(), Some(4));
        assert_eq!(answer["missing"][0]["end"].as_u64(), Some(6));
    }
}

#[test]
fn r10_torn_final_frame() {
    let case = Case::new("R10");
    for check in &case.checks {
        let file = input(check);
        let values = &check["values"];
        let before = fs::read(case.path(file)).unwrap();
        let (code, verified) = case.verify(file);
        if number(check, "frames") == 0 {
            assert_eq!((code, verified["state"].as_str()), (3, Some("corrupt")), "{file}");
            case.on("cat", file, &[]).expect(1).says("header");
            case.on("recover", file, &[]).expect(1);
            let (ran, saved) = case.salvage(file);
            ran.expect(1).says("nothing in it can be read");
            assert!(saved.is_empty());
            assert!(!case.root.scratch().join(format!("saved-{}", file.replace('/', "_"))).exists());
            assert_eq!(fs::read(case.path(file)).unwrap(), before);
            continue;
        }
        let torn = !values["torn_at"].is_null();
        assert_eq!(
            (code, verified["state"].as_str()),
            if torn { (3, Some("torn")) } else { (0, Some("ok")) },
            "{file}"
        );
        assert_eq!(verified["frames"], values["frames"]);
        assert_eq!(verified["rows"], values["rows_intact"]);
        if torn {
            assert_eq!(verified["tornAt"], values["torn_at"]);
            assert_eq!(
                verified["tornBytes"].as_u64(),
                Some(number(check, "bytes") - number(check, "torn_at"))
            );
            assert_eq!(verified["recoverableEvents"], values["rows_intact"]);
            assert_eq!(verified["damage"][0]["kind"], "torn");
        }
        let read = case.on("cat", file, &["--no-header"]).expect(if torn { 3 } else { 0 });
        assert_eq!(read.lines().len() as u64, number(check, "rows_intact"));
        let (ran, saved) = case.salvage(file);
        ran.expect(if torn { 3 } else { 0 });
        let salvageable = number(check, "rows_salvageable");
        assert_eq!(saved.len() as u64, 1 + number(check, "rows_intact") + salvageable, "{file}");

        case.on("recover", file, &["--dry-run"]).expect(if torn { 3 } else { 0 });
        assert_eq!(fs::read(case.path(file)).unwrap(), before, "reading, verifying, planning change no byte");
        let answer = case.on("recover", file, &["--json"]).expect(0).object();
        let after = fs::read(case.path(file)).unwrap();
        if torn {
            assert_eq!(after, before[..number(check, "torn_at") as usize], "the torn frame goes whole");
            let aside = fs::read(answer["setAside"].as_str().unwrap()).unwrap();
            assert_eq!(aside, before[number(check, "torn_at") as usize..], "and is kept beside");
        } else {
            assert_eq!(after, before);
            assert_eq!(answer["outcome"], "nothing");
        }
        assert_eq!(case.verify(file).0, 0, "{file}");
        assert_eq!(
            case.on("stat", file, &["--json"]).expect(0).object()["eventCount"],
            values["rows_intact"]
        );
    }
}

#[test]
fn r11_fused_rows_after_a_full_disk() {
    let case = Case::new("R11");
    for check in &case.checks {
        let file = input(check);
        if check["values"].get("damaged_lines").is_none() {
            let (code, verified) = case.verify(file);
            assert_eq!((code, verified["state"].as_str()), (3, Some("torn")));
            assert_eq!(verified["tornBytes"], check["values"]["torn_bytes"]);
            assert_eq!(verified["events"], check["values"]["rows_before"]);
            case.on("recover", file, &[]).expect(0);
            assert_eq!(
                case.on("stat", file, &["--json"]).expect(0).object()["eventCount"],
                check["values"]["next_seq"]
            );
            continue;
        }
        let (code, verified) = case.verify(file);
        assert_eq!((code, verified["state"].as_str()), (3, Some("corrupt")));
        assert_eq!(verified["rows"], check["values"]["rows_intact"]);
        let damage = &verified["damage"];
        assert_eq!(damage.as_array().unwrap().len(), 1, "{damage}");
        assert_eq!(damage[0]["kind"], "fused rows");
        assert_eq!(
            (&damage[0]["line"], &damage[0]["at"]),
            (&check["values"]["line"], &check["values"]["line_offset"])
        );
        refuses_and_keeps(&case, file);
        let lenient = case.on("cat", file, &["--no-header", "--lenient"]).expect(3);
        assert_eq!(lenient.lines().len() as u64, number(check, "rows_intact"));
        let (ran, saved) = case.salvage(file);
        let answer = ran.expect(3).object();
        assert_eq!(saved.len() as u64, 1 + number(check, "rows_after_recover"));
        let damaged = fs::read(answer["damaged"].as_str().unwrap()).unwrap();
        assert_eq!(damaged.len() as u64, number(check, "torn_bytes"), "the torn bytes are kept aside");
        let missing = check["values"]["missing_seqs"].as_array().unwrap();
        assert_eq!(answer["missing"].as_array().unwrap().len(), missing.len());
    }
}

#[test]
fn r20_empty_and_header_only() {
    let case = Case::new("R20");
    for check in &case.checks {
        let root = case.path(input(check));
        let listed = seslog(&["ls", root.to_str().unwrap(), "--json"], b"").expect(3).json();
        let expected = check["values"]["sessions"].as_array().unwrap();
        assert_eq!(listed.len(), expected.len(), "nothing is left out");
        let before = tree(&root);
        for session in expected {
            let name = session.get("id").or(session.get("folder")).unwrap().as_str().unwrap();
            let found = listed.iter().find(|row| row["path"].as_str().unwrap().contains(name)).unwrap();
            let state = match session["state"].as_str().unwrap() {
                "healthy" => "ok",
                "torn header line" => "corrupt",
                _ => "empty",
            };
            assert_eq!(found["state"], state, "{name}");
            assert_eq!(found["eventCount"], session["rows"].clone().take_unless(state != "ok"), "{name}");
            let code = if state == "ok" { 0 } else { 3 };
            let on = |args: &[&str]| {
                let mut all = vec!["--root", root.to_str().unwrap()];
                all.extend(args);
                seslog(&all, b"")
            };
            assert_eq!(on(&["stat", name, "--json"]).expect(code).object()["state"], state);
            let read = on(&["cat", name, "--no-header"]);
            assert_eq!(read.code == 0, state == "ok", "{name}: {}", read.stderr);
            assert_eq!(read.lines().len() as u64, session["rows"].as_u64().unwrap_or(0));
            let recovered = on(&["recover", name]);
            assert_eq!(recovered.code == 0, state == "ok", "{name}: {}", recovered.stderr);
            if state != "ok" {
                assert!(
                    !recovered.stderr.contains("generation"),
                    "not a format version problem: {}",
                    recovered.stderr
                );
            }
        }
        let verified = seslog(&["verify", root.to_str().unwrap(), "--json"], b"").expect(3).json();
        assert_eq!(
            verified.iter().filter(|row| row["state"] == "ok").count(),
            listed.iter().filter(|row| row["state"] == "ok").count()
        );
        expect_tree(&root, &before);
    }
}

trait TakeUnless {
    fn take_unless(self, condition: bool) -> Self;
}

impl TakeUnless for Value {
    /// Null where `condition` holds: what a missing member reads as.
    fn take_unless(self, condition: bool) -> Self {
        if condition { Self::Null } else { self }
    }
}

#[test]
fn r23_complete_frame_bad_checksum() {
    let case = Case::new("R23");
    for check in &case.checks {
        let file = input(check);
        let (code, verified) = case.verify(file);
        assert_eq!((code, verified["state"].as_str()), (3, Some("corrupt")), "{file}");
        assert!(verified.get("tornAt").is_none(), "not torn: {verified}");
        let damage = &verified["damage"][0];
        assert_eq!(damage["kind"], "checksum");
        assert_eq!(
            (&damage["frame"], &damage["at"]),
            (&check["values"]["undecodable_frames"][0], &check["values"]["bad_frame_at"])
        );
        let lenient = case.on("cat", file, &["--no-header", "--lenient"]).expect(3);
        assert_eq!(lenient.lines().len() as u64, number(check, "good_rows"), "{file}");
        let (ran, saved) = case.salvage(file);
        let answer = ran.expect(3).object();
        let header = u64::from(answer["hasHeader"].as_bool().unwrap());
        assert_eq!(saved.len() as u64, header + number(check, "good_rows"), "{file}");
        let damaged = fs::read(answer["damaged"].as_str().unwrap()).unwrap();
        assert!(!damaged.is_empty(), "the bytes of the bad frame are kept");
        if !file.contains("last-frame") {
            refuses_and_keeps(&case, file);
            continue;
        }
        let before = fs::read(case.path(file)).unwrap();
        case.on("cat", file, &["--no-header"]).expect(3).says("may have been acknowledged");
        case.on("recover", file, &["--dry-run"]).expect(3);
        assert_eq!(fs::read(case.path(file)).unwrap(), before);
        // An explicit request goes on, keeps the bytes, and says that something may be lost.
        let answer = case.on("recover", file, &["--json"]).expect(3).object();
        let at = number(check, "bad_frame_at") as usize;
        assert_eq!(fs::read(answer["setAside"].as_str().unwrap()).unwrap(), before[at..]);
        assert_eq!(fs::read(case.path(file)).unwrap(), before[..at]);
        assert_eq!(case.verify(file).0, 0);
    }
}

#[test]
fn r25_magic_inside_frame() {
    let case = Case::new("R25");
    for check in &case.checks {
        let file = input(check);
        let (code, verified) = case.verify(file);
        if file.contains("checksum-is-magic") {
            assert_eq!((code, &verified["rows"]), (0, &check["values"]["rows_intact"]));
            let read = case.on("cat", file, &["--no-header"]).expect(0);
            assert_eq!(read.lines().len() as u64, number(check, "rows_intact"));
        } else if file.contains("raw-block") {
            assert_eq!((code, verified["state"].as_str()), (3, Some("corrupt")));
            assert_eq!(verified["damage"].as_array().unwrap().len(), 1, "the only damaged row");
            let damage = &verified["damage"][0];
            assert_eq!(damage["kind"], "not UTF-8");
            assert_eq!(
                (&damage["seq"], &damage["textAt"]),
                (&check["values"]["damaged_row_seq"], &check["values"]["damaged_row_text_offset"])
            );
            case.on("cat", file, &[]).expect(1);
            let events = case.on("cat", file, &["--no-header", "--lenient"]).expect(3);
            assert_eq!(events.lines().len() as u64, number(check, "good_rows"));
            let rows = case.on("cat", file, &["--no-header", "--lenient", "--rows"]).expect(3);
            assert_eq!(rows.lines().len() as u64, number(check, "rows"), "the bytes of the damaged row too");
        } else {
            assert_eq!(code, 3);
            assert_eq!(verified["damage"][0]["at"], check["values"]["skippable_frame_at"]);
            for args in [&["--no-header"][..], &["--no-header", "--lenient"]] {
                let read = case.on("cat", file, args);
                assert!(!read.text().contains("\"seq\":9,"), "the payload is never read as rows");
            }
        }
    }
}

#[test]
fn r28_five_thousand_frames() {
    let case = Case::new("R28");
    let rows = |file: &str| case.on("cat", file, &["--no-header"]).expect(0).stdout;
    let (many, twin) = ("input/many-frames/session.jsonl.zstd", "input/twin-one-batch/session.jsonl.zstd");
    let text = rows(many);
    assert_eq!(text, rows(twin));
    assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count(), 5000);
    let (code, verified) = case.verify(many);
    assert_eq!((code, &verified["frames"], &verified["rows"]), (0, &Value::from(5001), &Value::from(5000)));
    let stat = case.on("stat", many, &["--json", "--count"]).expect(0).object();
    assert_eq!(
        (&stat["eventCount"], &stat["frames"], &stat["events"]),
        (&Value::from(5000), &Value::from(5001), &Value::from(5000))
    );
    if has_program("sha256sum") {
        let path = case.root.scratch().join("rows");
        fs::write(&path, &text).unwrap();
        let output = std::process::Command::new("sha256sum").arg(&path).output().unwrap();
        let sum = String::from_utf8(output.stdout).unwrap();
        assert!(sum.starts_with(case.checks[0]["values"]["rows_sha256"].as_str().unwrap()), "{sum}");
    } else {
        super::common::skip("there is no sha256sum here");
    }
    // No buffer is kept for each frame: this much address space is enough for all 5,000.
    let path = case.path(many);
    let limited =
        format!("ulimit -v 131072; exec '{}' cat '{}'", env!("CARGO_BIN_EXE_seslog"), path.display());
    let output = std::process::Command::new("sh").args(["-c", &limited]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn r37_two_generations_and_strays() {
    let case = Case::new("R37");
    let root = case.path("root");
    let root_arg = root.to_str().unwrap();
    let before = tree(&root);
    let listed = seslog(&["ls", root_arg, "--json"], b"").expect(0).json();
    let expected = case.checks[0]["values"]["sessions"].as_array().unwrap();
    assert_eq!(listed.len(), expected.len());
    for session in expected {
        let found = listed.iter().find(|row| row["id"] == session["id"]).unwrap();
        assert_eq!((&found["generation"], &found["eventCount"]), (&session["generation"], &session["rows"]));
        assert!(found["path"].as_str().unwrap().ends_with(session["current"].as_str().unwrap()));
        let stat = seslog(&["--root", root_arg, "stat", session["id"].as_str().unwrap(), "--json"], b"")
            .expect(0)
            .object();
        let older = stat.get("older").map_or(0, |older| older.as_array().unwrap().len());
        assert_eq!(older, session["older"].as_array().unwrap().len());
    }
    let total: u64 = listed.iter().map(|row| row["eventCount"].as_u64().unwrap()).sum();
    assert_eq!(total, number(&case.checks[0], "rows_total"));

    let verified = seslog(&["verify", root_arg, "--json"], b"").expect(0).json();
    let strays: Vec<String> = verified
        .iter()
        .filter_map(|row| row.get("strays"))
        .flat_map(|strays| strays.as_array().unwrap())
        .map(|stray| stray.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(strays.len() as u64, number(&case.checks[0], "strays"), "{strays:?}");
    let told = seslog(&["verify", root_arg], b"").expect(0);
    assert!(
        told.text().contains("left over from an interrupted write: session.v2.jsonl.zstd.9f3a1c0b2d4e.tmp"),
        "{}",
        told.text()
    );

    let one = "session-00000000-0000-4000-8000-000000000001";
    let rows = |args: &[&str]| {
        let mut all = vec!["--root", root_arg, "cat", "--no-header"];
        all.extend(args);
        seslog(&all, b"").expect(0).lines().len() as u64
    };
    assert_eq!(rows(&[one]), number(&case.checks[1], "rows_default"));
    let old = root.join("--home-dev-demo--").join(one).join("session.jsonl.zstd");
    assert_eq!(rows(&[old.to_str().unwrap()]), number(&case.checks[1], "rows_generation_0"));
    expect_tree(&root, &before);
}

#[test]
fn r40_version_disagrees_with_name() {
    let case = Case::new("R40");
    let root = case.path("root");
    let root_arg = root.to_str().unwrap();
    let listed = seslog(&["ls", root_arg, "--json"], b"").expect(3).json();
    let verified = seslog(&["verify", root_arg, "--json"], b"").expect(3).json();
    let sessions = case.checks[0]["values"]["sessions"].as_array().unwrap();
    assert_eq!(listed.len(), sessions.len());
    for session in sessions {
        let id = session["id"].as_str().unwrap();
        let of = |rows: &[Value]| {
            rows.iter().find(|row| row["path"].as_str().unwrap().contains(id)).unwrap().clone()
        };
        let (row, checked) = (of(&listed), of(&verified));
        let state = match session["state"].as_str().unwrap() {
            "healthy" => "ok",
            "refused" => "refused",
            _ => "empty",
        };
        assert_eq!((row["state"].as_str(), checked["state"].as_str()), (Some(state), Some(state)), "{id}");
        let cat = seslog(&["--root", root_arg, "cat", id], b"");
        assert_eq!(cat.code == 0, state == "ok", "{id}: {}", cat.stderr);
        match state {
            "refused" => {
                for version in ["name_version", "header_version"] {
                    let words = format!("v{}", session[version]);
                    assert!(row["error"].as_str().unwrap().contains(&words), "{row}");
                }
                assert!(cat.stdout.is_empty());
            }
            "empty" => {
                assert!(row["error"].as_str().unwrap().contains(session["file"].as_str().unwrap()), "{row}");
                assert!(checked["strays"][0].as_str().unwrap().ends_with(session["file"].as_str().unwrap()));
            }
            _ => assert_eq!(row["eventCount"], session["rows"]),
        }
    }
    let raw = case
        .on("cat", input(&case.checks[1]), &["--rows", "--no-header"])
        .expect(3)
        .says("the name says generation v2");
    assert_eq!(raw.lines().len() as u64, number(&case.checks[1], "rows"));
    // Named by its path, a file without a canonical name is judged by its content.
    let odd = "root/--home-dev-demo--/session-00000000-0000-4000-8000-000000000003/session.v02.jsonl.zstd";
    assert_eq!(case.verify(odd).1["state"], "ok");
}

#[test]
fn r43_unknown_required_event() {
    let case = Case::new("R43");
    for check in &case.checks {
        let file = input(check);
        let bytes = fs::read(case.path(file)).unwrap();
        let (code, verified) = case.verify(file);
        let raw = case.on("cat", file, &["--rows"]);
        assert_eq!(raw.stdout, bytes, "the raw rows are there, byte for byte: {file}");
        match check["values"].get("ignorable") {
            Some(Value::Bool(false)) => {
                assert_eq!((code, verified["state"].as_str()), (3, Some("unsupported")));
                assert_eq!(verified["rows"], check["values"]["rows_intact"]);
                let error = verified["error"].as_str().unwrap();
                assert!(error.contains("acme-plugin/status") && error.contains("event 3"), "{error}");
                assert!(!error.contains("corrupt"), "{error}");
                let damage = &verified["damage"][0];
                assert_eq!(
                    (damage["kind"].as_str(), &damage["seq"]),
                    (Some("unknown type"), &check["values"]["unknown_seq"])
                );
                let refused = case.on("cat", file, &["--current"]).expect(1);
                assert!(refused.stdout.is_empty());
                assert!(!refused.stderr.contains("corrupt"), "{}", refused.stderr);
            }
            Some(_) => {
                assert_eq!((code, raw.code), (0, 0));
                let read = case.on("cat", file, &["--no-header"]).expect(0);
                assert_eq!(read.lines().len() as u64, number(check, "rows_intact"));
            }
            None => {
                assert_eq!((code, verified["state"].as_str()), (3, Some("unsupported")));
                assert_eq!(verified["damage"][0]["kind"], "unknown member");
                assert!(!verified["error"].as_str().unwrap().contains("corrupt"));
            }
        }
        assert_eq!(fs::read(case.path(file)).unwrap(), bytes);
    }
}

#[test]
fn r65_ids_that_climb_out() {
    let case = Case::new("R65");
    let root = case.path("root");
    let root_arg = root.to_str().unwrap();
    let listed = seslog(&["ls", root_arg, "--json"], b"").expect(3).json();
    let sessions = case.checks[0]["values"]["sessions"].as_array().unwrap();
    assert_eq!(listed.len(), sessions.len());
    let shown = seslog(&["ls", root_arg], b"").expect(3);
    assert!(!shown.stdout.iter().any(|&byte| byte < b' ' && byte != b'\n'), "{}", shown.text());
    let around = tree(case.root.scratch());
    for session in sessions {
        let id = session["id"].as_str().unwrap();
        let row = listed.iter().find(|row| row["id"] == id).unwrap();
        assert!(row["path"].as_str().unwrap().contains(session["folder"].as_str().unwrap()));
        let healthy = session["state"] == "healthy";
        assert_eq!(row["state"], if healthy { "ok" } else { "refused" });
        let on = |args: &[&str]| {
            let mut all = vec!["--root", root_arg];
            all.extend(args);
            seslog(&all, b"")
        };
        if !healthy {
            for name in [id, session["folder"].as_str().unwrap()] {
                on(&["cat", name]).expect(1);
                on(&["cat", name, "--rows"]).expect(1);
                on(&["recover", name]).expect(1);
            }
            let named = on(&["cat", row["path"].as_str().unwrap(), "--no-header"]).expect(0);
            assert_eq!(named.lines().len(), 3, "its path still leads there");
            continue;
        }
        let read = on(&["cat", id, "--no-header"]).expect(0);
        assert_eq!(read.lines().len() as u64, session["rows"].as_u64().unwrap(), "{id}");
        on(&["recover", id]).expect(0);
        let out = case.root.scratch().join("out.jsonl");
        on(&["convert", id, out.to_str().unwrap(), "--encoding", "plain"]).expect(0);
        on(&["recover", id, "--salvage", case.root.scratch().join("saved.jsonl").to_str().unwrap()])
            .expect(0);
        fs::remove_file(&out).unwrap();
        fs::remove_file(case.root.scratch().join("saved.jsonl")).unwrap();
    }
    expect_tree(case.root.scratch(), &around);
}

#[test]
fn r72_lone_surrogate_escapes() {
    let case = Case::new("R72");
    for check in &case.checks {
        let file = input(check);
        let source = fs::read(case.path(file)).unwrap();
        let (code, verified) = case.verify(file);
        let rows = |ran: &Ran| ran.lines().len() as u64;
        if number(check, "damaged_lines") == 0 {
            assert_eq!((code, &verified["rows"]), (0, &check["values"]["rows"]));
            assert_eq!(case.on("cat", file, &[]).expect(0).stdout, source);
            assert_eq!(case.on("cat", file, &["--rows"]).expect(0).stdout, source);
            assert_eq!(
                case.on("stat", file, &["--json"]).expect(0).object()["eventCount"],
                check["values"]["rows"]
            );
            for encoding in ["indexed", "zstd"] {
                let out = case.root.scratch().join(format!("{}.{encoding}", file.replace('/', "_")));
                case.on("convert", file, &[out.to_str().unwrap(), "--encoding", encoding]).expect(0);
                assert_eq!(
                    seslog(&["cat", out.to_str().unwrap()], b"").expect(0).stdout,
                    source,
                    "{encoding}"
                );
            }
        } else {
            assert_eq!((code, verified["state"].as_str()), (3, Some("corrupt")));
            assert_eq!(verified["damage"].as_array().unwrap().len(), 1);
            let damage = &verified["damage"][0];
            assert_eq!(damage["kind"], "not UTF-8");
            assert_eq!(
                (&damage["line"], &damage["at"]),
                (&check["values"]["line"], &check["values"]["line_offset"])
            );
            refuses_and_keeps(&case, file);
            let lenient = case.on("cat", file, &["--no-header", "--lenient"]).expect(3);
            assert_eq!(rows(&lenient), number(check, "rows_intact"));
            let bytes = case.on("cat", file, &["--lenient", "--rows"]).expect(3);
            assert_eq!(bytes.stdout, source, "rows are bytes");
        }
    }
}

#[test]
fn r74_one_bad_file_in_root() {
    let case = Case::new("R74");
    let root = case.path("root");
    let root_arg = root.to_str().unwrap();
    let listed = seslog(&["ls", root_arg, "--json"], b"").expect(3).json();
    let sessions = case.checks[0]["values"]["sessions"].as_array().unwrap();
    assert_eq!(listed.len(), sessions.len());
    for session in sessions {
        let name = session.get("id").or(session.get("folder")).unwrap().as_str().unwrap();
        let row = listed.iter().find(|row| row["path"].as_str().unwrap().contains(name)).unwrap();
        if session["state"] == "healthy" {
            assert_eq!((row["state"].as_str(), &row["eventCount"]), (Some("ok"), &session["rows"]));
        } else {
            assert_eq!(row["state"], "corrupt", "{row}");
            assert!(row["error"].as_str().unwrap().contains(name), "its path, and a reason");
        }
        if session["reason"] == "byte order mark" {
            assert!(row["error"].as_str().unwrap().contains("byte order mark"), "{row}");
        }
    }
    let rows = |check: &Value, args: &[&str]| case.on("cat", input(check), args);
    let healthy = &case.checks[1];
    assert_eq!(rows(healthy, &["--no-header"]).expect(0).lines().len() as u64, number(healthy, "rows"));
    let path = case.path(input(healthy));
    let appended =
        seslog(&["append", path.to_str().unwrap(), "--json"], b"{\"type\":\"plan/mode\",\"data\":{}}\n")
            .expect(0)
            .object();
    assert_eq!(appended["nextSeq"].as_u64(), Some(number(healthy, "next_seq") + 1));
    let marked = &case.checks[2];
    rows(marked, &[]).expect(1).says("not JSON");
    assert_eq!(
        rows(marked, &["--no-header", "--rows", "--lenient"]).expect(3).lines().len() as u64,
        number(marked, "rows")
    );
    let (ran, saved) = case.salvage(input(marked));
    ran.expect(3);
    assert!(saved.iter().all(|line| line.starts_with(b"{")), "no mark in what is written anew");
    let headless = &case.checks[3];
    assert_eq!(
        rows(headless, &["--no-header", "--rows", "--lenient"]).expect(3).lines().len() as u64,
        number(headless, "rows")
    );
    let (ran, saved) = case.salvage(input(headless));
    assert_eq!(ran.expect(3).object()["hasHeader"], false, "no id is made up");
    assert_eq!(saved.len() as u64, number(headless, "rows"));
    // An append never writes a second header.
    let before = tree(&root);
    for check in &case.checks[2..] {
        let path = case.path(input(check));
        seslog(&["append", path.to_str().unwrap()], b"{\"type\":\"plan/mode\",\"data\":{}}\n").expect(1);
    }
    expect_tree(&root, &before);
}

#[test]
fn every_case_is_tested_here() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let source = include_str!("cases.rs");
    for entry in fs::read_dir(cases).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let number = name.split('-').next().unwrap().to_lowercase();
        assert!(source.contains(&format!("fn {number}_")), "{name} has no test");
    }
    let Some(shared) = super::common::shared() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (ours, theirs) = (scratch.path().join("ours"), scratch.path().join("theirs"));
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases"), &ours);
    copy(&shared.join("cases"), &theirs);
    let strip = |dir: &Path| -> Vec<_> {
        tree(dir)
            .into_iter()
            .map(|(path, bytes)| (path.strip_prefix(dir).unwrap().to_path_buf(), bytes))
            .collect()
    };
    assert!(strip(&ours) == strip(&theirs), "tests/data/cases is a copy of ../shared/cases");
}
