//! Target `wire`: an answer to a client that follows a session.

use crate::json::check;
use crate::live::{
    Decision, Entry, FollowClient, FollowRequest, Frame, Relay, TransportFault, View, WireMessage,
};

/// The first byte says whether frames were asked for; each line behind it is a message.
///
/// # Panics
/// If what was read is written and read again as something else, or a window is out of order.
pub fn fuzz_wire(data: &[u8]) {
    let Some((&mode, lines)) = data.split_first() else { return };
    let asked_for_frames = mode & 1 == 1;
    let (mut client, mut view, mut relay) = (FollowClient::new(asked_for_frames), View::new(), Relay::new());
    let (mut next_seq, mut is_ordered) = (0, true);
    for line in lines.split(|&byte| byte == b'\n') {
        reads_as_written(line, &FollowRequest::read_json, &FollowRequest::write_json);
        reads_as_written(line, &Frame::read_json, &Frame::write_json);
        reads_as_written(line, &WireMessage::read_json, &WireMessage::write_json);
        let decision = match client.receive(line) {
            Ok(WireMessage::Snapshot(snapshot)) => {
                next_seq = snapshot.next_seq;
                is_ordered = snapshot.records.is_sorted_by(|a, b| a.seq < b.seq);
                let baseline = snapshot.assistant_stream.as_ref();
                match view.replace_page(snapshot.records, snapshot.has_more, baseline) {
                    Ok(change) => Decision::Show(change),
                    Err(_) => Decision::Rebaseline,
                }
            }
            Ok(WireMessage::Event(event)) => {
                next_seq = event.seq.saturating_add(1);
                view.event(event)
            }
            Ok(WireMessage::Frame(frame)) => {
                relay.frame(&frame, next_seq);
                view.frame(&frame)
            }
            // A message that cannot be read is a fault of the host, and the answer is left; here the next one is tried.
            Err(TransportFault::Wire(_)) => continue,
            Err(_) => Decision::Rebaseline,
        };
        let is_in_order = view.entries().is_sorted_by(|a, b| a.place() < b.place());
        assert!(is_in_order || !is_ordered, "{:?}", view.entries());
        view.entries().iter().for_each(is_written_whole);
        if decision == Decision::Rebaseline {
            (client, view) = (FollowClient::new(asked_for_frames), View::new());
        }
        let baseline = relay.baseline(next_seq);
        let shown = View::new().replace(Vec::new(), Some(&baseline));
        assert!(shown.is_ok(), "a baseline that was folded is one: {baseline:?}");
    }
}

fn is_written_whole(entry: &Entry) {
    let mut out = Vec::new();
    entry.write_json(&mut out);
    assert_eq!(check(&out, u32::MAX), Ok(()), "{}", out.escape_ascii());
}

/// What was read is the same when it was written and read again, and is written the same then.
fn reads_as_written<T: PartialEq + std::fmt::Debug, F>(
    line: &[u8],
    read: &dyn Fn(&[u8]) -> Result<T, F>,
    write: &dyn Fn(&T, &mut Vec<u8>),
) {
    let Ok(value) = read(line) else { return };
    let mut written = Vec::new();
    write(&value, &mut written);
    let again = read(&written).ok();
    assert_eq!(again.as_ref(), Some(&value), "{}", written.escape_ascii());
    let mut once_more = Vec::new();
    write(&value, &mut once_more);
    assert!(once_more == written);
}
