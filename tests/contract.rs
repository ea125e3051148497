//! The numbered rules of the seam's contract, over the file store in each of its encodings and over the memory store.
//!
//! `seslog::contract` holds the rules that any backend is asked; here each is a test for each of
//! them: files on a disk that fails, and memory.
//! What only files can keep or break stands in `contract/`: a rule there is a function over a [`seam::Seam`], a disk that can
//! lose power, lose its processes and refuse calls, and the store on it.
//!
//! `cargo test --all-features --test contract report -- --nocapture` prints what became of every rule on every backend.

mod common;

#[path = "contract/broken.rs"]
mod broken;
#[path = "contract/damage.rs"]
mod damage;
#[cfg(feature = "export")]
#[path = "contract/export.rs"]
mod export;
#[path = "contract/handles.rs"]
mod handles;
#[path = "contract/metadata.rs"]
mod metadata;
#[path = "contract/ownership.rs"]
mod ownership;
#[path = "contract/seam.rs"]
mod seam;
#[path = "contract/third_party.rs"]
mod third_party;
#[path = "contract/visibility.rs"]
mod visibility;

use seslog::container::Encoding;
use seslog::contract::{FaultFiles, InMemory, RealFiles, run};

mod indexed {
    use super::*;
    seslog::contract_tests!(FaultFiles::new(Encoding::Indexed));
}

mod zstd {
    use super::*;
    seslog::contract_tests!(FaultFiles::new(Encoding::Zstd));
}

mod plain {
    use super::*;
    seslog::contract_tests!(FaultFiles::new(Encoding::Plain));
}

mod memory {
    use super::*;
    seslog::contract_tests!(InMemory);
}

#[test]
fn report_of_memory() {
    let report = run(&InMemory);
    println!("{report}");
    report.assert_passed();
    assert_eq!(report.counts().not_applicable, 0, "{report}");
}

#[test]
fn report_of_files_on_a_disk_that_fails() {
    for encoding in Encoding::ALL {
        let report = run(&FaultFiles::new(encoding));
        println!("{report}");
        report.assert_passed();
        // Rules 93 and 95 need records smaller than an append, which frames are not.
        let lacking = if encoding == Encoding::Zstd { 2 } else { 0 };
        assert_eq!(report.counts().not_applicable, lacking, "{report}");
    }
}

#[test]
fn report_of_files_on_the_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let report = run(&RealFiles::new(folder.path(), Encoding::Indexed));
    println!("{report}");
    report.assert_passed();
    assert!(report.counts().passed >= 40, "{report}");
}
