//! Dumps: an offset, two spaces, bytes, three spaces, a remark. `N * XX` stands for a run.

/// The bytes of a dump. Offsets are checked.
pub(crate) fn parse(dump: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in dump.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (offset, rest) = line.split_once("  ").unwrap_or_else(|| panic!("no offset: {line:?}"));
        let offset = usize::from_str_radix(offset, 16).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(offset, bytes.len(), "offset of {line:?}");
        let stored = rest.split_once("   ").map_or(rest, |(stored, _)| stored);
        match stored.split_once(" * ") {
            Some((count, byte)) => {
                let count: usize = count.parse().unwrap_or_else(|error| panic!("{error}: {line:?}"));
                bytes.resize(bytes.len() + count, one(byte));
            }
            None => bytes.extend(bytes_of(stored)),
        }
    }
    bytes
}

/// Bytes in hex with single spaces between them.
pub(crate) fn bytes_of(hex: &str) -> Vec<u8> {
    hex.split(' ').filter(|byte| !byte.is_empty()).map(one).collect()
}

fn one(hex: &str) -> u8 {
    u8::from_str_radix(hex, 16).unwrap_or_else(|error| panic!("{error}: {hex:?}"))
}

/// A dump of `bytes`, with runs of one value shortened and printable text as the remark.
pub(crate) fn dump(bytes: &[u8]) -> String {
    const RUN: usize = 33;
    let mut out = String::new();
    let mut at = 0;
    while at < bytes.len() {
        let run = bytes[at..].iter().take_while(|byte| **byte == bytes[at]).count();
        if run >= RUN {
            out.push_str(&format!("{at:04x}  {run} * {:02x}\n", bytes[at]));
            at += run;
            continue;
        }
        let mut end = (at / 16 * 16 + 16).min(bytes.len());
        // A line ends before the next long run.
        for start in at + 1..end {
            if bytes[start..].iter().take_while(|byte| **byte == bytes[start]).count() >= RUN {
                end = start;
                break;
            }
        }
        let line = &bytes[at..end];
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String =
            line.iter().map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '.' }).collect();
        out.push_str(&format!("{at:04x}  {:<47}   {text}\n", hex.join(" ")));
        at = end;
    }
    out
}
