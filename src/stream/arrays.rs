//! The two arrays of a run in the spelling that writers use, checked and indexed 64 bytes at a time.

use super::look::{Look, Portable};
use super::record::{Member, Table};
use super::scan::integer;
#[cfg(target_arch = "x86_64")]
use crate::container::raw::vector::{Avx512, Work};
use crate::json::SAFE_INTEGER_MAX;
use crate::json::masks::{BLOCK, Block, CONTROL_MAX, Strings, below_first, escapes_are_sound};

/// Reads the gaps of a run from `at` on, giving the table one member for the first fragment and one more for each gap.
/// The end of the closing bracket, and where the run's gaps are among the wide ones, if they are there.
pub(super) fn gaps(text: &[u8], at: usize, time0: i64, table: &mut Table) -> Option<(usize, Option<usize>)> {
    let first = table.members.len();
    let len = memchr::memchr(b']', text.get(at..)?)?;
    let bracket = at.saturating_add(len);
    let (list, end) = (text.get(at..bracket)?, bracket.saturating_add(1));
    // One member a gap, and room for a whole block of gaps to be written where fewer are due.
    let commas = memchr::memchr_iter(b',', list).count();
    let room = first.saturating_add(commas).saturating_add(GAPS_MAX).saturating_add(2);
    table.members.resize(room, Member::default());
    let of_gaps = table.members.get_mut(first.saturating_add(1)..)?;
    let count = if list.is_empty() { Some(0) } else { small_gaps(text, at, of_gaps) };
    // No such gap is above 9,999,999 ms, so this many of them bound every partial sum.
    let latest = i64::try_from(len).ok()?.checked_mul(9_999_999)?.checked_add(time0)?;
    let small = count.filter(|_| latest <= SAFE_INTEGER_MAX);
    table.members.truncate(first.saturating_add(1).saturating_add(small.unwrap_or_default()));
    let wide = if small.is_some() { None } else { any_gaps(list, time0, first, table)? };
    Some((end, wide))
}

/// Gaps that a block of bytes can hold: a digit and a comma each.
const GAPS_MAX: usize = BLOCK / 2;

/// Sets the gaps of as many members as stand from `at` to the closing bracket, if each has one to seven digits and no
/// sign. How many; more members than that are changed.
#[inline(never)]
fn small_gaps(text: &[u8], at: usize, members: &mut [Member]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::detect() {
        return avx512.run(SmallGaps { text, at, members });
    }
    small_gaps_by(Portable, text, at, members)
}

#[cfg(target_arch = "x86_64")]
struct SmallGaps<'t, 'm> {
    text: &'t [u8],
    at: usize,
    members: &'m mut [Member],
}

#[cfg(target_arch = "x86_64")]
impl Work for SmallGaps<'_, '_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn work(self, avx512: Avx512) -> Option<usize> {
        small_gaps_by(avx512, self.text, self.at, self.members)
    }
}

#[inline(always)]
fn small_gaps_by<L: Look>(look: L, text: &[u8], at: usize, members: &mut [Member]) -> Option<usize> {
    let mut base = at;
    let mut set: usize = 0;
    // Which of the last bytes of the block before were commas, zeros that start a number, and the ends of one, two,
    // three and four digits in a row. The bracket before the first number counts as a comma.
    let (mut comma_before, mut zero_before) = (1 << 63, 0);
    let (mut one_before, mut two_before, mut three_before, mut four_before) = (0, 0, 0, 0);
    while base < text.len() {
        let block = look.load(text, base);
        let (comma, one, zero) = (look.equal(block, b','), look.digits(block), look.equal(block, b'0'));
        let other = !(comma | one);
        let before = below_first(other);
        let start = carry(comma, comma_before, 1);
        let start_zero = zero & start;
        let two = one & carry(one, one_before, 1);
        let three = two & carry(one, one_before, 2);
        let four = two & carry(two, two_before, 2);
        let eight = four & carry(four, four_before, 4);
        let leading_zero = one & carry(start_zero, zero_before, 1);
        if ((start & !one) | leading_zero | eight) & before != 0 {
            return None;
        }
        // Numbers end before a comma or the bracket.
        let ends = (comma & before) | (other & other.wrapping_neg());
        let room = members.get_mut(set..)?.first_chunk_mut()?;
        set = set.wrapping_add(set_gaps(look, text, base, ends, ends & carry(three, three_before, 1), room)?);
        if other != 0 {
            let end = other.trailing_zeros();
            let is_bracket = text.get(base.saturating_add(end as usize)) == Some(&b']');
            return (is_bracket && start >> end & 1 == 0).then_some(set);
        }
        (comma_before, zero_before) = (comma, start_zero);
        (one_before, two_before, three_before, four_before) = (one, two, three, four);
        base = base.saturating_add(BLOCK);
    }
    None
}

/// `bits` moved up by `by`, the vacant places filled with the highest bits of the block before.
#[inline]
fn carry(bits: u64, before: u64, by: u32) -> u64 {
    bits.wrapping_shl(by) | before.wrapping_shr(64u32.wrapping_sub(by))
}

/// Sets the first gaps of `room` to the numbers that end just before the bytes `ends` of the block at `base`; those that
/// end before `long` have more than two digits. How many.
#[inline(always)]
fn set_gaps<L: Look>(
    look: L,
    text: &[u8],
    base: usize,
    ends: u64,
    mut long: u64,
    room: &mut [Member; GAPS_MAX],
) -> Option<usize> {
    let count = ends.count_ones() as usize;
    let ones = Block::load(text, base.checked_sub(1)?, b' ');
    let tens = Block::load(text, base.checked_sub(2)?, b' ');
    let numbers = ones.two_digit_numbers(tens);
    let (low, high) = room.split_at_mut(GAPS_MAX / 2);
    look.fill_gaps(low, high, &numbers, ends);
    while long != 0 {
        let end = base.saturating_add(long.trailing_zeros() as usize);
        let before = ends & below_first(long);
        let member = room.get_mut(before.count_ones() as usize)?;
        member.gap = last_number(text.get(..end)?)?;
        long &= long.wrapping_sub(1);
    }
    Some(count)
}

/// The number of one to seven digits that `text` ends with, its eight last bytes taken as one word.
#[inline]
fn last_number(text: &[u8]) -> Option<i32> {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(*text.last_chunk()?) ^ 0x3030_3030_3030_3030;
    let not_digits = ((word & !HIGH).wrapping_add(0x7676_7676_7676_7676) | word) & HIGH;
    let digits =
        word & u64::MAX.checked_shl(64u32.wrapping_sub(not_digits.leading_zeros())).unwrap_or_default();
    // Neighbours are joined to numbers of two, four and eight digits.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    i32::try_from(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff).ok()
}

/// Appends the gaps in `list`, each a safe integer in canonical spelling, and checks every partial sum.
fn any_gaps(list: &[u8], time0: i64, first: usize, table: &mut Table) -> Option<Option<usize>> {
    let mut rest = list;
    let mut time = time0;
    let mut wide: Option<usize> = None;
    loop {
        let (gap, len) = integer(rest)?;
        time = time.wrapping_add(gap); // two safe integers
        if time.abs() > SAFE_INTEGER_MAX {
            return None;
        }
        let narrow = i32::try_from(gap);
        if narrow.is_err() && wide.is_none() {
            wide = Some(table.wide.len());
            table.wide.reserve(memchr::memchr_iter(b',', list).count().saturating_add(2));
            table.wide.extend(table.members.get(first..)?.iter().map(|member| i64::from(member.gap)));
        }
        if wide.is_some() {
            table.wide.push(gap);
        }
        table.members.push(Member { gap: narrow.unwrap_or_default(), end: 0 });
        match rest.get(len..)?.split_first() {
            None => return Some(wide),
            Some((b',', after)) => rest = after,
            Some(_) => return None,
        }
    }
}

/// Fragments that end in a block of bytes: two quotes and a comma each, and one whose start lies before.
const FRAGMENTS_MAX: usize = BLOCK / 3 + 1;
/// Fragments that usually end in a block.
const FRAGMENTS_FEW: usize = 10;

/// Finds the ends of the fragments from `at` on: as many as there are members, one comma between two of them, every
/// escape well-formed, no control character, and then the closing bracket. The end of all.
#[inline(never)]
pub(super) fn fragments(text: &[u8], at: usize, members: &mut [Member]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::detect() {
        return avx512.run(Fragments { text, at, members });
    }
    fragments_by(Portable, text, at, members)
}

#[cfg(target_arch = "x86_64")]
struct Fragments<'t, 'm> {
    text: &'t [u8],
    at: usize,
    members: &'m mut [Member],
}

#[cfg(target_arch = "x86_64")]
impl Work for Fragments<'_, '_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn work(self, avx512: Avx512) -> Option<usize> {
        fragments_by(avx512, self.text, self.at, self.members)
    }
}

#[inline(always)]
fn fragments_by<L: Look>(look: L, text: &[u8], at: usize, members: &mut [Member]) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut strings = Strings::default();
    let mut rest = members;
    let mut base = at;
    let mut close_before = 0;
    while base < text.len() {
        // First the masks of some blocks, then the ends that they hold: either loop alone keeps the processor busy with
        // several blocks at a time, one loop of both does not.
        let from_start = base.wrapping_sub(at);
        let mut batch = [0; BATCH];
        let mut least = look.splat(u8::MAX);
        let mut bracket = None;
        for closes in &mut batch {
            let block = look.load(text, base);
            let (quote, backslash) = (look.equal(block, b'"'), look.equal(block, b'\\'));
            let comma = look.equal(block, b',');
            let split = strings.next(quote, backslash);
            // After a closing quote there is one byte that belongs to no string, and nowhere else.
            let outside = !(split.inside | split.close);
            let after_close = carry(split.close, close_before, 1);
            let odd = (after_close ^ outside) | (outside & !comma);
            let before = below_first(odd);
            let simple = quote | backslash | look.equal(block, b'n');
            if !escapes_are_sound(text, base, split.escaped & split.inside & before & !simple) {
                return None;
            }
            *closes = split.close & before;
            if odd != 0 {
                let end = odd.trailing_zeros();
                let at = base.saturating_add(end as usize);
                let is_end = after_close >> end & 1 == 1 && text.get(at) == Some(&b']');
                if !is_end || look.at_most(block, CONTROL_MAX) & before != 0 {
                    return None;
                }
                bracket = Some(at);
                break;
            }
            least = look.min(least, block);
            close_before = split.close;
            base = base.saturating_add(BLOCK);
        }
        if look.at_most(least, CONTROL_MAX) != 0 {
            return None;
        }
        for (block, closes) in batch.into_iter().enumerate() {
            let from_start = from_start.wrapping_add(block.wrapping_mul(BLOCK));
            rest = set_ends(look, rest, closes, u32::try_from(from_start).ok()?)?;
        }
        if let Some(bracket) = bracket {
            return rest.is_empty().then_some(bracket.saturating_add(1));
        }
    }
    None
}

/// Blocks that are classified at a time.
const BATCH: usize = 8;

/// Notes the ends `closes` of as many members, in bytes from `from_start` on; the members after them.
#[inline(always)]
fn set_ends<L: Look>(look: L, members: &mut [Member], closes: u64, from_start: u32) -> Option<&mut [Member]> {
    let count = closes.count_ones() as usize;
    // What is written beyond `count` is written again.
    match members.split_at_mut_checked(FRAGMENTS_MAX) {
        Some((room, _)) => {
            let (few, more) = room.split_at_mut(FRAGMENTS_FEW);
            look.fill_ends(few, more, closes, from_start);
        }
        None => look.fill_ends(members.get_mut(..count)?, &mut [], closes, from_start),
    }
    members.get_mut(count..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What stands before an array: digits, quotes and brackets that must not count as part of it.
    const BEFORE: &str = "99,999,\"99999999999999999999\\999";

    /// [`gaps`] on `list`, as the gaps and what follows.
    fn read_gaps(list: &str, time0: i64) -> Option<(Vec<i64>, usize)> {
        let text = format!("{BEFORE}[{list}],\"texts\":[12345");
        let mut table = Table::default();
        let (end, wide) = gaps(text.as_bytes(), BEFORE.len() + 1, time0, &mut table)?;
        assert_eq!(table.members.first().map(|first| first.gap), Some(0));
        let read = match wide {
            Some(first) => table.wide[first..].to_vec(),
            None => table.members.iter().map(|member| i64::from(member.gap)).collect(),
        };
        assert_eq!(read.len(), table.members.len());
        Some((read[1..].to_vec(), end - BEFORE.len() - 2 - list.len()))
    }

    /// The same, one gap after the other.
    fn walk_gaps(list: &str, time0: i64) -> Option<(Vec<i64>, usize)> {
        let mut gaps = Vec::new();
        let mut time = time0;
        for gap in list.split(',').filter(|_| !list.is_empty()) {
            let value: i64 = gap.parse().ok()?;
            time += value;
            if value.to_string() != gap || value.abs() > SAFE_INTEGER_MAX || time.abs() > SAFE_INTEGER_MAX {
                return None;
            }
            gaps.push(value);
        }
        Some((gaps, 0))
    }

    #[test]
    fn every_gap_is_read_at_every_place_of_a_block() {
        let odd = [
            "0",
            "7",
            "10",
            "99",
            "100",
            "4096",
            "1234567",
            "9999999",
            "10000000",
            "12345678",
            "-1",
            "-0",
            "00",
            "01",
            "012",
            "",
            "-",
            "1.5",
            "1e3",
            " 1",
            "1 ",
            "2147483647",
            "2147483648",
            "-2147483649",
            "9007199254740991",
            "9007199254740992",
            "12345678901234567890",
            "\"1\"",
            "[",
            "x",
        ];
        for before in ["", "5,", "5,27,", "5,130,"] {
            for count in 0..70 {
                for odd in odd {
                    for after in
                        ["", ",3", ",", ",30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30"]
                    {
                        let list = format!("{}{odd}{after}", before.repeat(count));
                        assert_eq!(read_gaps(&list, 0), walk_gaps(&list, 0), "{list}");
                    }
                }
            }
        }
    }

    #[test]
    fn partial_sums_are_safe_integers_or_the_run_is_refused() {
        for (time0, list, fits) in [
            (SAFE_INTEGER_MAX, "", true),
            (SAFE_INTEGER_MAX, "0", true),
            (SAFE_INTEGER_MAX, "1", false),
            (SAFE_INTEGER_MAX, "1,-1", false),
            (SAFE_INTEGER_MAX, "-1,1", true),
            (SAFE_INTEGER_MAX - 60, "20,20,20", true),
            (SAFE_INTEGER_MAX - 60, "20,20,21", false),
            (-SAFE_INTEGER_MAX, "9007199254740991,9007199254740991", true),
            (-SAFE_INTEGER_MAX, "9007199254740991,9007199254740991,1", false),
            (-SAFE_INTEGER_MAX, "-1", false),
        ] {
            assert_eq!(read_gaps(list, time0).is_some(), fits, "{time0} {list}");
            assert_eq!(read_gaps(list, time0), walk_gaps(list, time0), "{time0} {list}");
        }
    }

    /// [`fragments`] on `inside`, as the ends and what follows; `count` fragments are due.
    fn read_fragments(inside: &str, count: usize) -> Option<(Vec<usize>, usize)> {
        let text = format!("{BEFORE}[{inside}]}},{{\"n\",\"m\"");
        let mut members = vec![Member::default(); count];
        let end = fragments(text.as_bytes(), BEFORE.len() + 1, &mut members)?;
        Some((
            members.iter().map(|member| member.end as usize).collect(),
            end - BEFORE.len() - 2 - inside.len(),
        ))
    }

    /// The same, one byte after the other.
    fn walk_fragments(inside: &str) -> Option<Vec<usize>> {
        let text = inside.as_bytes();
        let mut ends = Vec::new();
        let mut at = 0;
        loop {
            if text.get(at) != Some(&b'"') {
                return None;
            }
            at += 1;
            while text.get(at)? != &b'"' {
                if text[at] < 0x20 {
                    return None;
                }
                if text[at] == b'\\' {
                    at += 1;
                    match text.get(at)? {
                        b'u' if text.get(at + 1..at + 5)?.iter().all(u8::is_ascii_hexdigit) => at += 4,
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        _ => return None,
                    }
                }
                at += 1;
            }
            ends.push(at);
            at += 1;
            match text.get(at) {
                None => return Some(ends),
                Some(b',') => at += 1,
                Some(_) => return None,
            }
        }
    }

    /// Found if just as many are due, and refused if others are.
    fn check_fragments(inside: &str) {
        let ends = walk_fragments(inside);
        let count = ends.as_ref().map_or(inside.matches("\",\"").count() + 1, Vec::len);
        assert_eq!(read_fragments(inside, count), ends.map(|ends| (ends, 0)), "{inside}");
        for due in [count - 1, count + 1, count + 40] {
            assert_eq!(read_fragments(inside, due), None, "{due} of {inside}");
        }
    }

    #[test]
    fn every_fragment_is_found_at_every_place_of_a_block() {
        let odd = [
            r#""""#,
            r#""a""#,
            r#""é""#,
            r#""\n""#,
            r#""\"""#,
            r#""\\""#,
            r#""\\\"""#,
            r#""\u00e9""#,
            r#""\ud83D""#,
            r#""\/\b""#,
            "\"\u{1f}\"",
            "\"a\n\"",
            r#""\u00g0""#,
            r#""\u12""#,
            r#""\x""#,
            r#"""""#,
            r#""a" "#,
            r#" "a""#,
            r#""a"x"b""#,
            "",
            "1",
            "null",
            r#"["#,
            r#""],[""#,
            r#"],[""#,
            r#""a";"b""#,
            r#""a",,"b""#,
            r#""a":"b""#,
        ];
        for before in [r#""","#, r#""ab","#, r#""a\\","#, r#""a long one that is most of a block","#] {
            for count in 0..70 {
                for odd in odd {
                    for after in [
                        "",
                        r#","x""#,
                        ",",
                        r#","","","","","","","","","","","","","","","","","","","","","",""#,
                    ] {
                        let inside = format!("{}{odd}{after}", before.repeat(count));
                        check_fragments(&inside);
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn gaps_are_read_as_by_a_walk(list in r"(-?[0-9]{1,9},){0,60}(-?[0-9]{1,17})?", time0 in -1_000_000_000_000i64..1_000_000_000_000) {
            prop_assert_eq!(read_gaps(&list, time0), walk_gaps(&list, time0));
        }

        #[test]
        fn fragments_are_found_as_by_a_walk(inside in r#"("([a-n ,\]]|\\["\\nu/]|é){0,9}",){0,40}"([a-n]|\\\\|\\u00e9){0,90}""#) {
            check_fragments(&inside);
        }
    }
}
