//! How a backend keeps the rules.

use std::fmt;

/// What became of every rule of the contract on one backend. `Display` is the table for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    backend: String,
    rules: Vec<RuleReport>,
}

/// One numbered rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleReport {
    /// Its number in the contract, from 1.
    pub number: u32,
    /// Each function of the suite that has the number.
    pub checks: Vec<Check>,
    /// What they come to.
    pub status: Status,
}

/// One function of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// Its name, `r053_` and so on: that of the test as well.
    pub name: &'static str,
    /// What it states, in words.
    pub words: String,
    /// How it ended.
    pub status: Status,
}

/// How a rule, or a part of one, ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It holds. Parts of a rule may be [`Status::NotApplicable`] all the same.
    Passed,
    /// It does not, by these messages.
    Failed(Vec<String>),
    /// The storage does not offer what it takes to find out.
    NotApplicable(String),
    /// It is no rule that a backend can break.
    Elsewhere(&'static str),
}

impl Status {
    /// The word for it in tables.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "FAILED",
            Self::NotApplicable(_) => "not applicable",
            Self::Elsewhere(_) => "elsewhere",
        }
    }
}

/// Rules by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// [`Status::Passed`].
    pub passed: usize,
    /// [`Status::Failed`].
    pub failed: usize,
    /// [`Status::NotApplicable`].
    pub not_applicable: usize,
    /// [`Status::Elsewhere`].
    pub elsewhere: usize,
}

impl RuleReport {
    /// A rule that functions of the suite looked at.
    pub(super) fn checked(number: u32, checks: Vec<Check>) -> Self {
        let mut failures = Vec::new();
        let mut reasons = Vec::new();
        let mut has_passed = false;
        for check in &checks {
            match &check.status {
                Status::Passed => has_passed = true,
                Status::Failed(messages) => failures.extend(messages.iter().cloned()),
                Status::NotApplicable(reason) => reasons.push(reason.clone()),
                Status::Elsewhere(_) => {}
            }
        }
        let status = if !failures.is_empty() {
            Status::Failed(failures)
        } else if has_passed {
            Status::Passed
        } else {
            reasons.dedup();
            Status::NotApplicable(reasons.join("; "))
        };
        Self { number, checks, status }
    }

    /// A rule that none looked at.
    pub(super) const fn elsewhere(number: u32, reason: &'static str) -> Self {
        Self { number, checks: Vec::new(), status: Status::Elsewhere(reason) }
    }
}

impl Report {
    pub(super) const fn new(backend: String, rules: Vec<RuleReport>) -> Self {
        Self { backend, rules }
    }

    /// [`Backend::name`](super::Backend::name).
    #[must_use]
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// Every rule, from number 1 on.
    #[must_use]
    pub fn rules(&self) -> &[RuleReport] {
        &self.rules
    }

    /// Numbers of the rules that do not hold.
    pub fn failed(&self) -> impl Iterator<Item = u32> + '_ {
        self.rules.iter().filter(|rule| matches!(rule.status, Status::Failed(_))).map(|rule| rule.number)
    }

    /// How many rules ended how.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let count = |is: fn(&Status) -> bool| self.rules.iter().filter(|rule| is(&rule.status)).count();
        Counts {
            passed: count(|status| matches!(status, Status::Passed)),
            failed: count(|status| matches!(status, Status::Failed(_))),
            not_applicable: count(|status| matches!(status, Status::NotApplicable(_))),
            elsewhere: count(|status| matches!(status, Status::Elsewhere(_))),
        }
    }

    /// Panics with the whole table unless every applicable rule holds.
    ///
    /// # Panics
    /// If a rule does not.
    pub fn assert_passed(&self) {
        assert!(self.failed().next().is_none(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { passed, failed, not_applicable, elsewhere } = self.counts();
        writeln!(
            f,
            "{}: {passed} rules passed, {failed} failed, {not_applicable} not applicable, {elsewhere} elsewhere",
            self.backend
        )?;
        let mut rules = self.rules.iter().peekable();
        while let Some(rule) = rules.next() {
            if let Status::Elsewhere(reason) = rule.status {
                // A run of numbers with one reason is one line.
                let mut last = rule.number;
                while let Some(next) = rules.next_if(|next| next.status == rule.status) {
                    last = next.number;
                }
                let numbers =
                    if last == rule.number { last.to_string() } else { format!("{}-{last}", rule.number) };
                writeln!(f, "{numbers:>7}  {:<14}  {reason}", rule.status.as_str())?;
            }
            let mut number = rule.number.to_string();
            for Check { words, status, .. } in &rule.checks {
                write!(f, "{:>7}  {:<14}  {words}", std::mem::take(&mut number), status.as_str())?;
                match status {
                    Status::NotApplicable(reason) => writeln!(f, ": {reason}")?,
                    Status::Failed(messages) => {
                        writeln!(f)?;
                        let lines = messages.iter().flat_map(|message| message.lines());
                        for line in lines {
                            writeln!(f, "{:25}{line}", "")?;
                        }
                    }
                    Status::Passed | Status::Elsewhere(_) => writeln!(f)?,
                }
            }
        }
        Ok(())
    }
}
