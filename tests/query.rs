//! Does a query show what is live and what is stored, each as it is, and read nothing twice that has not changed?

mod common;

#[path = "query/batch.rs"]
mod batch;
#[path = "query/blank.rs"]
mod blank;
#[path = "query/cache.rs"]
mod cache;
#[path = "query/cold.rs"]
mod cold;
#[path = "query/flight.rs"]
mod flight;
#[path = "query/list.rs"]
mod list;
#[path = "query/model.rs"]
mod model;
#[path = "query/stage.rs"]
mod stage;
