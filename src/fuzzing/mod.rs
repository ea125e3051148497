//! Bodies of the fuzz targets, one file each. The ordinary tests run them too, over seeds and generated input.
//!
//! [`choices`] and [`made`] turn any bytes into a plan and a plan into a sound log; [`seal`] and [`mutate`] change logs and
//! JSON so that the change gets past checksums and grammar to the code behind.

pub mod catalog;
pub mod checkpoint;
pub mod choices;
pub mod frames;
pub mod header;
pub mod made;
pub mod migrate;
pub mod mutate;
pub mod open_bytes;
pub mod packed_row;
pub mod path_segment;
pub mod range;
pub mod row;
pub mod seal;
pub mod store_model;
pub mod stream;
pub mod tail;
pub mod trailer;
pub mod wire;
