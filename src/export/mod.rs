//! Sessions for those who have no store: the logical log as text or in a ZIP, without the secrets in it if asked.
//!
//! What is exported is what a read handle gives, so the same session exports the same bytes from every backend and
//! encoding. Events that write-behind still holds are not in a log yet: flush a live session first.

mod fault;
mod lineage;
#[cfg(feature = "export")]
mod redact;
mod text;
#[cfg(feature = "export")]
mod zip;

pub use fault::ExportError;
pub use lineage::descendants;
#[cfg(feature = "export")]
pub use redact::{Redactor, Rule, RuleFault};
pub use text::{each_line, write_text};
#[cfg(feature = "export")]
pub use zip::{LogZip, archive_name, write_zip};
