//! The page of `export --format html`, opened in a real browser where there is one.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::common;
use super::export::conversation;
use super::program::{Root, has_program};

const DRIVER: &str = include_str!("page_driver.js");
/// Runs before everything else of the page.
const WATCH: &str = "window.faults = [];
addEventListener('error', (event) => faults.push(event.message));
addEventListener('unhandledrejection', (event) => faults.push(String(event.reason)));
document.addEventListener('securitypolicyviolation', (event) => faults.push(`${event.violatedDirective} ${event.blockedURI}`));";

/// A browser that runs without a screen: `$SESLOG_BROWSER`, else one of the usual names.
fn browser() -> Option<String> {
    let named = std::env::var("SESLOG_BROWSER").ok();
    let usual = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let found = named.into_iter().chain(usual.map(String::from)).find(|name| has_program(name));
    if found.is_none() {
        common::skip("there is no Chromium");
    }
    found
}

/// Opens a page with `driver` in it, and returns what that left in `#result`.
fn drive(browser: &str, root: &Root, page: &str, driver: &str) -> Value {
    let (head, body) = page.split_once("<head>").unwrap();
    let (body, end) = body.rsplit_once("</body>").unwrap();
    let driven = format!("{head}<head><script>{WATCH}</script>{body}<script>{driver}</script></body>{end}");
    let file = root.scratch().join("driven.html");
    fs::write(&file, driven).unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1000,700",
            "--enable-logging=stderr",
        ])
        .args(["--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", root.scratch().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("CONSOLE"), "{said}");
    let dom = String::from_utf8_lossy(&output.stdout);
    let result = dom.split_once("<pre id=\"result\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (result, _) = result.unwrap_or_else(|| panic!("no result: {said}\n{dom}"));
    let result =
        result.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    serde_json::from_str(&result).unwrap()
}

fn seqs(value: &Value) -> BTreeSet<u64> {
    value.as_array().unwrap().iter().map(|seq| seq.as_u64().unwrap()).collect()
}

#[test]
fn the_page_shows_every_message_and_attempt_filters_and_has_no_fault() {
    let Some(browser) = browser() else { return };
    let root = Root::new();
    let log =
        conversation("<i>page</i>", 40, "It says </textarea><img src=x onerror=faults.push(1)> <!-- & more.");
    root.run_with(&["import", "-"], log.as_bytes()).expect(0);
    let page = root.run(&["export", "<i>page", "--format", "html", "-o", "-"]).expect(0).text();
    let found = drive(&browser, &root, &page, DRIVER);
    assert_eq!(found["faults"], Value::Array(Vec::new()));

    let rows: Vec<Value> = log.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |is: &dyn Fn(&str) -> bool| -> BTreeSet<u64> {
        let rows = rows.iter().filter(|row| is(row["type"].as_str().unwrap()));
        rows.map(|row| row["seq"].as_u64().unwrap()).collect()
    };
    let is_message = |kind: &str| ["user/message", "assistant/message", "tool/result"].contains(&kind);
    let (messages, lost) = (of(&is_message), of(&|kind| kind == "assistant/attempt"));
    assert_eq!((messages.len(), lost.len()), (120, 13));
    assert_eq!((seqs(&found["chat"]["m"]), seqs(&found["chat"]["a"])), (messages.clone(), lost.clone()));
    let text = found["text"].as_str().unwrap();
    assert_eq!(text.matches("what is </script><script>faults.push('out')</script> & <b>?").count(), 40);
    assert_eq!(text.matches("<img src=x onerror=faults.push(1)> <!-- & more.").count(), 40);
    assert_eq!(text.matches("It broke off").count(), 13);
    assert_eq!(found["title"], "Session <i>page</i>");

    let results = of(&|kind| kind == "tool/result");
    assert_eq!(seqs(&found["filtered"]["m"]), results);
    assert_eq!(found["count"], "40 of 133");
    assert!(found["marked"].as_u64().unwrap() > 0);
    assert_eq!(found["none"], "Nothing matches the filter.");
    let attempts = of(&|kind| kind == "assistant/message" || kind == "assistant/attempt");
    assert_eq!(seqs(&found["timeline"]["a"]), attempts);
    assert_eq!(found["second"], *attempts.iter().nth(1).unwrap());
    assert_eq!(found["jumped"], found["second"]);
    let events = of(&|kind| !is_message(kind) && kind != "assistant/attempt");
    assert_eq!(seqs(&found["withEvents"]["e"]), events);
    assert_eq!(found["isThemeChanged"], true);

    // Only what is near the screen has elements, and none of them comes from the log.
    assert!(found["most"].as_u64().unwrap() < 100, "{}", found["most"]);
    let known = ["article", "b", "button", "details", "div", "i", "mark", "p", "pre", "span", "summary"];
    let strange =
        found["elements"].as_array().unwrap().iter().filter(|name| !known.contains(&name.as_str().unwrap()));
    assert_eq!(strange.count(), 0, "{}", found["elements"]);
}

#[test]
fn a_page_asks_nobody_and_keeps_the_log_out_of_its_html() {
    let root = Root::new();
    root.run_with(&["import", "-"], conversation("p", 2, "<b>").as_bytes()).expect(0);
    let page = root.run(&["export", "p", "--format", "html", "-o", "-"]).expect(0).text();
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"log\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let kinds: String = data
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["k"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((kinds.len(), kinds.matches('m').count(), kinds.matches("am").count()), (19, 6, 2));
    assert!(kinds.starts_with("heme"));
    assert!(!data.contains('<'));
    for tag in ["src=", "href=\"http", "@import", "url(", "innerHTML", "outerHTML", "insertAdjacent", "eval("]
    {
        assert!(!page.replace(data, "").contains(tag), "{tag}");
    }
    assert!(page.contains("default-src 'none'"));
}
