//! One assistant stream of 10,000 deltas as real ones are: in the v2 logs of the corpus a fragment has 4.8 bytes of JSON on
//! average, one in eight has an escape, 1,156 of 10,044 are distinct, and 71% of the gaps are 0 or 1 ms.

use seslog::stream::Accumulator;
use seslog::units::UnixMs;

pub(crate) const DELTAS: usize = 10_000;

/// A stream as text, and the deltas that make it.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) records: String,
    pub(crate) deltas: Vec<(UnixMs, String)>,
}

impl Workload {
    pub(crate) fn make() -> Self {
        let mut random = Random(7);
        let words = words(&mut random);
        let mut time = 1_760_000_000_000;
        let mut deltas = Vec::new();
        for _ in 0..DELTAS {
            deltas.push((UnixMs::new(time), fragment(&mut random, &words)));
            time += match random.below(1000) {
                0..575 => 0,
                575..711 => 1,
                711..985 => 18 + i64::from(random.below(16)),
                _ => 40 + i64::from(random.below(160)),
            };
        }
        let mut stream = Accumulator::new();
        for (time, text) in &deltas {
            stream.push_text(*time, 0, text).expect("times are safe");
        }
        Self { records: stream.snapshot(), deltas }
    }
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut n = self.0;
        n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ n >> 31
    }

    fn below(&mut self, bound: u32) -> u32 {
        (self.next() >> 32) as u32 % bound
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }
}

fn words(random: &mut Random) -> Vec<String> {
    const SYLLABLES: &[&str] = &[
        "th", "e", "in", "an", "re", "on", "at", "en", "nd", "ti", "es", "or", "te", "of", "ed", "is", "it",
        "al", "ar", "st", "to", "nt", "ng", "se", "ha", "as", "ou", "io", "le", "ve", "co", "me", "de", "hi",
        "ri", "ro", "ic", "ne", "ea", "ra",
    ];
    let mut words = Vec::new();
    while words.len() < 1150 {
        let space = if random.below(10) < 7 { " " } else { "" };
        let syllables = (0..1 + random.below(4)).map(|_| random.one_of(SYLLABLES));
        let word: String = std::iter::once(space).chain(syllables).collect();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

fn fragment(random: &mut Random, words: &[String]) -> String {
    match random.below(1000) {
        0..128 => random.one_of(&["\"", "\n", " \"", "\"\n", "\":", "\\n", ",\"", "\n\n"]).to_owned(),
        128..260 => random.one_of(&[".", ",", " ", ":", "(", ")", ";", "{", "}", "="]).to_owned(),
        260..270 => String::new(),
        // Words are as frequent as their rank is low.
        _ => {
            let exponent = f64::from(random.below(1_000_000)) / 1_000_000.0;
            let rank = (words.len() as f64).powf(exponent) as usize;
            words[rank.min(words.len() - 1)].clone()
        }
    }
}
