//! The program at its process boundary: exit codes, pipes, files, and what it prints.

#[path = "cli/basics.rs"]
mod basics;
#[path = "cli/cases.rs"]
mod cases;
#[path = "cli/conversation.rs"]
mod conversation;
#[path = "cli/corpus.rs"]
mod corpus;
#[path = "cli/crash.rs"]
mod crash;
#[path = "cli/export.rs"]
mod export;
#[path = "cli/follow.rs"]
mod follow;
#[path = "cli/migrate.rs"]
mod migrate;
#[path = "cli/overview.rs"]
mod overview;
#[path = "cli/page.rs"]
mod page;
#[path = "cli/program.rs"]
mod program;
#[path = "cli/removal.rs"]
mod removal;
#[path = "cli/search.rs"]
mod search;
#[path = "cli/storage.rs"]
mod storage;
#[path = "cli/timeline.rs"]
mod timeline;
#[path = "cli/turns.rs"]
mod turns;
#[path = "cli/writing.rs"]
mod writing;

mod common;
