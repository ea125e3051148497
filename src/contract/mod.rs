//! The contract of the seam as code: its numbered rules, run over any backend.
//!
//! A backend is what stands behind [`SessionPersistence`](crate::store::SessionPersistence). Whoever writes one implements
//! [`Backend`] and [`Storage`], two small traits that say how a fresh storage is made and what can be done behind its back,
//! and calls [`run`] or [`contract_tests!`](crate::contract_tests). Every rule is a function named after its number, and begins
//! with a storage of its own. The hooks of [`Storage`] are optional: rules that need one which is not offered are reported as
//! not applicable, with the reason.
//!
//! ```
//! use std::sync::Arc;
//!
//! use seslog::contract::{Backend, NotOffered, Offered, Step, Storage, run};
//! use seslog::store::SessionPersistence;
//! # use seslog::container::disk::fault::{Failure, FaultDisk, OpKind};
//! # use seslog::store::{FileStore, StoreOptions};
//! # #[derive(Clone, Debug, Default)]
//! # struct Database(FaultDisk);
//! # impl Database {
//! #     fn connect(&self) -> FileStore { FileStore::on_disk(Arc::new(self.0.clone()), "/db", StoreOptions::default()) }
//! #     fn refuse_next_lock(&self) { self.0.fail_next(OpKind::Lock, Failure::Error(5)) }
//! # }
//!
//! /// The backend under test: sessions in a database.
//! struct Databases;
//!
//! impl Backend for Databases {
//!     fn name(&self) -> String {
//!         "my database".to_owned()
//!     }
//!
//!     fn storage(&self) -> Box<dyn Storage> {
//!         Box::new(MyStorage(Database::default()))
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct MyStorage(Database);
//!
//! impl Storage for MyStorage {
//!     fn instance(&self) -> Arc<dyn SessionPersistence> {
//!         Arc::new(self.0.connect())
//!     }
//!
//!     // As many hooks as it can have: each makes more rules applicable.
//!     fn fail_next(&self, step: Step) -> Offered<()> {
//!         match step {
//!             Step::Lock => Ok(self.0.refuse_next_lock()),
//!             _ => Err(NotOffered::because("only locks can be refused")),
//!         }
//!     }
//! }
//!
//! let report = run(&Databases);
//! println!("{report}");
//! report.assert_passed();
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a rule is a test: it panics where the backend breaks it, and counts only what it stored itself"
)]

mod backend;
mod files;
mod list;
mod memory;
mod report;
mod rules;
mod run;
mod stage;
mod watched;

pub use backend::{Backend, Crash, NotOffered, Offered, Settings, Step, Storage, Tear};
pub use files::{FaultFiles, RealFiles};
pub use memory::InMemory;
pub use report::{Check, Counts, Report, RuleReport, Status};
pub use run::{check, names, run, run_rule};
