//! What a failed checkpoint forbids: rule 139, first half.

use std::sync::Arc;

use seslog::json::Text;
use seslog::store::{
    Cancel, CancelReason, Checkpoints, DoNotBeginTurn, DoNotCallModel, DoNotRunTool, FailTurn,
};
use seslog::{Error, Result};

use crate::inner::Bench;

#[test]
fn r139_every_checkpoint_makes_what_was_routed_durable() {
    let bench = Bench::new();
    let _handle = bench.create("s");
    let (points, id, cancel) = (Checkpoints::of(&bench.behind), Text::from("s"), Cancel::never());
    bench.route("s", 0..1);
    points.before_request(&id, &cancel).unwrap();
    bench.assert_stored("s", 0..1);
    bench.route("s", 1..2);
    points.before_tool(&id, &cancel).unwrap();
    bench.assert_stored("s", 0..2);
    bench.route("s", 2..3);
    points.after_step(&id, &cancel).unwrap();
    bench.assert_stored("s", 0..3);
    bench.route("s", 3..4);
    points.turn_end(&id, &cancel).unwrap();
    bench.assert_stored("s", 0..4);
    points.before_request(&Text::from("nobody stores this one"), &cancel).unwrap();
}

#[test]
fn r139_a_failed_checkpoint_says_what_may_not_happen() {
    let bench = Bench::new();
    let _handle = bench.create("s");
    let (points, id, cancel) = (Checkpoints::of(&bench.behind), Text::from("s"), Cancel::never());
    bench.route("s", 0..1);
    bench.inner.fail_appends("s", 4);
    assert!(matches!(points.before_request(&id, &cancel), Err(DoNotCallModel(Error::Io { .. }))));
    assert!(matches!(points.before_tool(&id, &cancel), Err(DoNotRunTool::Failed(Error::Io { .. }))));
    assert!(matches!(points.after_step(&id, &cancel), Err(FailTurn(Error::Io { .. }))));
    assert!(matches!(points.turn_end(&id, &cancel), Err(DoNotBeginTurn(Error::Io { .. }))));
    points.before_request(&id, &cancel).unwrap();
    bench.assert_stored("s", 0..1);
}

#[test]
fn r139_a_tool_that_was_cancelled_while_it_waited_is_aborted_and_not_failed() {
    let bench = Bench::new();
    let _handle = bench.create("s");
    let cancel = Cancel::new();
    let reason: CancelReason = Arc::new(std::io::Error::other("stop"));
    cancel.cancel(Arc::clone(&reason));
    match Checkpoints::of(&bench.behind).before_tool(&Text::from("s"), &cancel) {
        Err(DoNotRunTool::Aborted(found)) => assert!(Arc::ptr_eq(&found, &reason)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_host_without_write_behind_brings_its_own_flush() {
    let points = Checkpoints::new(|id: &Text, _: &Cancel| -> Result<()> {
        Err(Error::NotFound { id: id.to_string_lossy().into_owned() })
    });
    let refused = points.before_request(&Text::from("s"), &Cancel::never()).unwrap_err();
    assert_eq!(refused.to_string(), "the session is not durable, so the model may not be called");
}
