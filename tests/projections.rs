//! Is a state that goes on from a kept one always the state that a fold from the first event gives?

#[path = "projections/caches.rs"]
mod caches;
mod common;
#[path = "projections/corpus.rs"]
mod corpus;
#[path = "projections/costs.rs"]
mod costs;
#[path = "projections/folds.rs"]
mod folds;
#[path = "projections/hints.rs"]
mod hints;
#[path = "projections/hosts.rs"]
mod hosts;
#[path = "projections/machine.rs"]
mod machine;
#[path = "projections/recount.rs"]
mod recount;
#[path = "projections/rows.rs"]
mod rows;
#[path = "projections/writers.rs"]
mod writers;
