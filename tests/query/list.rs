//! Live and stored sessions as one list.

use seslog::json::Text;
use seslog::row::Header;
use seslog::store::State;
use seslog::store::query::{Listed, QueryFault};
use seslog::units::{Generation, UnixMs};

use crate::common::sessions::header;
use crate::stage::{Call, code, come_alive, everywhere, id, in_both, io_error, mode, never};

fn at(name: &str, created_at: i64) -> Header {
    Header::new(Generation::CURRENT, id(name), UnixMs::new(created_at)).unwrap()
}

fn shown(list: &[Listed]) -> Vec<(String, bool, bool)> {
    let name = |one: &Listed| one.id().map_or_else(|| "?".to_owned(), |id| id.to_string_lossy().into_owned());
    list.iter().map(|one| (name(one), one.live.is_some(), one.stored.is_some())).collect()
}

#[test]
fn the_newest_come_first_then_by_id_and_live_wins() {
    everywhere(|stage| {
        for header in [at("b", 5), at("a", 5), at("old", 1), at("both", 7)] {
            stage.store(header, &[mode(0)]);
        }
        for header in [at("both", 7), at("live", 5), at("new", 9)] {
            come_alive(&stage.sessions, header);
        }
        let list = stage.query().list(&never()).unwrap();
        let row = |name: &str, live, stored| (name.to_owned(), live, stored);
        assert_eq!(
            shown(&list),
            [
                row("new", true, false),
                row("both", true, true),
                row("a", false, true),
                row("b", false, true),
                row("live", true, false),
                row("old", false, true),
            ],
            "{}",
            stage.name
        );
        assert_eq!(stage.calls.of(Call::Open), 0, "no event is read");
    });
}

#[test]
fn a_session_that_comes_to_life_during_the_listing_is_listed_live_and_once() {
    in_both(|stage| {
        stage.store(header("s"), &[mode(0)]);
        let sessions = stage.sessions.clone();
        stage.calls.on(Call::List, move || {
            come_alive(&sessions, header("s"));
            Ok(())
        });
        assert_eq!(shown(&stage.query().list(&never()).unwrap()), [("s".to_owned(), true, true)]);
    });
}

#[test]
fn two_sessions_of_one_id_are_a_conflict_that_names_what_differs() {
    in_both(|stage| {
        stage.store(at("s", 5).with_cwd(Text::from("/a")).unwrap(), &[mode(0)]);
        let session = come_alive(&stage.sessions, at("s", 6).with_cwd(Text::from("/a")).unwrap());
        match stage.query().list(&never()) {
            Err(QueryFault::SourceConflict { id, fields }) => {
                assert_eq!((id.as_str(), fields.as_slice()), ("s", &["createdAt"][..]));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(code(stage.query().list(&never())), "SESSION_QUERY_SOURCE_CONFLICT");
        // It is the list that cannot say which is which; who asks for the session gets the live one.
        assert_eq!(stage.query().read(&id("s"), &never()).unwrap().header(), session.header());
    });
}

#[test]
fn what_is_damaged_is_listed_with_its_error_and_hides_nothing() {
    in_both(|stage| {
        stage.store(header("good"), &[mode(0)]);
        stage.storage.plant(&id("bad"), b"no header", &[]).unwrap();
        let list = stage.query().list(&never()).unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(list[0].id(), Some(&id("good")));
        let bad = list[1].stored.as_ref().unwrap();
        assert!(list[1].header().is_none() && bad.state == State::Corrupt && bad.error.is_some());
    });
}

#[test]
fn a_store_that_cannot_list_is_told_as_one() {
    in_both(|stage| {
        stage.calls.on(Call::List, || Err(io_error()));
        assert_eq!(code(stage.query().list(&never())), "SESSION_QUERY_PERSISTENCE_FAILED");
    });
}
