//! The notation of the `.schema` files, parsed into a tree that says exactly what was written.
//!
//! Spec: `format-spec/07-inventory.md`, "Notation".

use std::fmt;

/// One `.schema` file.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) shapes: Vec<Shape>,
    pub(super) events: Vec<Event>,
}

/// `shape NAME = T`.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) form: Form,
}

/// `event TYPE [surface] = T` with its `refs`, or `event TYPE as v1`.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) surface: bool,
    /// `None` for `as v1`.
    pub(super) form: Option<Form>,
    pub(super) refs: Vec<String>,
}

/// A type expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    Text { non_empty: bool, trimmed: bool },
    Instant,
    Bool,
    Count { low: u64 },
    Positive { up_to_generation: bool },
    Int { low: Option<i64>, high: Option<i64> },
    Number { low: Option<f64>, above: Option<f64>, high: Option<f64> },
    Seq,
    Any { opaque: bool },
    Object,
    Nullable(Box<Form>),
    Values(Vec<Literal>),
    List { item: Box<Form>, size: ListSize, unique: bool },
    Record(Record),
    Choice { tag: String, cases: Vec<(Vec<String>, Form)>, open: bool },
    Named(String),
    Ruled { form: Box<Form>, rules: Vec<String> },
}

/// How many elements a list may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListSize {
    Any,
    OneOrMore,
    One,
}

/// `{ a: T, b?: T, ..Shape }`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    pub(super) members: Vec<Member>,
    /// Shapes whose members belong to the record too.
    pub(super) spreads: Vec<String>,
}

/// One member of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) form: Form,
}

/// A value that is admitted as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    Text(String),
    True,
    Number(i64),
}

/// Where a `.schema` file departs from the notation.
#[derive(Debug)]
pub(super) struct NotationError {
    line: usize,
    wanted: &'static str,
    found: String,
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: wanted {}, found {:?}", self.line, self.wanted, self.found)
    }
}

/// Parses one `.schema` file.
pub(super) fn parse(text: &str) -> Result<Schema, NotationError> {
    let mut p = Parser { tokens: tokens(text), at: 0 };
    let mut schema = Schema::default();
    while let Some(word) = p.next_word() {
        match word.as_str() {
            "shape" => {
                let name = p.word("a shape's name")?;
                p.symbol("=")?;
                let form = p.form()?;
                schema.shapes.push(Shape { name, form });
            }
            "event" => schema.events.push(p.event()?),
            _ => return Err(p.error_before("`shape` or `event`")),
        }
    }
    if p.at < p.tokens.len() { Err(p.error("`shape` or `event`")) } else { Ok(schema) }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Symbol(&'static str),
}

/// Splits `text`; comments and space separate tokens and are dropped.
fn tokens(text: &str) -> Vec<(usize, Token)> {
    const SYMBOLS: [&str; 17] =
        ["..", "?:", "=", ":", ",", "|", "&", "{", "}", "[", "]", "(", ")", "+", ">", "?", "#"];
    let mut out = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index.saturating_add(1);
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let taken = if let Some(quoted) = rest.strip_prefix('"') {
                let end = quoted.find('"').unwrap_or(quoted.len());
                out.push((number, Token::Quoted(quoted.get(..end).unwrap_or("").to_owned())));
                end.saturating_add(2)
            } else if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
                out.push((number, Token::Symbol(symbol)));
                symbol.len()
            } else {
                let is_word = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
                // `0..` is a number and a symbol; a dot belongs to a word only between letters.
                let mut end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                if let Some(dots) = rest.find("..") {
                    end = end.min(dots);
                }
                let end = end.max(1);
                let word = rest.get(..end).unwrap_or(rest);
                out.push((number, Token::Word(word.to_owned())));
                word.len()
            };
            rest = rest.get(taken..).unwrap_or("").trim_start();
        }
    }
    out
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
}

impl Parser {
    fn event(&mut self) -> Result<Event, NotationError> {
        let name = self.word("an event type")?;
        let surface = self.take_word("surface");
        let form = if self.take_word("as") {
            if !self.take_word("v1") {
                return Err(self.error("`v1`"));
            }
            None
        } else {
            self.symbol("=")?;
            Some(self.form()?)
        };
        let mut refs = Vec::new();
        if self.take_word("refs") {
            refs.push(self.word("a member that holds seqs")?);
            while self.take(",") {
                refs.push(self.word("a member that holds seqs")?);
            }
        }
        Ok(Event { name, surface, form, refs })
    }

    /// A type with what may follow it: `& rule`, `| T`.
    fn form(&mut self) -> Result<Form, NotationError> {
        let form = self.plain_form()?;
        let mut rules = Vec::new();
        while self.take("&") {
            rules.push(self.word("a rule")?);
        }
        Ok(if rules.is_empty() { form } else { Form::Ruled { form: Box::new(form), rules } })
    }

    fn plain_form(&mut self) -> Result<Form, NotationError> {
        if self.take("{") {
            return Ok(Form::Record(self.record_rest()?));
        }
        if self.take("[") {
            let item = Box::new(self.form()?);
            self.symbol("]")?;
            let size = if self.take("+") {
                ListSize::OneOrMore
            } else if self.take_word("one") {
                ListSize::One
            } else {
                ListSize::Any
            };
            return Ok(Form::List { item, size, unique: self.take_word("unique") });
        }
        if let Some(first) = self.literal() {
            let mut values = vec![first];
            while self.take("|") {
                values.push(self.literal().ok_or_else(|| self.error("a value"))?);
            }
            return Ok(Form::Values(values));
        }
        let word = self.word("a type")?;
        match word.as_str() {
            "text" => {
                let non_empty = self.take("+");
                Ok(Form::Text { non_empty, trimmed: self.take_word("trimmed") })
            }
            "instant" => Ok(Form::Instant),
            "bool" => Ok(Form::Bool),
            "seq" => Ok(Form::Seq),
            "any" => Ok(Form::Any { opaque: false }),
            "opaque" => Ok(Form::Any { opaque: true }),
            "object" => Ok(Form::Object),
            "null" => {
                self.symbol("|")?;
                Ok(Form::Nullable(Box::new(self.form()?)))
            }
            "count" => {
                let range = self.range()?;
                Ok(Form::Count { low: range.low::<u64>().unwrap_or(0) })
            }
            "positive" => {
                let range = self.range()?;
                Ok(Form::Positive { up_to_generation: range.high.as_deref() == Some("generation") })
            }
            "int" => {
                let range = self.range()?;
                Ok(Form::Int { low: range.low(), high: range.high() })
            }
            "number" => {
                let range = self.range()?;
                Ok(Form::Number { low: range.low(), above: range.above(), high: range.high() })
            }
            "by" => self.choice(),
            _ if word.starts_with(|c: char| c.is_ascii_uppercase()) => Ok(Form::Named(word)),
            _ => Err(self.error_before("a type")),
        }
    }

    fn choice(&mut self) -> Result<Form, NotationError> {
        let tag = self.word("the member that selects")?;
        self.symbol("{")?;
        let (mut cases, mut open) = (Vec::new(), false);
        loop {
            if self.take("}") {
                return Ok(Form::Choice { tag, cases, open });
            }
            if self.take_word("otherwise") {
                open = self.take_word("open");
                continue;
            }
            let mut names = vec![self.quoted()?];
            while self.take("|") {
                names.push(self.quoted()?);
            }
            cases.push((names, self.form()?));
        }
    }

    fn record_rest(&mut self) -> Result<Record, NotationError> {
        let mut record = Record::default();
        loop {
            if self.take("}") {
                return Ok(record);
            }
            if self.take("..") {
                record.spreads.push(self.word("a shape")?);
            } else {
                let name = self.word("a member")?;
                let required = !self.take("?:");
                if required {
                    self.symbol(":")?;
                }
                record.members.push(Member { name, required, form: self.form()? });
            }
            if !self.take(",") && self.tokens.get(self.at).map(|(_, t)| t) != Some(&Token::Symbol("}")) {
                return Err(self.error("`,` or `}`"));
            }
        }
    }

    fn range(&mut self) -> Result<Range, NotationError> {
        let mut range = Range::default();
        if self.take("(") {
            if self.take(">") {
                range.above = Some(self.word("a bound")?);
            } else {
                range.low = self.next_word();
                self.symbol("..")?;
                range.high = self.next_word();
            }
            self.symbol(")")?;
        }
        Ok(range)
    }

    fn literal(&mut self) -> Option<Literal> {
        let literal = match self.tokens.get(self.at)?.1 {
            Token::Quoted(ref text) => Literal::Text(text.clone()),
            Token::Word(ref word) if word == "true" => Literal::True,
            Token::Word(ref word) => Literal::Number(word.parse().ok()?),
            Token::Symbol(_) => return None,
        };
        self.at = self.at.saturating_add(1);
        Some(literal)
    }

    fn next_word(&mut self) -> Option<String> {
        match self.tokens.get(self.at) {
            Some((_, Token::Word(word))) => {
                let word = word.clone();
                self.at = self.at.saturating_add(1);
                Some(word)
            }
            _ => None,
        }
    }

    fn word(&mut self, wanted: &'static str) -> Result<String, NotationError> {
        self.next_word().ok_or_else(|| self.error(wanted))
    }

    fn quoted(&mut self) -> Result<String, NotationError> {
        match self.literal() {
            Some(Literal::Text(text)) => Ok(text),
            _ => Err(self.error("a quoted tag")),
        }
    }

    fn take(&mut self, symbol: &str) -> bool {
        self.take_if(|t| matches!(t, Token::Symbol(s) if *s == symbol))
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.take_if(|t| matches!(t, Token::Word(w) if w == word))
    }

    fn take_if(&mut self, is: impl Fn(&Token) -> bool) -> bool {
        let taken = self.tokens.get(self.at).is_some_and(|(_, t)| is(t));
        if taken {
            self.at = self.at.saturating_add(1);
        }
        taken
    }

    fn symbol(&mut self, symbol: &'static str) -> Result<(), NotationError> {
        if self.take(symbol) { Ok(()) } else { Err(self.error(symbol)) }
    }

    fn error(&self, wanted: &'static str) -> NotationError {
        self.error_at(self.at, wanted)
    }

    fn error_before(&self, wanted: &'static str) -> NotationError {
        self.error_at(self.at.saturating_sub(1), wanted)
    }

    fn error_at(&self, at: usize, wanted: &'static str) -> NotationError {
        let last = self.tokens.last().map_or(0, |(line, _)| *line);
        match self.tokens.get(at) {
            Some((line, token)) => NotationError { line: *line, wanted, found: format!("{token:?}") },
            None => NotationError { line: last, wanted, found: "the end".to_owned() },
        }
    }
}

/// The words of `(low..high)` or `(>above)`.
#[derive(Default)]
struct Range {
    low: Option<String>,
    above: Option<String>,
    high: Option<String>,
}

impl Range {
    fn low<T: std::str::FromStr>(&self) -> Option<T> {
        self.low.as_deref()?.parse().ok()
    }

    fn above<T: std::str::FromStr>(&self) -> Option<T> {
        self.above.as_deref()?.parse().ok()
    }

    fn high<T: std::str::FromStr>(&self) -> Option<T> {
        self.high.as_deref()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Form {
        parse(&format!("shape X = {text}")).expect("the notation holds").shapes.remove(0).form
    }

    #[test]
    fn a_record_says_which_members_are_required() {
        let Form::Record(record) = form("{ a: text+, b?: null | count(3..), ..Other }") else {
            panic!("a record")
        };
        assert_eq!(record.spreads, ["Other"]);
        assert_eq!(record.members[0].form, Form::Text { non_empty: true, trimmed: false });
        assert!(record.members[0].required && !record.members[1].required);
        assert_eq!(record.members[1].form, Form::Nullable(Box::new(Form::Count { low: 3 })));
    }

    #[test]
    fn bounds_lists_and_rules_are_kept() {
        assert_eq!(form("number(>0)"), Form::Number { low: None, above: Some(0.0), high: None });
        assert_eq!(form("int(100..599)"), Form::Int { low: Some(100), high: Some(599) });
        assert_eq!(form("positive(..generation)"), Form::Positive { up_to_generation: true });
        let list = Form::List { item: Box::new(Form::Seq), size: ListSize::OneOrMore, unique: true };
        assert_eq!(form("[seq]+ unique"), list);
        let ruled = Form::Ruled { form: Box::new(form("Y")), rules: vec!["r-1".into(), "r-2".into()] };
        assert_eq!(form("Y & r-1 & r-2"), ruled);
        assert_eq!(
            form("\"a\" | \"b\""),
            Form::Values(vec![Literal::Text("a".into()), Literal::Text("b".into())])
        );
    }

    #[test]
    fn a_mistake_names_its_line() {
        let error = parse("shape A = text\nshape B = {a text}").expect_err("a colon is missing");
        assert_eq!(error.line, 2);
        assert!(parse("event x = nothing").is_err());
        assert!(parse("event x = {} refs").is_err());
    }
}
