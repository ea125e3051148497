//! JSON values that are built, mutated, and written in the spellings that JavaScript reads alike.

/// Numbers of a small generator: xorshift64*, seeded by splitmix.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((z ^ (z >> 31)) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).expect("small")).expect("small")
    }

    /// Once in `n`.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// A JSON value whose members keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    /// Text that stands as it is: a number, `true`, `null`, or a fragment of any kind.
    Raw(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn object(members: &[(&str, Json)]) -> Self {
        Self::Object(members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Self::Object(members) => members.iter().find(|(own, _)| own == name).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        match self {
            Self::Object(members) => members.iter_mut().find(|(own, _)| own == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Sets a member, at its place or at the end.
    pub(crate) fn set(&mut self, name: &str, value: Json) {
        if let Some(slot) = self.get_mut(name) {
            *slot = value;
        } else if let Self::Object(members) = self {
            members.push((name.to_owned(), value));
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Json> {
        match self {
            Self::Object(members) => {
                let at = members.iter().position(|(own, _)| own == name)?;
                Some(members.remove(at).1)
            }
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Self::Raw(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Every value in this one, itself first.
    pub(crate) fn count(&self) -> usize {
        1 + match self {
            Self::List(items) => items.iter().map(Self::count).sum::<usize>(),
            Self::Object(members) => members.iter().map(|(_, value)| value.count()).sum(),
            _ => 0,
        }
    }

    /// The value of number `index` in the order of [`count`](Self::count).
    pub(crate) fn nth_mut(&mut self, index: &mut usize) -> Option<&mut Json> {
        if *index == 0 {
            return Some(self);
        }
        *index -= 1;
        let children: Vec<&mut Json> = match self {
            Self::List(items) => items.iter_mut().collect(),
            Self::Object(members) => members.iter_mut().map(|(_, value)| value).collect(),
            _ => Vec::new(),
        };
        for child in children {
            let inside = child.count();
            if *index < inside {
                return child.nth_mut(index);
            }
            *index -= inside;
        }
        None
    }

    /// As `JSON.stringify` writes it.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &mut None);
        out
    }

    /// In some spelling that means the same.
    pub(crate) fn to_odd_text(&self, rng: &mut Rng) -> String {
        let mut out = String::new();
        self.write(&mut out, &mut Some(rng));
        out
    }

    fn write(&self, out: &mut String, odd: &mut Option<&mut Rng>) {
        space(out, odd);
        match self {
            Self::Raw(text) => {
                out.push_str(text);
                let is_integer = text.bytes().all(|byte| byte.is_ascii_digit());
                if let Some(rng) = odd
                    && is_integer
                {
                    out.push_str(rng.pick::<&str>(&["", "", "", ".0", "e0", "E+0", ".000"]));
                }
            }
            Self::Text(text) => write_text(text, out, odd),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out, odd);
                }
                space(out, odd);
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    space(out, odd);
                    write_text(name, out, odd);
                    space(out, odd);
                    out.push(':');
                    value.write(out, odd);
                }
                space(out, odd);
                out.push('}');
            }
        }
        space(out, odd);
    }
}

fn space(out: &mut String, odd: &mut Option<&mut Rng>) {
    if let Some(rng) = odd {
        out.push_str(rng.pick::<&str>(&["", "", "", " ", "\t", "\r", "  "]));
    }
}

fn write_text(text: &str, out: &mut String, odd: &mut Option<&mut Rng>) {
    out.push('"');
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if let Some(rng) = odd
            && rng.one_in(6)
            && c != '\u{1}'
        {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&if rng.one_in(2) {
                    format!("\\u{unit:04x}")
                } else {
                    format!("\\u{unit:04X}")
                });
            }
            continue;
        }
        match c {
            // Four hexadecimal digits follow: a code unit that no character stands for.
            '\u{1}' => {
                out.push_str("\\u");
                out.extend(chars.by_ref().take(4));
            }
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

pub(crate) fn n(number: u64) -> Json {
    Json::Raw(number.to_string())
}

pub(crate) fn raw(text: impl AsRef<str>) -> Json {
    Json::Raw(text.as_ref().to_owned())
}

pub(crate) fn t(text: impl AsRef<str>) -> Json {
    Json::Text(text.as_ref().to_owned())
}

pub(crate) fn list(items: Vec<Json>) -> Json {
    Json::List(items)
}

/// `obj!{ "a": value, ... }`
macro_rules! obj {
    ($($name:literal : $value:expr),* $(,)?) => {
        $crate::migrations::value::Json::object(&[$(($name, $value)),*])
    };
}
pub(crate) use obj;
