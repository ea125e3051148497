//! Running the suite, or one rule of it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::backend::Backend;
use super::list::{ELSEWHERE, LAST, RULES, Rule};
use super::report::{Check, Report, RuleReport, Status};

/// Runs every rule that can be observed through the seam, each on a fresh storage, and says what became of each of the
/// contract's numbers. Takes seconds, and a second or two more where syncs are real.
///
/// A rule that fails panics inside and is caught: with the default panic hook its place is printed to stderr on the way. A
/// backend that blocks for ever blocks the suite.
#[must_use]
pub fn run(backend: &dyn Backend) -> Report {
    Report::new(backend.name(), (1..=LAST).map(|number| run_rule(number, backend)).collect())
}

/// Runs the functions of one rule, by its number in the contract.
#[must_use]
pub fn run_rule(number: u32, backend: &dyn Backend) -> RuleReport {
    let functions = RULES.iter().filter(|rule| rule.number() == number);
    let checks: Vec<Check> = functions
        .map(|rule| Check { name: rule.name, words: rule.words(), status: status(*rule, backend) })
        .collect();
    if checks.is_empty() {
        let reason = ELSEWHERE.iter().find(|(first, last, _)| (*first..=*last).contains(&number));
        RuleReport::elsewhere(number, reason.map_or("no rule has that number", |(_, _, reason)| reason))
    } else {
        RuleReport::checked(number, checks)
    }
}

/// Runs one function of the suite by its name, as [`contract_tests!`](crate::contract_tests) does. Returns why it does not
/// apply, if it does not.
///
/// # Panics
/// If the backend breaks the rule, and if the suite has no function of that name.
pub fn check(name: &str, backend: &dyn Backend) -> Option<String> {
    let rule = RULES.iter().find(|rule| rule.name == name).expect("a name of the suite");
    (rule.run)(backend).err().map(|reason| reason.to_string())
}

/// The names of the suite's functions, in the order of their numbers.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

fn status(rule: Rule, backend: &dyn Backend) -> Status {
    // Nothing is used after a panic but what the next rule makes for itself.
    match catch_unwind(AssertUnwindSafe(|| (rule.run)(backend))) {
        Ok(Ok(())) => Status::Passed,
        Ok(Err(reason)) => Status::NotApplicable(reason.to_string()),
        Err(panic) => Status::Failed(vec![message(&*panic)]),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}

/// Makes a test of each function of the suite, for the backend that the expression gives. Each test makes its own.
///
/// Put each backend into a module of its own, since the tests have the same names. A rule that does not apply is printed with
/// its reason, and passes: [`run`](crate::contract::run) tells the two apart.
///
/// ```
/// # use seslog::container::Encoding;
/// # use seslog::contract::FaultFiles;
/// mod plain {
/// #   use super::*;
///     seslog::contract_tests!(FaultFiles::new(Encoding::Plain));
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! contract_tests {
    ($backend:expr) => {
        $crate::__contract_rules! { __contract_tests ($backend) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_tests {
    (($backend:expr) $($file:ident { $($rule:ident)* })*) => {
        $($(
            #[test]
            fn $rule() {
                if let Some(reason) = $crate::contract::check(stringify!($rule), &$backend) {
                    println!("not applicable: {reason}");
                }
            }
        )*)*
    };
}
