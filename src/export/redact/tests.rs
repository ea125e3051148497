use proptest::prelude::*;

use super::*;
use crate::json::check;
use crate::row::Check;
use crate::stream::Settlement;

fn redactor() -> Redactor {
    Redactor::new(Rule::defaults()).unwrap()
}

/// A secret in two parts, so that no scanner of sources takes it for one.
fn key(prefix: &str, len: usize) -> String {
    format!("{prefix}{}", "Ab1".repeat(len / 3 + 1).get(..len).unwrap())
}

#[test]
fn each_kind_of_secret_is_marked_with_its_rule_and_nothing_else_goes() {
    for (rule, secret, text) in [
        ("aws", format!("AKIA{}", "ABCD1234".repeat(2)), "id {} here"),
        ("github", key("ghp_", 36), "({})"),
        ("github", key("github_pat_", 40), "x={}"),
        ("gitlab", key("glpat-", 20), "{}"),
        ("slack", key("xoxb-", 24), "{}."),
        ("slack", key("", 30), "hooks.slack.com/services/{}"),
        ("api-key", key("sk-", 32), "key {}"),
        ("api-key", key("sk-ant-api03-", 60), "{}"),
        ("api-key", key("hf_", 34), "{}"),
        ("google", key("AIza", 35), "?key={}&"),
        ("stripe", key("sk_live_", 24), "{}"),
        ("jwt", format!("{}.{}.x_1-", key("eyJ", 12), key("eyJ", 12)), "{}"),
        ("url-password", "s3cr.et%21".into(), "postgres://ann:{}@db.invalid/x"),
        ("bearer", key("", 24), "Authorization: Bearer {}"),
        ("secret", "hunter2hunter2".into(), "DB_PASSWORD={} ls"),
        ("secret", "hunter2hunter2".into(), r#"{"api_key": "{}"}"#),
        ("secret", "hunter2hunter2".into(), r#"{\"apiKey\": \"{}\"}"#),
    ] {
        let mut redactor = redactor();
        let said = redactor.text(&text.replace("{}", &secret));
        assert_eq!(said.as_deref(), Some(&*text.replace("{}", &format!("[redacted:{rule}]"))), "{text}");
        assert_eq!(redactor.found().get(rule), Some(&1));
    }
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n";
    assert_eq!(
        redactor().text(&format!("a {key}b {key}")).unwrap(),
        "a [redacted:private-key]\nb [redacted:private-key]\n"
    );
    for plain in [
        "the password is wrong",
        "tokens: 12345678 and more",
        "https://host.invalid:8080/a@b",
        "sk-short",
        "PASSWORD=$PASSWORD make",
        "let api_key = read(path)?;",
        "basic understanding of internationalization",
    ] {
        assert_eq!(redactor().text(plain), None, "{plain}");
    }
}

#[test]
fn built_in_rules_run_on_the_fast_engines_in_text_of_any_script() {
    for rule in Rule::defaults() {
        let borders = rule.pattern().replace(r"(?-u:\b)", "");
        assert!(!borders.contains(r"\b"), "{}", rule.name());
    }
    let secret = key("sk-", 32);
    assert_eq!(redactor().text(&format!("钥匙{secret}。")).unwrap(), "钥匙[redacted:api-key]。");
}

#[test]
fn overlapping_finds_become_one_mark() {
    let rules = vec![Rule::new("one", "abc").unwrap(), Rule::new("two", "bcd+").unwrap()];
    let mut redactor = Redactor::new(rules).unwrap();
    assert_eq!(redactor.text("xabcddx abc").unwrap(), "x[redacted:one]x [redacted:one]");
    assert!(matches!(Rule::new("a b", "x"), Err(RuleFault::Name(_))));
    assert!(matches!(Rule::new("a", "("), Err(RuleFault::Pattern(_))));
}

fn event(redactor: &mut Redactor, row: &str) -> String {
    let event = Event::read(row.as_bytes(), Check::Envelope, &Limits::DEFAULT).unwrap();
    let mut out = Vec::new();
    redactor.event(&event, &mut out);
    check(&out, 64).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn only_what_is_found_changes_whatever_the_spelling() {
    let row = r#"{"type":"x","seq":1,"time":2,"data":{ "a":"\u0073k-abcdefghijklmnopqrstu\"v\ud83d","n":1.50,"b":"\/","password":"correct-horse","password_hint":"a b c d e f"}}"#;
    let mut redactor = redactor();
    assert_eq!(
        event(&mut redactor, row),
        "{\"type\":\"x\",\"seq\":1,\"time\":2,\"data\":{ \"a\":\"[redacted:api-key]\\\"v\u{fffd}\",\"n\":1.50,\"b\":\"\\/\",\"password\":\"[redacted:secret]\",\"password_hint\":\"a b c d e f\"}}"
    );
    let clean = r#"{"type":"x","seq":1,"time":2,"data":{"a":"\ud83d \u0041"}}"#;
    assert_eq!(event(&mut redactor, clean), clean);
    let mut out = Vec::new();
    let mut by_name = Redactor::new(vec![Rule::new("me", "ann").unwrap()]).unwrap();
    by_name.header(r#"{"type":"session","id":"ann","cwd":"/home/ann"}"#, &mut out);
    assert_eq!(out, br#"{"type":"session","id":"ann","cwd":"/home/[redacted:me]"}"#);
}

fn answer(content: &str, stream: &str) -> String {
    format!(
        r#"{{"type":"assistant/message","seq":1,"time":2,"data":{{"turn":1,"step":1,"stream":{stream},"message":{{"id":"m","role":"assistant","content":[{{"type":"text","text":"{content}"}}],"source":{{"kind":"model","provider":"p","model":"m"}}}}}},"surfaceOp":"append"}}"#
    )
}

#[test]
fn a_secret_that_is_split_over_a_stream_takes_the_stream_with_it() {
    let texts = r#"[{"type":"text-chunks","time0":5,"index":0,"dt":[1,1],"texts":["it is sk-abcdefgh","ijklmnopqrst","uvwx!"]}]"#;
    let mut redactor = redactor();
    let said = event(&mut redactor, &answer("it is sk-abcdefghijklmnopqrstuvwx!", texts));
    assert_eq!(said, answer("it is [redacted:api-key]!", "[]"));
    assert_eq!((redactor.found().get("api-key"), redactor.streams()), (Some(&1), 1));

    // An attempt has no message that would tell.
    let attempt = |stream: &str| {
        format!(
            r#"{{"type":"assistant/attempt","seq":1,"time":2,"data":{{"turn":1,"step":1,"stream":{stream}}}}}"#
        )
    };
    assert_eq!(event(&mut redactor, &attempt(texts)), attempt("[]"));
    assert_eq!((redactor.found().get("api-key"), redactor.streams()), (Some(&2), 2));
    assert_eq!(event(&mut redactor, &attempt("[{\"type\":\"bogus\"}]")), attempt("[]"));

    let harmless = texts.replace("sk-", "as ");
    let row = answer("it is as abcdefghijklmnopqrstuvwx!", &harmless);
    assert_eq!(event(&mut redactor, &row), row);
    let read = row.find("{\"turn\"").unwrap()..row.rfind(",\"surfaceOp\"").unwrap();
    Settlement::read(SettlementKind::Message, &row[read]).unwrap().verify().unwrap();
}

/// Strings that are secrets, nearly secrets, and anything.
fn any_string() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        Just("sk-abcdefghijklmnopqrstuvwx".to_owned()),
        Just("password=".to_owned()),
        Just("AKIA".to_owned()),
        Just("://u:p@h".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----".to_owned()),
        Just("Bearer ".to_owned()),
        "[\\PC\"\\\\\n]{0,12}",
        "[A-Za-z0-9._-]{0,30}",
    ];
    proptest::collection::vec(parts, 0..5).prop_map(|parts| parts.concat())
}

fn literal(text: &str) -> String {
    let mut out = Vec::new();
    write_string(&mut out, text);
    String::from_utf8(out).unwrap()
}

proptest! {
    // Each builds the rules anew, which takes most of the time.
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_was_redacted_is_an_event_still_and_has_nothing_left_to_redact(
        texts in proptest::collection::vec(any_string(), 1..6),
        name in any_string(),
    ) {
        let strings: Vec<String> = texts.iter().map(|text| literal(text)).collect();
        let stream = format!(
            r#"[{{"type":"text-chunks","time0":5,"index":0,"dt":[{}],"texts":[{}]}}]"#,
            vec!["1"; texts.len() - 1].join(","),
            strings.join(",")
        );
        let data = format!(r#"{{{}:[{}],"turn":1,"step":1,"stream":{stream}}}"#, literal(&name), strings.join(","));
        for kind in ["x", "assistant/attempt"] {
            let row = format!(r#"{{"type":"{kind}","seq":1,"time":2,"data":{data}}}"#);
            let mut redactor = redactor();
            let once = event(&mut redactor, &row);
            prop_assert_eq!(&event(&mut redactor, &once), &once);
            if redactor.found().is_empty() && redactor.streams() == 0 {
                prop_assert_eq!(once, row);
            }
        }
    }
}
