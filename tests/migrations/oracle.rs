//! The published packages as a black box: folders of logs in, converted logs or refusals out.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use seslog::row::Recovery;

use crate::common::Oracle;

/// What the packages made of a log.
#[derive(Debug)]
pub(crate) enum Verdict {
    Migrated(Vec<u8>),
    /// The innermost message of the error.
    Refused(String),
}

/// Converts every `*.jsonl` of `folder` to v2 in one process, by name without extension.
pub(crate) fn migrate(oracle: &Oracle, folder: &Path, recovery: Recovery) -> BTreeMap<String, Verdict> {
    let out = tempfile::tempdir().expect("a folder for results");
    let recovery = if recovery == Recovery::Strict { "strict" } else { "recoverable" };
    let text = |path: &Path| path.to_str().expect("a UTF-8 path").to_owned();
    let (to, from) = (text(out.path()), text(folder));
    let run = oracle.run("migrate", &["--to", "2", "--recovery", recovery, "--out", &to, &from], b"");
    let mut verdicts = BTreeMap::new();
    for line in run.stderr.lines() {
        let report: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("the oracle says: {line}"));
        let name = report["name"].as_str().expect("a name").to_owned();
        let error = &report["error"];
        let cause = error["cause"]["message"].as_str();
        let outer = error["message"].as_str().expect("a message");
        let stage = outer.find(" refuses this format ").map_or("", |end| &outer[..end]);
        let message = match cause {
            Some(cause) => format!("{stage}|{cause}"),
            None => format!("{}|{outer}", error["class"].as_str().expect("a class")),
        };
        verdicts.insert(name, Verdict::Refused(message));
    }
    for entry in std::fs::read_dir(out.path()).expect("results") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        verdicts.insert(name, Verdict::Migrated(std::fs::read(&path).expect("a result")));
    }
    verdicts
}

/// The stage and code that a message of the packages stands for; `*` where a message does not tell them apart.
pub(crate) fn code_of(message: &str) -> (&'static str, &'static str) {
    let (origin, text) = message.split_once('|').expect("an origin");
    let has = |part: &str| text.contains(part);
    if origin == "SyntaxError" {
        return ("decode", "json-invalid");
    }
    if has("the last line has no newline") {
        return ("decode", "torn");
    }
    if has("Session format version must be") || text.starts_with("released v") && has(" header ") {
        return ("header", "header-*");
    }
    if has("newer format v") {
        return ("header", "newer-version");
    }
    if has("physical header")
        || has("header cwd")
        || has("Session header")
        || (text.starts_with("format v") && has(" header "))
    {
        return ("header", "header-*");
    }
    if text.starts_with("released Session row") && has("JSON object") {
        return ("decode", "row-not-object");
    }
    if has("has seq gap") {
        return ("decode", "seq-gap");
    }
    if text.starts_with("released text-chunks row")
        || text.starts_with("released reasoning-chunks row")
        || text.starts_with("released tool-call-chunks row")
    {
        return ("decode", "packed-row");
    }
    let own_seq = text.starts_with("released Session row") && has("seq must be");
    if own_seq || text.starts_with("sourceEventSeqs") {
        return ("decode", "provenance-form");
    }
    if has("inheritedEventCount exceeds") {
        return ("decode", "cut-beyond-end");
    }
    if origin.ends_with("v0-to-v1")
        || text.starts_with("session \"")
        || has("format v0 ")
        || has("unsupported descriptor version")
    {
        let code = if has("unknown historical event type") {
            "v0-unknown-event"
        } else if has("contains unsupported request/header reason") {
            "v0-retired-reason"
        } else if has("contains unsupported legacy") {
            "v0-retired-event"
        } else if has("messagePrefix") {
            "v0-message-prefix"
        } else if has("malformed pre-react-loop") {
            "v0-legacy-turn"
        } else if has("descriptor version") {
            "v0-descriptor-version"
        } else if has("replacement cites a message without identity") {
            "v0-replacement-identity"
        } else if has("delivery marker names the wrong Session") {
            "delivery-session"
        } else {
            "payload-invalid"
        };
        return ("v0-v1", code);
    }
    if origin.ends_with("v1-to-v2") {
        let code = if has("Cannot read properties") { "*" } else { "payload-invalid" };
        return ("v1-v2", code);
    }
    if origin == "SessionFormatUnsupportedMigrationError" {
        let code = if has("contains unknown event type") {
            "v1-unknown-event"
        } else if has("splits one Assistant attempt") {
            "cut-splits-attempt"
        } else if has("targets consumed assistant/chunk") {
            "reference-unmapped"
        } else if has("does not close the prior turn") {
            "turn-not-closed"
        } else if has("does not cite its complete v1 chunk attempt") {
            "message-uncited"
        } else if has("chunk provenance is not one complete ordered attempt") {
            "message-provenance"
        } else if has("delivery marker names the wrong Session") {
            "delivery-session"
        } else if text.starts_with("assistant/chunk ") {
            "chunk-envelope"
        } else {
            "?"
        };
        return ("v1-v2", code);
    }
    let code = if text.starts_with("format v2 event") {
        "target-envelope"
    } else if has("delivery marker names the wrong Session") {
        "delivery-session"
    } else if has("does not match an open turn and step") {
        "relation-step"
    } else if has("replacement is outside an open turn") {
        "relation-tool"
    } else if has("compaction") || has("shadowedSeqs") {
        "relation-compaction"
    } else if has("surfaceOp marker") || has("current surface") || has("shadows") || has("replacement") {
        "relation-surface"
    } else if has("tool call") || text.starts_with("tool/call") || text.starts_with("tool/result") {
        "relation-tool"
    } else if text.starts_with("tool/code-dispatch") {
        "relation-ptc"
    } else if text.starts_with("llm/retry") {
        "relation-retry"
    } else if text.starts_with("session/title") {
        "relation-title"
    } else if text.starts_with("command/") {
        "relation-command"
    } else if text.starts_with("step/") {
        "relation-step"
    } else if text.starts_with("turn/") || has("outside an open turn") {
        "relation-turn"
    } else {
        "?"
    };
    ("target", code)
}
