//! Bodies of the fuzz targets, one file each. The ordinary tests run them too, over seeds and generated input.

pub mod frames;
pub mod migrate;
pub mod open_bytes;
pub mod range;
pub mod row;
pub mod stream;
