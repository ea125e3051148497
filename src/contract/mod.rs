//! The numbered rules of the seam as code that any backend can run.

mod backend;
mod memory;

pub use backend::{Backend, Crash, NotOffered, Offered, Settings, Step, Storage, Tear};
pub use memory::InMemory;
