use super::chunk::count;
use super::value::{Members, members};
use crate::json::write_u64;

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

    /// Both together. A count that only one of them has is its own.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let optional = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: optional(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: optional(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens: optional(self.reasoning_tokens, other.reasoning_tokens),
        }
    }

    /// Appends the usage as the JSON object that [`of_json`](Self::of_json) reads.
    pub fn write_json(self, out: &mut Vec<u8>) {
        let counts = [
            (&b"{\"inputTokens\":"[..], Some(self.input_tokens)),
            (b",\"outputTokens\":", Some(self.output_tokens)),
            (b",\"cacheReadTokens\":", self.cache_read_tokens),
            (b",\"cacheWriteTokens\":", self.cache_write_tokens),
            (b",\"reasoningTokens\":", self.reasoning_tokens),
        ];
        for (name, count) in counts {
            if let Some(count) = count {
                out.extend_from_slice(name);
                write_u64(out, count);
            }
        }
        out.push(b'}');
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

    #[test]
    fn a_sum_has_each_count_that_one_of_them_has_and_is_read_as_it_is_written() {
        let usage = |json| Usage::of_json(json).unwrap();
        let a = usage(r#"{"inputTokens":1,"outputTokens":2,"cacheReadTokens":3}"#);
        let b = usage(r#"{"inputTokens":10,"outputTokens":20,"cacheReadTokens":30,"reasoningTokens":4}"#);
        let sum = a.plus(b);
        assert_eq!((sum.input_tokens, sum.output_tokens, sum.cache_read_tokens), (11, 22, Some(33)));
        assert_eq!((sum.cache_write_tokens, sum.reasoning_tokens), (None, Some(4)));
        let mut json = Vec::new();
        sum.write_json(&mut json);
        assert_eq!(usage(std::str::from_utf8(&json).unwrap()), sum);
    }
}
