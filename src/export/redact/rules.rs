use std::ops::Range;

use regex::Regex;

/// What to look for, and the name of its mark.
#[derive(Clone, Debug)]
pub struct Rule {
    name: String,
    regex: Regex,
    /// Whether it is found by the name of the member that a string is the value of, too.
    by_member: bool,
}

/// Why there is no such rule.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuleFault {
    /// The name of a rule has letters, digits and dashes.
    #[error("\"{0}\" is no name of a rule: letters, digits and dashes are")]
    Name(String),
    /// The pattern is none.
    #[error("the pattern cannot be used")]
    Pattern(#[source] Box<regex::Error>),
}

impl RuleFault {
    pub(super) fn all(error: regex::Error) -> Self {
        Self::Pattern(Box::new(error))
    }
}

/// Names of members and variables whose values are secrets.
const SECRET_NAMES: &str = r"(?:pass(?:word|wd|phrase)|secret|credentials?|api[_-]?key|access[_-]?key|private[_-]?key|(?:access|auth|refresh|api|bearer|session)[_-]?token)(?:[_-][a-z0-9]+)*";
/// The shortest value of such a member that is worth hiding; shorter ones are flags and placeholders.
const SECRET_LEN_MIN: usize = 8;

/// Name of the rule that goes by [`SECRET_NAMES`].
const BY_NAME: &str = "secret";

/// The built-in rules. A group `secret` is the part that is hidden; without one it is all that was found.
const DEFAULTS: &[(&str, &str)] = &[
    (
        "private-key",
        r"-----BEGIN[ A-Z0-9]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END[ A-Z0-9]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
    ("aws", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ("github", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})"),
    ("gitlab", r"\bgl(?:pat|ptt|rt|dt|cbt)-[A-Za-z0-9_-]{20,}"),
    ("slack", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}"),
    ("slack", r"\bhooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_-]{20,})"),
    ("api-key", r"\bsk-[A-Za-z0-9_-]{20,}"),
    (
        "api-key",
        r"\b(?:gsk_|xai-|pplx-|r8_|hf_|npm_|dop_v1_|doo_v1_|tvly-|fw_|nvapi-|csk-)[A-Za-z0-9_-]{20,}",
    ),
    ("api-key", r"\bpypi-[A-Za-z0-9_-]{50,}"),
    ("google", r"\bAIza[A-Za-z0-9_-]{35}|\bya29\.[A-Za-z0-9_-]{20,}|\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    ("stripe", r"\b(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}"),
    ("sendgrid", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("url-password", r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>\\]*:(?P<secret>[^\s/@"'<>\\]+)@"#),
    ("bearer", r"(?i)\b(?:bearer|basic|token)\s+(?P<secret>[A-Za-z0-9._~+/-]{20,}=*)"),
];

impl Rule {
    /// A rule of one's own: `name` marks what `pattern`, in the syntax of the crate `regex`, finds. If the pattern has a group
    /// `secret`, only that part is hidden.
    ///
    /// # Errors
    /// [`RuleFault`].
    pub fn new(name: &str, pattern: &str) -> Result<Self, RuleFault> {
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '-';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(RuleFault::Name(name.to_owned()));
        }
        let regex = Regex::new(pattern).map_err(RuleFault::all)?;
        Ok(Self { name: name.to_owned(), regex, by_member: false })
    }

    /// The built-in rules: keys of the usual providers, AWS, GitHub, GitLab, Slack, Google, Stripe, JSON web tokens, private
    /// keys, passwords in addresses, bearer tokens, and what stands behind names like `password` and `api_key`, in text and in
    /// members. No rules find everything: look before you share.
    ///
    /// # Panics
    /// Never: the built-in patterns are tested.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        // Word borders of ASCII: those of Unicode would take the fast engines away from text that is not ASCII.
        let built = |name: &str, pattern: &str| {
            let pattern = pattern.replace(r"\b", r"(?-u:\b)");
            Self::new(name, &pattern).expect("a built-in pattern is valid")
        };
        let mut rules: Vec<Self> = DEFAULTS.iter().map(|(name, pattern)| built(name, pattern)).collect();
        let in_text = format!(
            r#"(?i)(?:^|[^a-z]|_){SECRET_NAMES}\\*["']?\s*[:=]\s*\\*["']?(?P<secret>[^\s"'\\,;&<>(){{}}\[\]$`]{{{SECRET_LEN_MIN},}})"#
        );
        rules.push(Self { by_member: true, ..built(BY_NAME, &in_text) });
        rules
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn pattern(&self) -> &str {
        self.regex.as_str()
    }

    /// What it finds in `text`, in order.
    pub(super) fn find<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Range<usize>> + 't {
        self.regex
            .captures_iter(text)
            .filter_map(|found| found.name("secret").or_else(|| found.get(0)).map(|part| part.range()))
    }

    /// Name of the rule by which `value` is a secret because of the member `name` that it is the value of.
    pub(super) fn of_member(rules: &[Self], name: &str, value: &str) -> Option<String> {
        let rule = rules.iter().find(|rule| rule.by_member)?;
        let is_word = |char: char| !char.is_whitespace();
        // What was redacted once is none any more.
        let is_done = value.contains("[redacted:");
        if value.len() < SECRET_LEN_MIN || is_done || !value.chars().all(is_word) {
            return None;
        }
        // As if it were an assignment, with a value that is one for sure.
        rule.regex.is_match(&format!("{name}=00000000")).then(|| rule.name.clone())
    }
}
