//! The request header: what a model was asked with, apart from the messages.

use std::fmt;
use std::sync::Arc;

use super::kind::Kind;
use super::log::Log;
use super::message::{has_text, is_text};
use super::profile::Profile;
use crate::json::{Node, Tape};
use crate::row::Event;

/// A request header in canonical form. Cheap to clone.
///
/// Its text is an object of `config`, then `adapterDefaults` if it marks anything, `system` if it is not empty, and
/// `tools` if there are any; nothing else.
#[derive(Clone)]
pub struct RequestHeader(Arc<str>);

impl RequestHeader {
    /// The canonical form of `header`, the member of that name of a `request/header`.
    #[must_use]
    pub fn of(header: Node<'_>) -> Self {
        let mut out = Vec::with_capacity(header.raw().len());
        let mut member = |name: &str, value: Option<Node<'_>>| {
            if let Some(value) = value {
                out.push(if out.is_empty() { b'{' } else { b',' });
                out.extend_from_slice(format!("\"{name}\":").as_bytes());
                value.write_canonical(&mut out);
            }
        };
        member("config", header.get("config"));
        let marks = |defaults: &Node<'_>| DEFAULTS.iter().any(|name| is_true(*defaults, name));
        member("adapterDefaults", header.get("adapterDefaults").filter(marks));
        let said =
            |system: &Node<'_>| system.as_str().is_none_or(|text| !text.is_empty()) && !system.is_null();
        member("system", header.get("system").filter(said));
        let some = |tools: &Node<'_>| tools.items().is_none_or(|tools| tools.len() > 0) && !tools.is_null();
        member("tools", header.get("tools").filter(some));
        if out.is_empty() {
            out.push(b'{');
        }
        out.push(b'}');
        Self(String::from_utf8(out).expect("canonical JSON is UTF-8").into())
    }

    /// The header after the last `request/header` of `log`; `earlier`, which the fold of the events before gave, if it
    /// has none.
    #[must_use]
    pub fn fold(log: &Log, earlier: Option<Self>) -> Option<Self> {
        let last = log.iter().rev().find(|event| event.is(Kind::RequestHeader.name()));
        last.and_then(|event| Self::read(&event, &mut Tape::default())).or(earlier)
    }

    /// The header that a `request/header` holds; `None` if its payload has no such member.
    pub(crate) fn read(event: &Event<'_>, tape: &mut Tape) -> Option<Self> {
        let data = tape.parse(event.data().as_bytes(), u32::MAX).ok()?;
        data.get("header").map(Self::of)
    }

    /// Its JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Whether a request with `other` would be the same request: equal `config` by the six members that a request is made
    /// of, equal marks in `adapterDefaults`, equal `system`, and the same tools in the same order, each by its text.
    ///
    /// An absent `stop` differs from an empty one, and so do two tools whose members come in another order.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let (mut own, mut others) = (Tape::default(), Tape::default());
        let (Ok(a), Ok(b)) =
            (own.parse(self.0.as_bytes(), u32::MAX), others.parse(other.0.as_bytes(), u32::MAX))
        else {
            return false;
        };
        let (config_a, config_b) = (a.get("config"), b.get("config"));
        let config = |name: &str| {
            same(config_a.and_then(|config| config.get(name)), config_b.and_then(|config| config.get(name)))
        };
        let mark = |name: &str| {
            let of =
                |header: Node<'_>| header.get("adapterDefaults").is_some_and(|marks| is_true(marks, name));
            of(a) == of(b)
        };
        let tools = || match (a.get("tools"), b.get("tools")) {
            (Some(a), Some(b)) => a.raw() == b.raw(),
            (a, b) => a.is_none() && b.is_none(),
        };
        CONFIG.into_iter().all(config)
            && DEFAULTS.into_iter().all(mark)
            && same(a.get("system"), b.get("system"))
            && tools()
    }
}

impl fmt::Debug for RequestHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The payload of the last `request/context` of `log`: what is known of the model that was asked. Not part of the header.
#[must_use]
pub fn request_context(log: &Log) -> Option<&str> {
    let last = log.iter().rev().find(|event| event.is(Kind::RequestContext.name()))?;
    Some(last.data())
}

const CONFIG: [&str; 6] = ["provider", "model", "reasoningEffort", "temperature", "maxTokens", "stop"];
const DEFAULTS: [&str; 2] = ["reasoningEffort", "maxTokens"];
const REASONS: [&str; 4] = ["initial", "resume", "change", "series"];
const RETIRED_TYPE: &str = "request/header-delta";
const RETIRED_REASON: &str = "fallback";

/// What is wrong with a `request/header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestFault {
    /// `header.config` does not name provider and model.
    #[error("the request's config does not name a provider and a model")]
    Config,
    /// `config.reasoningEffort` is no string, or empty.
    #[error("reasoningEffort is no string, or empty")]
    Effort,
    /// `adapterDefaults` marks something that is no default or not in the config, or marks it with something else than true.
    #[error("adapterDefaults marks something that is not in the config, or not with true")]
    Defaults,
    /// `reason` is none that this generation writes.
    #[error("it has no known reason")]
    Reason,
    /// `startsSeries` is neither absent nor true.
    #[error("startsSeries is neither absent nor true")]
    Series,
}

/// Checks the payload of a `request/header`.
pub(crate) fn check_request(data: Node<'_>) -> Result<(), RequestFault> {
    let header = data.get("header");
    let config = header.and_then(|header| header.get("config")).ok_or(RequestFault::Config)?;
    if !has_text(config, "provider") || !has_text(config, "model") {
        return Err(RequestFault::Config);
    }
    if config.get("reasoningEffort").is_some() && !has_text(config, "reasoningEffort") {
        return Err(RequestFault::Effort);
    }
    if let Some(marks) = header.and_then(|header| header.get("adapterDefaults")) {
        let mut members = marks.members().ok_or(RequestFault::Defaults)?;
        let sound = members.all(|(name, value)| {
            let default = DEFAULTS.into_iter().find(|default| name.eq_str(default));
            value.as_bool() == Some(true) && default.is_some_and(|default| config.get(default).is_some())
        });
        if !sound {
            return Err(RequestFault::Defaults);
        }
    }
    if !REASONS.into_iter().any(|reason| is_text(data, "reason", reason)) {
        return Err(RequestFault::Reason);
    }
    if data.get("startsSeries").is_some() && !is_true(data, "startsSeries") {
        return Err(RequestFault::Series);
    }
    Ok(())
}

/// Whether an event of that type and payload belongs to a form of request headers that is no longer understood.
pub(crate) fn is_retired(profile: &Profile, event: &Event<'_>, tape: &mut Tape) -> bool {
    if event.is(RETIRED_TYPE) {
        return true;
    }
    profile.knows(Kind::RequestHeader)
        && event.is(Kind::RequestHeader.name())
        && tape
            .parse(event.data().as_bytes(), u32::MAX)
            .is_ok_and(|data| is_text(data, "reason", RETIRED_REASON))
}

fn same(a: Option<Node<'_>>, b: Option<Node<'_>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.deep_eq(b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn is_true(node: Node<'_>, member: &str) -> bool {
    node.get(member).and_then(Node::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> RequestHeader {
        RequestHeader::of(Tape::default().parse(text.as_bytes(), 64).unwrap())
    }

    #[test]
    fn r034_the_canonical_form_leaves_out_what_says_nothing() {
        for (text, form) in [
            (
                r#"{"tools":[],"system":"","adapterDefaults":{},"extra":1,"config":{"model":"m","provider":"p"}}"#,
                r#"{"config":{"model":"m","provider":"p"}}"#,
            ),
            (
                r#"{"tools":[{"name":"t"}],"system":"s","adapterDefaults":{"maxTokens":true},"config":{}}"#,
                r#"{"config":{},"adapterDefaults":{"maxTokens":true},"system":"s","tools":[{"name":"t"}]}"#,
            ),
            ("{}", "{}"),
        ] {
            assert_eq!(canonical(text).as_json(), form);
        }
    }

    #[test]
    fn r035_absent_and_empty_are_equal_and_another_order_is_not() {
        let base = r#"{"config":{"provider":"p","model":"m"}}"#;
        let same = |a: &str, b: &str| {
            let (a, b) = (canonical(a), canonical(b));
            assert_eq!(a.is_same(&b), b.is_same(&a));
            a.is_same(&b)
        };
        for equal in [
            r#"{"config":{"model":"m","provider":"\u0070"}}"#,
            r#"{"config":{"provider":"p","model":"m","other":1}}"#,
            r#"{"config":{"provider":"p","model":"m"},"system":"","tools":[],"adapterDefaults":{}}"#,
        ] {
            assert!(same(base, equal), "{equal}");
        }
        for different in [
            r#"{"config":{"provider":"p","model":"n"}}"#,
            r#"{"config":{"provider":"p","model":"m","stop":[]}}"#,
            r#"{"config":{"provider":"p","model":"m","maxTokens":1}}"#,
            r#"{"config":{"provider":"p","model":"m"},"system":"s"}"#,
            r#"{"config":{"provider":"p","model":"m"},"adapterDefaults":{"maxTokens":true}}"#,
            r#"{"config":{"provider":"p","model":"m"},"tools":[{"a":1}]}"#,
        ] {
            assert!(!same(base, different), "{different}");
        }
        let tools = |tools: &str| format!(r#"{{"config":{{}},"tools":{tools}}}"#);
        assert!(same(&tools(r#"[{"a":1,"b":2}]"#), &tools(r#"[ {"a":1.0,"b":2} ]"#)));
        assert!(!same(&tools(r#"[{"a":1,"b":2}]"#), &tools(r#"[{"b":2,"a":1}]"#)));
        assert!(!same(&tools("[1,2]"), &tools("[2,1]")));
        let stop = |list: &str| format!(r#"{{"config":{{"stop":{list}}}}}"#);
        assert!(!same(&stop(r#"["a","b"]"#), &stop(r#"["b","a"]"#)));
        assert!(same(r#"{"config":{"temperature":0}}"#, r#"{"config":{"temperature":0.0}}"#));
    }

    #[test]
    fn a_request_header_is_checked_member_by_member() {
        use RequestFault::{Config, Defaults, Effort, Reason, Series};
        let sound = r#"{"header":{"config":{"provider":"p","model":"m","reasoningEffort":"low"},"adapterDefaults":{"reasoningEffort":true}},"reason":"initial","startsSeries":true}"#;
        let check = |text: &str| check_request(Tape::default().parse(text.as_bytes(), 64).unwrap());
        assert_eq!(check(sound), Ok(()));
        for reason in REASONS {
            assert_eq!(check(&sound.replace("initial", reason)), Ok(()));
        }
        for (from, to, fault) in [
            (r#""p""#, "\"\"", Config),
            (r#""model":"m","#, "", Config),
            (r#""header""#, r#""head""#, Config),
            (r#""low""#, "\"\"", Effort),
            (r#""low""#, "3", Effort),
            (r#"{"reasoningEffort":true}"#, r#"{"reasoningEffort":false}"#, Defaults),
            (r#"{"reasoningEffort":true}"#, r#"{"maxTokens":true}"#, Defaults),
            (r#"{"reasoningEffort":true}"#, r#"{"model":true}"#, Defaults),
            (r#"{"reasoningEffort":true}"#, "[]", Defaults),
            ("initial", "fallback", Reason),
            ("initial", "other", Reason),
            (r#""startsSeries":true"#, r#""startsSeries":false"#, Series),
        ] {
            assert!(sound.contains(from));
            assert_eq!(check(&sound.replace(from, to)), Err(fault), "{from} -> {to}");
        }
    }
}
