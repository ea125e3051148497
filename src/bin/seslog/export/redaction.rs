//! RULES: what `--redact` takes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use seslog::export::{Redactor, Rule, RuleFault};

use crate::failure::Failure;
use crate::out::{counted, talk};

/// The name of rules that have none.
const OWN: &str = "own";

/// A redactor with all the rules that were asked for; nothing if none were.
pub(super) fn redactor(given: &[OsString]) -> Result<Option<Redactor>, Failure> {
    if given.is_empty() {
        return Ok(None);
    }
    let mut rules = Vec::new();
    for given in given {
        rules.append(&mut rules_of(given)?);
    }
    Redactor::new(rules).map(Some).map_err(|fault| unusable("all patterns together", &fault))
}

fn rules_of(given: &OsStr) -> Result<Vec<Rule>, Failure> {
    let text = given.to_str();
    if text == Some("default") {
        return Ok(Rule::defaults());
    }
    if let Some(pattern) = text.and_then(|text| text.strip_prefix("regex:")) {
        return Ok(vec![Rule::new(OWN, pattern).map_err(|fault| unusable("--redact", &fault))?]);
    }
    let path = Path::new(given);
    let text = fs::read_to_string(path).map_err(|error| {
        let next = "RULES is `default`, `regex:PATTERN`, or a file with a pattern a line";
        Failure::io(format!("{}: reading the rules failed", path.display()), error, next)
    })?;
    parse(&text).map_err(|(line, fault)| unusable(&format!("{}:{line}", path.display()), &fault))
}

/// The rules of a file, or the line of the first that is none.
fn parse(text: &str) -> Result<Vec<Rule>, (usize, RuleFault)> {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
    let mut rules = Vec::new();
    for (line, number) in text.lines().zip(1_usize..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "default" {
            rules.append(&mut Rule::defaults());
            continue;
        }
        let named = line.split_once(": ").filter(|(name, _)| is_name(name));
        let (name, pattern) = named.unwrap_or((OWN, line));
        rules.push(Rule::new(name, pattern.trim()).map_err(|fault| (number, fault))?);
    }
    Ok(rules)
}

fn unusable(place: &str, fault: &RuleFault) -> Failure {
    let cause = std::error::Error::source(fault).map_or_else(String::new, |cause| format!(": {cause}"));
    Failure::Usage(format!("{place}: {fault}{cause}"))
}

/// Says what was found.
pub(super) fn tell(redactor: &Redactor) {
    let all = redactor.found().values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    if all == 0 && redactor.streams() == 0 {
        return talk::note("nothing was redacted: the rules found nothing");
    }
    let by_rule: Vec<String> =
        redactor.found().iter().map(|(rule, count)| format!("{rule} {count}")).collect();
    talk::note(&format!("redacted {all} ({})", by_rule.join(", ")));
    if redactor.streams() > 0 {
        let streams = counted(redactor.streams(), "stream was", "streams were");
        talk::note(&format!("{streams} left out, as a secret stood in its answer"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_rules_has_names_comments_and_the_built_in_ones() {
        let rules = parse("# mine\n\nticket: ABC-\\d+\n a:b \ndefault\n").unwrap();
        let names: Vec<&str> = rules.iter().take(3).map(Rule::name).collect();
        assert_eq!(names, ["ticket", OWN, "private-key"]);
        assert_eq!(parse("a\nb: (\n").unwrap_err().0, 2);
    }
}
