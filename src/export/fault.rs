use std::io;

use crate::error::Error;

/// Why an export is not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The store refused, or a log is not in order.
    #[error(transparent)]
    Log(#[from] Error),
    /// The export could not be written.
    #[error("writing the export failed")]
    Write(#[source] io::Error),
}
