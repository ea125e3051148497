//! Generations of the log format: frozen codecs, the catalog, and the migrations between them.

pub mod inventory;
