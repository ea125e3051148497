use super::check::check;

/// 2^53 - 1, the largest integer whose neighbours a double still tells apart.
pub const SAFE_INTEGER_MAX: i64 = 9_007_199_254_740_991;

/// A JSON number as spelled, borrowed from its text.
#[derive(Clone, Copy, Debug)]
pub struct Number<'t> {
    raw: &'t str,
}

impl<'t> Number<'t> {
    /// `raw` follows the number grammar of JSON.
    pub(crate) fn new(raw: &'t str) -> Self {
        Self { raw }
    }

    /// The number that `json` is, if it is one and nothing else.
    pub(crate) fn of_value(json: &'t str) -> Option<Self> {
        let bytes = json.as_bytes();
        let is_number =
            matches!(bytes, [b'-' | b'0'..=b'9', ..]) && bytes.last().is_some_and(u8::is_ascii_digit);
        (is_number && check(bytes, 0).is_ok()).then_some(Self { raw: json })
    }

    /// Its exact text.
    #[must_use]
    pub fn raw(self) -> &'t str {
        self.raw
    }

    /// The nearest double, ties to even; infinite when the number is too large for one.
    #[must_use]
    pub fn value(self) -> f64 {
        if let Some((negative, magnitude)) = self.short_integer() {
            #[expect(clippy::cast_precision_loss, reason = "fewer than 16 digits: exact")]
            let magnitude = magnitude as f64;
            return if negative { -magnitude } else { magnitude };
        }
        if self.raw.len() > STD_LEN_MAX { long_value(self.raw) } else { std_value(self.raw) }
    }

    /// The value as an integer, when it is one of magnitude at most [`SAFE_INTEGER_MAX`] and not negative zero.
    ///
    /// Decided by the double, not by the spelling: `1.0`, `1E0` and `1.0000000000000000001` are 1.
    ///
    /// Spec: `format-spec/04-rows.md`.
    #[must_use]
    pub fn as_safe_integer(self) -> Option<i64> {
        if let Some((negative, magnitude)) = self.short_integer() {
            return match (negative, magnitude) {
                (true, 0) => None,
                (true, _) => magnitude.checked_neg(),
                (false, _) => Some(magnitude),
            };
        }
        let value = self.value();
        if value.fract() != 0.0 || value.abs() > SAFE_INTEGER_MAX as f64 || is_negative_zero(value) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "integral and at most 2^53 - 1")]
        Some(value as i64)
    }

    /// [`as_safe_integer`](Self::as_safe_integer) when it is not negative.
    #[must_use]
    pub fn as_count(self) -> Option<u64> {
        self.as_safe_integer().and_then(|n| u64::try_from(n).ok())
    }

    /// Whether the double is -0: `-0`, `-0.0e7`, and also `-1e-400`, which rounds to it.
    #[must_use]
    pub fn is_negative_zero(self) -> bool {
        self.raw.starts_with('-') && is_negative_zero(self.value())
    }

    /// Whether the double is finite; `1e400` is not.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.value().is_finite()
    }

    /// Whether the double survives `JSON.stringify`: finite and not negative zero.
    #[must_use]
    pub fn is_lossless(self) -> bool {
        match self.short_integer() {
            Some((negative, magnitude)) => !(negative && magnitude == 0),
            None => {
                let value = self.value();
                value.is_finite() && !is_negative_zero(value)
            }
        }
    }

    /// Whether `JSON.stringify` spells the double just so.
    pub(super) fn is_canonical(self) -> bool {
        match self.short_integer() {
            Some((negative, magnitude)) => !(negative && magnitude == 0),
            None => {
                let value = self.value();
                value.is_finite() && ryu_js::Buffer::new().format_finite(value) == self.raw
            }
        }
    }

    /// Sign and magnitude, if the spelling is an optional minus and at most 15 digits. Below 10^15, so exact as a
    /// double and in its canonical spelling, `-0` aside.
    #[inline]
    fn short_integer(self) -> Option<(bool, i64)> {
        let bytes = self.raw.as_bytes();
        let (negative, digits) = match bytes {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        if digits.len() > 15 {
            return None;
        }
        let mut magnitude: i64 = 0;
        for byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            magnitude = magnitude.wrapping_mul(10).wrapping_add(i64::from(digit)); // below 10^15
        }
        Some((negative, magnitude))
    }
}

fn is_negative_zero(value: f64) -> bool {
    value == 0.0 && value.is_sign_negative()
}

/// The standard library reads an exponent only as far as it exceeds 65,535. That is enough until a mantissa is long
/// enough to make up for a larger one.
const STD_LEN_MAX: usize = 32_768;

/// Significant digits that decide any rounding to a double, with room; what follows them only counts as "and more".
const DIGITS_MAX: usize = 800;

fn std_value(raw: &str) -> f64 {
    raw.parse().expect("JSON numbers are a subset of what f64 parses")
}

/// The value of a number of any length, respelled as `0.` and its first significant digits with a small exponent.
fn long_value(raw: &str) -> f64 {
    let (sign, unsigned) = match raw.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", raw),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());

    let zeros = digits().take_while(|digit| *digit == b'0').count();
    let mut short: String = format!("{sign}0.");
    short.extend(digits().skip(zeros).take(DIGITS_MAX).map(char::from));
    if digits().skip(zeros).skip(DIGITS_MAX).any(|digit| digit != b'0') {
        short.push('1');
    }
    let places = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let exponent = exponent_value(exponent).saturating_add(places(whole.len())).saturating_sub(places(zeros));
    short.push('e');
    short.push_str(&exponent.clamp(-10_000, 10_000).to_string());
    std_value(&short)
}

/// The exponent as an integer, saturating.
fn exponent_value(spelling: &str) -> i64 {
    let unsigned = spelling.trim_start_matches(['+', '-']);
    let magnitude = unsigned
        .bytes()
        .fold(0i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit.wrapping_sub(b'0'))));
    if spelling.starts_with('-') { magnitude.saturating_neg() } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn safe(raw: &str) -> Option<i64> {
        Number::new(raw).as_safe_integer()
    }

    #[test]
    fn safe_integers_are_decided_by_value() {
        for (raw, integer) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("-7", Some(-7)),
            ("1.0", Some(1)),
            ("1E0", Some(1)),
            ("1.0000000000000000001", Some(1)),
            ("0e5", Some(0)),
            ("0.0", Some(0)),
            ("1e3", Some(1000)),
            ("12300e-2", Some(123)),
            ("0.5e1", Some(5)),
            ("1e-400", Some(0)),
            ("999999999999999", Some(999_999_999_999_999)),
            ("1000000000000000", Some(1_000_000_000_000_000)),
            ("9007199254740990", Some(SAFE_INTEGER_MAX - 1)),
            ("9007199254740991", Some(SAFE_INTEGER_MAX)),
            ("9007199254740991.0", Some(SAFE_INTEGER_MAX)),
            ("9007199254740991.2", Some(SAFE_INTEGER_MAX)),
            ("-9007199254740991", Some(-SAFE_INTEGER_MAX)),
            ("9007199254740991.5", None),
            ("9007199254740992", None),
            ("9007199254740993", None),
            ("-9007199254740992", None),
            ("1e16", None),
            ("1e400", None),
            ("-1e400", None),
            ("1.5", None),
            ("-0", None),
            ("-0.0", None),
            ("-0e5", None),
            ("-1e-400", None),
        ] {
            assert_eq!(safe(raw), integer, "{raw}");
            let count = integer.and_then(|n| u64::try_from(n).ok());
            assert_eq!(Number::new(raw).as_count(), count, "{raw}");
        }
    }

    #[test]
    fn negative_zero_and_infinity_are_told_apart() {
        for (raw, negative_zero, finite) in [
            ("0", false, true),
            ("-0", true, true),
            ("-0.000", true, true),
            ("-0e99999", true, true),
            ("-1e-400", true, true),
            ("1e-400", false, true),
            ("-5e-324", false, true),
            ("-1", false, true),
            ("1.7976931348623157e308", false, true),
            ("1.7976931348623159e308", false, false),
            ("1e309", false, false),
            ("-1e400", false, false),
            ("1e99999999999999999999", false, false),
        ] {
            let number = Number::new(raw);
            assert_eq!(number.is_negative_zero(), negative_zero, "{raw}");
            assert_eq!(number.is_finite(), finite, "{raw}");
            assert_eq!(number.is_lossless(), finite && !negative_zero, "{raw}");
        }
    }

    #[test]
    fn halves_round_to_even() {
        assert_eq!(Number::new("9007199254740993").value(), 9_007_199_254_740_992.0);
        assert_eq!(
            Number::new("9007199254740993.00000000000000000000000000001").value(),
            9_007_199_254_740_994.0
        );
        assert_eq!(Number::new("9007199254740995").value(), 9_007_199_254_740_996.0);
        assert_eq!(Number::new("2.4703282292062327e-324").value(), 0.0);
        assert_eq!(Number::new("2.4703282292062328e-324").value(), 5e-324);
    }

    #[test]
    fn exponents_that_a_long_mantissa_makes_up_for_are_read_in_full() {
        // The standard library alone gives 0 and infinity for these.
        let zeros = "0".repeat(1_000_000);
        assert_eq!(Number::new(&format!("0.{zeros}15e1000001")).value(), 1.5);
        assert_eq!(Number::new(&format!("-25{zeros}e-1000001")).value(), -2.5);
        assert_eq!(Number::new(&format!("0.{zeros}e5")).value(), 0.0);
        assert!(Number::new(&format!("-0.{zeros}1")).is_negative_zero());
        assert!(!Number::new(&format!("1{zeros}")).is_finite());
        // A digit far beyond the ones that are kept still breaks a tie.
        assert_eq!(Number::new(&format!("9007199254740993.{zeros}")).value(), 9_007_199_254_740_992.0);
        assert_eq!(Number::new(&format!("9007199254740993.{zeros}1")).value(), 9_007_199_254_740_994.0);
    }

    #[test]
    fn canonical_spellings_are_the_ones_javascript_writes() {
        for raw in [
            "0",
            "-1",
            "123456789012345680000",
            "1e+21",
            "1e-7",
            "0.000001",
            "5e-324",
            "1.5",
            "9007199254740991",
        ] {
            assert!(Number::new(raw).is_canonical(), "{raw}");
        }
        for raw in
            ["-0", "1.0", "1e21", "1E+21", "1e-07", "0.0000001", "9007199254740993", "1e5", "10e20", "1e400"]
        {
            assert!(!Number::new(raw).is_canonical(), "{raw}");
        }
    }

    #[test]
    fn a_value_is_a_number_only_as_a_whole() {
        for text in ["0", "-1.5e-7", "9007199254740993", "-0"] {
            assert_eq!(Number::of_value(text).map(Number::raw), Some(text));
        }
        for text in ["", "-", "1-2", "01", "1 ", " 1", "1.", "1e", "--1", "\"1\"", "null", "[1]", "1\u{e9}"] {
            assert!(Number::of_value(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_long_reading_agrees_with_the_standard_library(raw in r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?") {
            prop_assert_eq!(long_value(&raw).to_bits(), std_value(&raw).to_bits());
            prop_assert_eq!(Number::new(&raw).value().to_bits(), std_value(&raw).to_bits());
        }

        #[test]
        fn doubles_survive_their_canonical_spelling(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let mut out = Vec::new();
            super::super::write_number(&mut out, value);
            let raw = std::str::from_utf8(&out).unwrap();
            prop_assert_eq!(Number::new(raw).value(), value);
            prop_assert!(Number::new(raw).is_canonical());
        }
    }
}
