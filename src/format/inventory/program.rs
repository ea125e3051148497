//! The compiled form of the inventory: a table of checks that a parsed value is run through.

use std::collections::HashMap;

use super::mismatch::{Mismatch, Problem};
use super::notation::{Form, ListSize, Literal, Record as RecordForm, Schema};
use super::rules::Rule;
use crate::json::{Kind as JsonKind, Node, Number, Str};
use crate::units::Generation;

/// The log that a payload stands in: what the rules about generations and earlier events need to know.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The generation of the log.
    pub generation: Generation,
    /// The seq of the event that carries the payload.
    pub seq: u64,
}

/// Position of a check in [`Program::checks`].
pub(super) type CheckId = u16;

/// All checks of one inventory.
#[derive(Debug, Default)]
pub(super) struct Program {
    checks: Vec<Check>,
    shapes: HashMap<String, CheckId>,
}

#[derive(Debug)]
enum Check {
    Text {
        non_empty: bool,
    },
    TrimmedText,
    Instant,
    Bool,
    Count {
        low: u64,
    },
    UpToGeneration,
    Int {
        low: i64,
        high: i64,
    },
    Number {
        low: f64,
        above: f64,
        high: f64,
    },
    Seq,
    Lossless,
    Object,
    Nullable(CheckId),
    Values(Box<[Literal]>),
    List {
        item: CheckId,
        size: ListSize,
        unique: bool,
    },
    Record(Record),
    Choice(Choice),
    Ruled(CheckId, Rule),
    /// A shape inside itself: put aside instead of recursing, so that nesting in the input costs no stack.
    Deferred(CheckId),
    /// The tag of a choice, compared when its case was chosen.
    Chosen,
    /// `source` of a user message: [`Rule::LegacyGoalMessage`] judges the form that it knows.
    SourceOrLegacyGoal(CheckId),
    /// A shape that is being compiled.
    Unfinished,
}

#[derive(Debug)]
struct Record {
    fields: Box<[Field]>,
    required: u64,
}

#[derive(Debug)]
struct Field {
    name: Box<str>,
    check: CheckId,
}

#[derive(Debug)]
struct Choice {
    tag: Box<str>,
    cases: Box<[(Box<str>, CheckId)]>,
    open: bool,
}

/// Values that wait for their check.
type Deferred<'t> = Vec<(CheckId, Node<'t>)>;

impl Program {
    /// Runs check `id` on `value`. Stack use is bounded by the inventory, not by `value`.
    pub(super) fn check(&self, id: CheckId, value: Node<'_>, place: Place) -> Result<(), Mismatch> {
        let mut deferred = Deferred::new();
        self.run(id, value, place, &mut deferred)?;
        while let Some((id, value)) = deferred.pop() {
            self.run(id, value, place, &mut deferred)?;
        }
        Ok(())
    }

    /// The check of a named shape.
    pub(super) fn shape(&self, name: &str) -> Option<CheckId> {
        self.shapes.get(name).copied()
    }

    fn run<'t>(
        &self,
        id: CheckId,
        value: Node<'t>,
        place: Place,
        deferred: &mut Deferred<'t>,
    ) -> Result<(), Mismatch> {
        let Some(check) = self.checks.get(usize::from(id)) else { return Err(Problem::Unfinished.into()) };
        let holds = match check {
            Check::Text { non_empty } => value.as_str().is_some_and(|s| !(*non_empty && s.is_empty())),
            Check::TrimmedText => value.as_str().is_some_and(is_trimmed),
            Check::Instant => value.as_str().is_some_and(|s| is_instant(&s.to_string_lossy())),
            Check::Bool => value.as_bool().is_some(),
            Check::Count { low } => value.as_number().and_then(Number::as_count).is_some_and(|n| n >= *low),
            Check::UpToGeneration => value
                .as_number()
                .and_then(Number::as_count)
                .is_some_and(|n| (1..=place.generation.get()).contains(&n)),
            Check::Int { low, high } => value
                .as_number()
                .and_then(Number::as_safe_integer)
                .is_some_and(|n| (*low..=*high).contains(&n)),
            Check::Number { low, above, high } => value.as_number().is_some_and(|n| {
                let v = n.value();
                n.is_finite() && !n.is_negative_zero() && v >= *low && v > *above && v <= *high
            }),
            Check::Seq => value.as_number().and_then(Number::as_count).is_some_and(|n| n < place.seq),
            Check::Lossless => return lossless(value),
            Check::Object if value.kind() == JsonKind::Object => return lossless(value),
            Check::Object => false,
            Check::Nullable(inner) => {
                return if value.is_null() { Ok(()) } else { self.run(*inner, value, place, deferred) };
            }
            Check::Values(literals) => literals.iter().any(|l| is_literal(value, l)),
            Check::List { item, size, unique } => {
                return self.list(*item, *size, *unique, value, place, deferred);
            }
            Check::Record(record) => return self.record(record, value, place, deferred),
            Check::Choice(choice) => return self.choice(choice, value, place, deferred),
            Check::Ruled(inner, rule) => {
                self.run(*inner, value, place, deferred)?;
                return if rule.holds(self, value, place) {
                    Ok(())
                } else {
                    Err(Problem::Rule(*rule).into())
                };
            }
            Check::Deferred(inner) => {
                deferred.push((*inner, value));
                true
            }
            Check::Chosen => true,
            Check::SourceOrLegacyGoal(inner) => {
                return if Rule::is_legacy_goal_source(value, place) {
                    Ok(())
                } else {
                    self.run(*inner, value, place, deferred)
                };
            }
            Check::Unfinished => return Err(Problem::Unfinished.into()),
        };
        if holds { Ok(()) } else { Err(Problem::Value.into()) }
    }

    fn list<'t>(
        &self,
        item: CheckId,
        size: ListSize,
        unique: bool,
        value: Node<'t>,
        place: Place,
        deferred: &mut Deferred<'t>,
    ) -> Result<(), Mismatch> {
        let Some(items) = value.items() else { return Err(Problem::Value.into()) };
        let fits = match size {
            ListSize::Any => true,
            ListSize::OneOrMore => items.len() >= 1,
            ListSize::One => items.len() == 1,
        };
        if !fits {
            return Err(Problem::Length.into());
        }
        for element in items.clone() {
            self.run(item, element, place, deferred)?;
        }
        if unique && !are_unique_counts(items) { Err(Problem::Repeated.into()) } else { Ok(()) }
    }

    fn record<'t>(
        &self,
        record: &Record,
        value: Node<'t>,
        place: Place,
        deferred: &mut Deferred<'t>,
    ) -> Result<(), Mismatch> {
        let Some(members) = value.members() else { return Err(Problem::Value.into()) };
        let (mut seen, mut guess) = (0_u64, 0_usize);
        for (name, member) in members {
            // Writers keep the order of the inventory, nearly: look where the last member ended first.
            let found = match record.fields.get(guess) {
                Some(field) if name.eq_str(&field.name) => Some((guess, field)),
                _ => record.fields.iter().enumerate().find(|(_, field)| name.eq_str(&field.name)),
            };
            let Some((index, field)) = found else {
                return Err(Mismatch::unexpected(name));
            };
            guess = index.saturating_add(1);
            seen |= bit(index);
            self.run(field.check, member, place, deferred).map_err(|m| m.inside(&field.name))?;
        }
        match record.required & !seen {
            0 => Ok(()),
            missing => {
                let index = usize::try_from(missing.trailing_zeros()).unwrap_or(usize::MAX);
                let name = record.fields.get(index).map_or("", |field| &field.name);
                Err(Mismatch::from(Problem::Missing).inside(name))
            }
        }
    }

    fn choice<'t>(
        &self,
        choice: &Choice,
        value: Node<'t>,
        place: Place,
        deferred: &mut Deferred<'t>,
    ) -> Result<(), Mismatch> {
        let Some(mut members) = value.members() else { return Err(Problem::Value.into()) };
        // Writers put the tag first.
        let first = members.next().filter(|(name, _)| name.eq_str(&choice.tag));
        let Some(tag) = first.map(|(_, tag)| tag).or_else(|| value.get(&choice.tag)) else {
            return Err(Mismatch::from(Problem::Missing).inside(&choice.tag));
        };
        let Some(text) = tag.as_str() else {
            return Err(Mismatch::from(Problem::Value).inside(&choice.tag));
        };
        if let Some((_, case)) = choice.cases.iter().find(|(name, _)| text.eq_str(name)) {
            return self.run(*case, value, place, deferred);
        }
        if choice.open && !text.is_empty() {
            return lossless(value);
        }
        Err(Mismatch::from(Problem::Value).inside(&choice.tag))
    }
}

/// What a compiler of `.schema` files refuses.
#[derive(Debug, thiserror::Error)]
pub(super) enum CompileError {
    #[error("nothing declares {0}, or not in the form that its use needs")]
    Undeclared(String),
    #[error("too many checks, or members of one record")]
    TooMany,
}

/// Compiles shapes and events into one [`Program`].
#[derive(Debug)]
pub(super) struct Compiler<'s> {
    program: Program,
    sources: HashMap<&'s str, &'s Form>,
    /// Shapes whose compilation is under way: a use of one of them is a use inside itself.
    open: Vec<&'s str>,
}

impl<'s> Compiler<'s> {
    /// A compiler that knows the shapes of all `schemas`.
    pub(super) fn new(schemas: &[&'s Schema]) -> Self {
        let shapes = schemas.iter().flat_map(|schema| &schema.shapes);
        let sources = shapes.map(|shape| (shape.name.as_str(), &shape.form)).collect();
        Self { program: Program::default(), sources, open: Vec::new() }
    }

    /// Adds the check for `form` and returns where it is.
    pub(super) fn compile(&mut self, form: &'s Form) -> Result<CheckId, CompileError> {
        let check = match form {
            Form::Named(name) => return self.named(name),
            Form::Ruled { form, rules } => return self.ruled(form, rules),
            Form::Text { trimmed: true, .. } => Check::TrimmedText,
            Form::Text { non_empty, .. } => Check::Text { non_empty: *non_empty },
            Form::Instant => Check::Instant,
            Form::Bool => Check::Bool,
            Form::Count { low } => Check::Count { low: *low },
            Form::Positive { up_to_generation: true } => Check::UpToGeneration,
            Form::Positive { up_to_generation: false } => Check::Count { low: 1 },
            Form::Int { low, high } => {
                Check::Int { low: low.unwrap_or(i64::MIN), high: high.unwrap_or(i64::MAX) }
            }
            Form::Number { low, above, high } => Check::Number {
                low: low.unwrap_or(f64::NEG_INFINITY),
                above: above.unwrap_or(f64::NEG_INFINITY),
                high: high.unwrap_or(f64::INFINITY),
            },
            Form::Seq => Check::Seq,
            Form::Any { .. } => Check::Lossless,
            Form::Object => Check::Object,
            Form::Nullable(inner) => Check::Nullable(self.compile(inner)?),
            Form::Values(literals) => Check::Values(literals.clone().into()),
            Form::List { item, size, unique } => {
                Check::List { item: self.compile(item)?, size: *size, unique: *unique }
            }
            Form::Record(record) => Check::Record(self.record(record, None)?),
            Form::Choice { tag, cases, open } => {
                let mut compiled = Vec::new();
                for (names, form) in cases {
                    let id = self.case(tag, form)?;
                    compiled.extend(names.iter().map(|name| (name.as_str().into(), id)));
                }
                Check::Choice(Choice { tag: tag.as_str().into(), cases: compiled.into(), open: *open })
            }
        };
        self.add(check)
    }

    /// The finished program.
    pub(super) fn finish(self) -> Program {
        self.program
    }

    fn add(&mut self, check: Check) -> Result<CheckId, CompileError> {
        let id = CheckId::try_from(self.program.checks.len()).map_err(|_| CompileError::TooMany)?;
        self.program.checks.push(check);
        Ok(id)
    }

    fn named(&mut self, name: &'s str) -> Result<CheckId, CompileError> {
        if let Some(id) = self.program.shape(name) {
            return if self.open.contains(&name) { self.add(Check::Deferred(id)) } else { Ok(id) };
        }
        let form =
            self.sources.get(name).copied().ok_or_else(|| CompileError::Undeclared(name.to_owned()))?;
        if matches!(form, Form::Named(_)) {
            return Err(CompileError::Undeclared(name.to_owned()));
        }
        let id = self.add(Check::Unfinished)?;
        self.program.shapes.insert(name.to_owned(), id);
        self.open.push(name);
        let inner = self.compile(form)?;
        self.open.pop();
        // The shape was compiled behind its place: move it there, so that uses inside it find it.
        let at = usize::from(inner);
        let moved = self.program.checks.get_mut(at).map(|check| std::mem::replace(check, Check::Unfinished));
        if let (Some(check), Some(slot)) = (moved, self.program.checks.get_mut(usize::from(id))) {
            *slot = check;
        }
        Ok(id)
    }

    fn ruled(&mut self, form: &'s Form, rules: &'s [String]) -> Result<CheckId, CompileError> {
        let mut id = self.compile(form)?;
        for name in rules {
            let rule = Rule::from_name(name).ok_or_else(|| CompileError::Undeclared(name.clone()))?;
            if rule == Rule::LegacyGoalMessage {
                self.guard_source(id)?;
                self.named("GoalChange")?;
            }
            id = self.add(Check::Ruled(id, rule))?;
        }
        Ok(id)
    }

    /// Puts the exception for the legacy goal form before the check of member `source` of record `id`.
    fn guard_source(&mut self, id: CheckId) -> Result<(), CompileError> {
        let guard = CheckId::try_from(self.program.checks.len()).map_err(|_| CompileError::TooMany)?;
        let Some(Check::Record(record)) = self.program.checks.get_mut(usize::from(id)) else {
            return Err(CompileError::Undeclared("source".to_owned()));
        };
        let field = record.fields.iter_mut().find(|field| &*field.name == "source");
        let field = field.ok_or_else(|| CompileError::Undeclared("source".to_owned()))?;
        let inner = std::mem::replace(&mut field.check, guard);
        self.add(Check::SourceOrLegacyGoal(inner)).map(|_| ())
    }

    fn case(&mut self, tag: &'s str, form: &'s Form) -> Result<CheckId, CompileError> {
        match form {
            Form::Record(record) => {
                let record = self.record(record, Some(tag))?;
                self.add(Check::Record(record))
            }
            Form::Ruled { form, rules } => {
                let mut id = self.case(tag, form)?;
                for name in rules {
                    let rule = Rule::from_name(name).ok_or_else(|| CompileError::Undeclared(name.clone()))?;
                    id = self.add(Check::Ruled(id, rule))?;
                }
                Ok(id)
            }
            _ => self.compile(form),
        }
    }

    fn record(&mut self, form: &'s RecordForm, tag: Option<&'s str>) -> Result<Record, CompileError> {
        let (mut fields, mut required) = (Vec::new(), 0_u64);
        if let Some(tag) = tag {
            required |= bit(fields.len());
            fields.push(Field { name: tag.into(), check: self.add(Check::Chosen)? });
        }
        let mut pending = vec![form];
        while let Some(form) = pending.pop() {
            for member in &form.members {
                if member.required {
                    required |= bit(fields.len());
                }
                fields.push(Field { name: member.name.as_str().into(), check: self.compile(&member.form)? });
            }
            for name in &form.spreads {
                match self.sources.get(name.as_str()) {
                    Some(Form::Record(spread)) => pending.push(spread),
                    _ => return Err(CompileError::Undeclared(name.clone())),
                }
            }
        }
        if fields.len() > 64 {
            return Err(CompileError::TooMany);
        }
        Ok(Record { fields: fields.into(), required })
    }
}

/// Bit `index` of a member set; no record has more than 64 members.
fn bit(index: usize) -> u64 {
    u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0)
}

fn lossless(value: Node<'_>) -> Result<(), Mismatch> {
    if value.is_lossless() { Ok(()) } else { Err(Problem::Lossy.into()) }
}

fn is_literal(value: Node<'_>, literal: &Literal) -> bool {
    match literal {
        Literal::Text(text) => value.as_str().is_some_and(|s| s.eq_str(text)),
        Literal::True => value.as_bool() == Some(true),
        Literal::Number(n) => value.as_number().and_then(Number::as_safe_integer) == Some(*n),
    }
}

/// Whether no count occurs twice. Ascending lists, the common ones, need no memory.
fn are_unique_counts<'t>(items: impl ExactSizeIterator<Item = Node<'t>> + Clone) -> bool {
    let counts = items.clone().map(|n| n.as_number().and_then(Number::as_count));
    if counts.clone().is_sorted_by(|a, b| a < b) {
        return true;
    }
    let mut all: Vec<_> = counts.collect();
    all.sort_unstable();
    all.windows(2).all(|pair| pair.first() != pair.last())
}

/// Whether `s` is not empty and neither starts nor ends with white space as JavaScript's `trim` sees it.
fn is_trimmed(s: Str<'_>) -> bool {
    let mut units = s.units();
    let Some(first) = units.next() else { return false };
    !is_js_space(first) && !is_js_space(units.last().unwrap_or(first))
}

/// White space of ECMAScript: all of it is in the basic plane.
fn is_js_space(unit: u16) -> bool {
    matches!(
        unit,
        0x09..=0x0d | 0x20 | 0xa0 | 0x1680 | 0x2000..=0x200a | 0x2028 | 0x2029 | 0x202f | 0x205f | 0x3000 | 0xfeff
    )
}

/// Whether `s` is `YYYY-MM-DDTHH:MM:SS.mmmZ` and names a real instant of the years 1 to 9999.
fn is_instant(s: &str) -> bool {
    let pattern = b"dddd-dd-ddTdd:dd:dd.dddZ";
    let bytes = s.as_bytes();
    let shaped = bytes.len() == pattern.len()
        && bytes.iter().zip(pattern).all(|(b, p)| if *p == b'd' { b.is_ascii_digit() } else { b == p });
    if !shaped {
        return false;
    }
    let field = |from: usize, to: usize| s.get(from..to).and_then(|t| t.parse::<u32>().ok()).unwrap_or(0);
    let (year, month, day) = (field(0, 4), field(5, 7), field(8, 10));
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    year >= 1
        && (1..=12).contains(&month)
        && (1..=days).contains(&day)
        && field(11, 13) < 24
        && field(14, 16) < 60
        && field(17, 19) < 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_a_real_one() {
        for good in ["2026-02-28T23:59:59.999Z", "2024-02-29T00:00:00.000Z", "0001-01-01T00:00:00.000Z"] {
            assert!(is_instant(good), "{good}");
        }
        for bad in [
            "2026-02-29T00:00:00.000Z",
            "0000-01-01T00:00:00.000Z",
            "2026-13-01T00:00:00.000Z",
            "2026-01-01T24:00:00.000Z",
            "2026-01-01T00:00:60.000Z",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00.000+",
            "2026-04-31T00:00:00.000Z",
            "1900-02-29T00:00:00.000Z",
        ] {
            assert!(!is_instant(bad), "{bad}");
        }
    }
}
