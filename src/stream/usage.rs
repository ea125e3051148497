use super::chunk::count;
use super::value::{Members, members};

/// Tokens that a provider counted for an attempt.
///
/// The three input counts are disjoint: what was billed as input is their sum.
///
/// Spec: `format-spec/04-rows.md`, "Stream chunks".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Usage {
    /// Input that was neither read from nor written to a cache.
    pub input_tokens: u64,
    /// Output, reasoning included.
    pub output_tokens: u64,
    /// Input read from a cache.
    pub cache_read_tokens: Option<u64>,
    /// Input written to a cache.
    pub cache_write_tokens: Option<u64>,
    /// The part of the output that is reasoning.
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Reads the JSON text of an object; `None` if a count is missing that must be there, or one is no count. Other
    /// members are not looked at.
    #[must_use]
    pub fn of_json(json: &str) -> Option<Self> {
        Members::of(json)?;
        let names = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"];
        let [input, output, cache_read, cache_write, reasoning] = members(json, names);
        let optional = |json: Option<&str>| match json {
            None => Some(None),
            Some(_) => count(json).map(Some),
        };
        Some(Self {
            input_tokens: count(input)?,
            output_tokens: count(output)?,
            cache_read_tokens: optional(cache_read)?,
            cache_write_tokens: optional(cache_write)?,
            reasoning_tokens: optional(reasoning)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_counts_or_absent() {
        let usage =
            Usage::of_json(r#"{"inputTokens":1e1,"outputTokens":0,"reasoningTokens":7,"x":-0}"#).unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (10, 0));
        assert_eq!((usage.cache_read_tokens, usage.reasoning_tokens), (None, Some(7)));
        for bad in [
            "[]",
            "1",
            "{}",
            r#"{"inputTokens":1}"#,
            r#"{"inputTokens":1,"outputTokens":-1}"#,
            r#"{"inputTokens":1,"outputTokens":-0}"#,
            r#"{"inputTokens":1,"outputTokens":1.5}"#,
            r#"{"inputTokens":"1","outputTokens":1}"#,
            r#"{"inputTokens":1,"outputTokens":1,"cacheReadTokens":null}"#,
        ] {
            assert_eq!(Usage::of_json(bad), None, "{bad}");
        }
    }
}
