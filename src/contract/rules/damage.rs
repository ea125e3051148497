//! C8: torn tails and corruption.

use crate::contract::backend::{Backend, NotOffered, Offered, Step, Tear};
use crate::contract::stage::{
    Outcome, Stage, append, create, fat_rows_by, header, header_line, list, never, open, open_and_read, read,
    read_all, row_by, row_of, rows_by, stat,
};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::row::{Header, Seeding};
use crate::store::SessionAccess::{Read, Write};
use crate::store::State;
use crate::units::Generation;

/// Stores a log whose last append is then cut in its last record, and returns what a reader gets of it.
fn torn(stage: &Stage<'_>, place: u32) -> Served {
    let all = [rows_by("a", 0..2), vec![row_by("a", 2, 900), row_by("a", 3, 900)]].concat();
    stage.store("s", &[all[..2].to_vec(), all[2..].to_vec()]);
    stage.storage().tear(&Text::from("s"), Tear::LastRecord(place))?;
    let served = stage.read();
    assert!(all.starts_with(&served), "what is served is a prefix: {served:?}");
    assert!((2..4).contains(&served.len()), "{} events of 4 are served", served.len());
    Ok(served)
}

/// What a reader gets of a torn log.
type Served = Offered<Vec<String>>;

/// Stores a log whose last append then ends behind its first complete records, and returns what a reader gets of it.
fn unfinished(stage: &Stage<'_>) -> Served {
    let all = [rows_by("a", 0..2), fat_rows_by("a", 2..32)].concat();
    stage.store("s", &[all[..2].to_vec(), all[2..].to_vec()]);
    stage.storage().tear(&Text::from("s"), Tear::Between)?;
    let served = stage.read();
    assert!(all.starts_with(&served), "what is served is a prefix");
    assert!((3..32).contains(&served.len()), "{} events of 32 are served", served.len());
    Ok(served)
}

pub(crate) fn r092_a_torn_tail_is_never_returned_and_reading_changes_nothing(
    backend: &dyn Backend,
) -> Outcome {
    for place in 0..7 {
        let stage = Stage::new(backend);
        let served = torn(&stage, place)?;
        let before = stage.stored("s");
        for access in [Read, Write] {
            let handle = stage.open("s", access).unwrap();
            assert_eq!(read_all(&handle).unwrap(), served, "place {place}");
            assert!(read(&handle, served.len() as u64, 5).unwrap().is_empty());
            handle.close().unwrap();
        }
        let store = stage.instance();
        for seen in list(&store).iter().chain(&stat(&store, "s")) {
            assert!(matches!(seen.state, State::Torn | State::Ok), "{seen:?}");
            assert!(seen.event_count.is_none_or(|count| count == served.len() as u64), "{seen:?}");
        }
        assert_eq!(stage.stored("s"), before);
    }
    Ok(())
}

// With "complete records" meaning complete segments or lines (README): a backend whose smallest record is the append offers no
// such tear.
pub(crate) fn r093_complete_records_before_a_torn_fragment_are_returned(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let served = unfinished(&stage)?;
    assert_eq!(read_all(&stage.writer("s")).unwrap(), served);
    Ok(())
}

pub(crate) fn r094_a_write_open_after_a_tear_goes_on_where_reading_ends(backend: &dyn Backend) -> Outcome {
    for place in 0..7 {
        let stage = Stage::new(backend);
        let served = torn(&stage, place)?;
        let next = served.len() as u64;
        let handle = stage.writer("s");
        assert_eq!(handle.next_seq(), Some(next));
        append(&handle, &rows_by("b", next..next + 2)).unwrap();
        let expected = [served, rows_by("b", next..next + 2)].concat();
        assert_eq!(read_all(&handle).unwrap(), expected);
        handle.close().unwrap();
        assert_eq!(stage.read(), expected);
        assert!(stat(&stage.instance(), "s").is_some_and(|seen| seen.state == State::Ok), "it is repaired");
        // A third one finds nothing left to do.
        append(&stage.writer("s"), &rows_by("c", next + 2..next + 3)).unwrap();
        assert_eq!(stage.read(), [expected, rows_by("c", next + 2..next + 3)].concat());
    }
    Ok(())
}

// "Recovered" as in 93 (README).
pub(crate) fn r095_recovered_records_are_durable_before_the_next_batch(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let served = unfinished(&stage)?;
    let next = served.len() as u64;
    append(&stage.writer("s"), &rows_by("b", next..next + 1)).unwrap();
    let expected = [served, rows_by("b", next..next + 1)].concat();
    assert_eq!(stage.read(), expected);
    if let Ok(after) = stage.durable() {
        assert_eq!(after.read(), expected);
    }
    Ok(())
}

pub(crate) fn r096_a_repair_that_failed_is_completed_by_the_next_append(backend: &dyn Backend) -> Outcome {
    for step in [Step::Repair, Step::Write] {
        let mut stage = Stage::new(backend);
        // With recovered records, where the backend has them.
        let served = match unfinished(&stage) {
            Ok(served) => served,
            Err(_) => {
                stage = stage.fresh();
                torn(&stage, 5)?
            }
        };
        let handle = stage.writer("s");
        let next = served.len() as u64;
        for _ in 0..2 {
            stage.storage().fail_next(step)?;
            let failed = append(&handle, &rows_by("b", next..next + 2));
            assert!(matches!(failed, Err(Error::Io { .. })), "{step:?}: {failed:?}");
            assert_eq!(stage.read(), served, "{step:?}");
        }
        append(&handle, &rows_by("b", next..next + 2)).unwrap_or_else(|error| panic!("{step:?}: {error}"));
        let expected = [served, rows_by("b", next..next + 2)].concat();
        assert_eq!(stage.read(), expected, "{step:?}");
        if let Ok(after) = stage.durable() {
            assert_eq!(after.read(), expected, "{step:?}");
        }
    }
    Ok(())
}

pub(crate) fn r097_bytes_before_the_repair_do_not_change(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let artifact = || Ok(stage.storage().artifact(&Text::from("s"))?.unwrap_or_default());
    let handle = create(&stage.instance(), "s");
    append(&handle, &rows_by("a", 0..2)).unwrap();
    let sound = artifact()?;
    append(&handle, &[row_by("a", 2, 900), row_by("a", 3, 900)]).unwrap();
    handle.close().unwrap();
    stage.storage().tear(&Text::from("s"), Tear::LastRecord(5))?;
    let torn = artifact()?;
    // Only of a file is it asked that it grows at its end.
    stage.storage().replace(&Text::from("s"), &torn)?;
    assert!(torn.starts_with(&sound));
    let handle = stage.writer("s");
    let next = handle.next_seq().unwrap();
    append(&handle, &rows_by("b", next..next + 1)).unwrap();
    assert!(artifact()?.starts_with(&sound), "what was sound was written again");
    assert_eq!(stage.read()[..2], rows_by("a", 0..2));
    Ok(())
}

pub(crate) fn r098_opening_and_closing_repairs_nothing(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    torn(&stage, 5)?;
    let before = stage.storage().artifact(&Text::from("s"))?;
    let handle = stage.writer("s");
    read_all(&handle).unwrap();
    handle.close().unwrap();
    drop(stage.writer("s"));
    assert!(stage.storage().artifact(&Text::from("s"))? == before, "the torn bytes are as they were");
    Ok(())
}

/// Logs of which only event 0 is good.
fn bad_rows() -> [Vec<String>; 4] {
    let good = |seq| row_of("plan/mode", seq, "{}");
    [
        vec![good(0), "{\"type\":\"plan/mode\",\"seq\":1".to_owned(), good(2)],
        vec![good(0), "[1]".to_owned(), good(2)],
        vec![good(0), good(2), good(3)],
        vec![good(0), good(0), good(1)],
    ]
}

pub(crate) fn r099_damage_before_a_later_turn_end_is_corruption(backend: &dyn Backend) -> Outcome {
    for mut rows in bad_rows() {
        let stage = Stage::new(backend);
        rows.push(row_of("turn/end", rows.len() as u64, "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}"));
        stage.plant("s", &rows)?;
        let store = stage.instance();
        let refusals = [
            open(&store, "s", Write).map(|_| ()),
            open_and_read(&store, "s").map(|_| ()),
            open(&store, "s", Write).map(|_| ()),
        ];
        for refused in refusals {
            assert!(matches!(refused, Err(Error::Corruption { intact: 1, .. })), "{rows:?}: {refused:?}");
        }
    }
    Ok(())
}

// Beaten by the design: such an end may be damage instead of a tear, since it proves no crash. Then it is refused, and the
// refusal says how far the log is sound; in no case is anything behind the first bad row served.
pub(crate) fn r100_damage_without_a_later_turn_end_bounds_the_log(backend: &dyn Backend) -> Outcome {
    for rows in bad_rows() {
        let stage = Stage::new(backend);
        stage.plant("s", &rows)?;
        let before = stage.stored("s");
        let store = stage.instance();
        let bounds = |result: Result<Vec<String>>| match result {
            Err(Error::Corruption { intact: 1, .. } | Error::DamagedTail { intact: 1, .. }) => {}
            served => assert_eq!(served.unwrap(), rows[..1], "{rows:?}"),
        };
        bounds(open_and_read(&store, "s"));
        bounds(open(&store, "s", Write).and_then(|handle| read_all(&handle)));
        assert_eq!(stage.stored("s"), before, "nothing was repaired");
    }
    Ok(())
}

// The second half, a cut inside a checksum, goes the same way as any other (README).
pub(crate) fn r102_a_cut_at_any_byte_serves_whole_events_before_it(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let id = Text::from("s");
    let artifact = || Ok(stage.storage().artifact(&id)?.unwrap_or_default());
    stage.store("s", &[rows_by("a", 0..2)]);
    let start = artifact()?.len();
    append(&stage.writer("s"), &rows_by("a", 2..5)).unwrap();
    let (whole, all) = (artifact()?, rows_by("a", 0..5));
    let store = stage.instance();
    let mut before = 2;
    for cut in start..whole.len() {
        stage.storage().replace(&id, &whole[..cut])?;
        let served = open_and_read(&store, "s").unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert!(all.starts_with(&served), "cut at {cut}: {served:?}");
        assert!((before..5).contains(&served.len()), "cut at {cut}: {} events after {before}", served.len());
        assert!(cut > start + 3 || served.len() == 2, "cut at {cut}, in the very beginning of a record");
        before = served.len();
    }
    stage.storage().replace(&id, &whole)?;
    assert_eq!(open_and_read(&store, "s").unwrap(), all);
    Ok(())
}

// Listed with its state instead of skipped (README).
pub(crate) fn r103_a_log_without_a_header_is_refused_and_listed(backend: &dyn Backend) -> Outcome {
    for bad in
        ["", "{}", "[1,2,3]", "null", "garbage", "{\"type\":\"turn/start\",\"seq\":0,\"time\":1,\"data\":{}}"]
    {
        let stage = Stage::new(backend);
        stage.store("t", &[rows_by("a", 0..2)]);
        stage.plant_line("s", bad, &rows_by("a", 0..2))?;
        let store = stage.instance();
        for access in [Read, Write] {
            let refused = open(&store, "s", access).and_then(|handle| read_all(&handle));
            assert!(
                matches!(refused, Err(Error::Corruption { .. } | Error::IdentityMismatch { .. })),
                "{bad:?}: {refused:?}"
            );
        }
        let listed = list(&store);
        assert_eq!(listed.len(), 2, "{bad:?}: {listed:?}");
        let sound = listed.iter().filter(|one| one.state == State::Ok);
        assert_eq!(sound.count(), 1, "{bad:?}: {listed:?}");
    }
    Ok(())
}

// Listed with its state instead of skipped (README).
pub(crate) fn r104_a_newer_generation_is_refused_with_advice_and_listed(backend: &dyn Backend) -> Outcome {
    for line in [
        "{\"type\":\"session\",\"version\":9,\"id\":\"s\",\"createdAt\":5,\"isSeeded\":false,\"delegationDepth\":0}",
        "{\"type\":\"session\",\"version\":4,\"alien\":{\"shape\":[]}}",
    ] {
        let stage = Stage::new(backend);
        stage.plant_line("s", line, &[])?;
        let store = stage.instance();
        for access in [Read, Write, Write] {
            let refused = open(&store, "s", access).unwrap_err();
            assert!(matches!(refused, Error::FormatUnsupported { .. }), "{refused:?}");
            assert!(refused.to_string().contains("upgrade"), "{refused}");
        }
        match store.stat(&Text::from("s"), &never()) {
            Ok(Some(seen)) => assert_eq!(seen.state, State::Unsupported),
            other => assert!(matches!(other, Err(Error::FormatUnsupported { .. })), "{other:?}"),
        }
        let listed = list(&store);
        assert_eq!(listed.iter().map(|one| one.state).collect::<Vec<_>>(), [State::Unsupported]);
    }
    Ok(())
}

pub(crate) fn r105_header_and_marker_of_a_fork_must_agree(backend: &dyn Backend) -> Outcome {
    let marker = |seq| row_of("session/end-seed", seq, "{\"inherited\":true}");
    let seeded = header("s").with_seeding(Generation::CURRENT, Seeding::Marked).unwrap();
    let stored = |header: &Header, cut, rows: &[String]| {
        let stage = Stage::new(backend);
        let handle = stage.instance().create(header.clone(), cut, &never()).unwrap();
        append(&handle, rows).unwrap();
        handle.close().unwrap();
        stage
    };
    let whole = stored(&seeded, Some(2), &[rows_by("a", 0..2), vec![marker(2)]].concat());
    for access in [Read, Write] {
        let handle = whole.open("s", access).unwrap();
        assert_eq!((handle.header(), handle.inherited_event_count()), (&seeded, 2));
    }

    let without = stored(&seeded, Some(2), &rows_by("a", 0..2));
    let unasked = stored(&header("s"), None, &[rows_by("a", 0..2), vec![marker(2)]].concat());
    for stage in [without, unasked] {
        let store = stage.instance();
        for refused in [open(&store, "s", Write).map(|_| ()), open_and_read(&store, "s").map(|_| ())] {
            assert!(matches!(refused, Err(Error::Corruption { .. })), "{refused:?}");
        }
    }
    Ok(())
}

pub(crate) fn r106_a_header_of_another_session_is_refused(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("s", &[rows_by("a", 0..2)]);
    stage.store("t", &[rows_by("a", 0..3)]);
    stage.plant_line("s", &header_line("t"), &rows_by("a", 0..3))?;
    let before = (stage.stored("s"), stage.stored("t"));
    let store = stage.instance();
    for access in [Read, Write] {
        let refused = open(&store, "s", access).and_then(|handle| read_all(&handle));
        assert!(matches!(refused, Err(Error::IdentityMismatch { .. })), "{access:?}: {refused:?}");
    }
    match store.stat(&Text::from("s"), &never()) {
        Ok(Some(seen)) => assert_eq!(seen.state, State::Refused),
        other => assert!(matches!(other, Err(Error::IdentityMismatch { .. })), "{other:?}"),
    }
    assert_eq!((stage.stored("s"), stage.stored("t")), before);
    assert_eq!(open_and_read(&store, "t").unwrap(), rows_by("a", 0..3));
    Ok(())
}

pub(crate) fn r108_an_open_turn_is_returned_as_it_is(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let rows =
        vec![row_of("turn/start", 0, "{\"turn\":1}"), row_of("step/start", 1, "{\"turn\":1,\"step\":1}")];
    stage.store("s", std::slice::from_ref(&rows));
    let before = stage.stored("s");
    assert_eq!(stage.read(), rows);
    let handle = stage.writer("s");
    assert_eq!((read_all(&handle).unwrap(), handle.next_seq()), (rows, Some(2)));
    handle.close().unwrap();
    assert_eq!(stage.stored("s"), before);
    Ok(())
}

pub(crate) fn r109_refusals_name_what_stores_the_session(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(2);
    let store = stage.instance();
    let path = stat(&store, "s").map(|seen| seen.path).unwrap_or_default();
    if path.as_os_str().is_empty() {
        return Err(NotOffered::because("no artifact of one session has a name"));
    }
    let newer = "{\"type\":\"session\",\"version\":4}";
    for (line, rows) in
        [("{\"type\":1}", Vec::new()), (newer, Vec::new()), (&*header_line("s"), bad_rows()[2].clone())]
    {
        stage.plant_line("s", line, &rows)?;
        for refused in [open(&store, "s", Write).map(|_| ()), open_and_read(&store, "s").map(|_| ())] {
            let error = refused.unwrap_err();
            assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
        }
    }
    Ok(())
}
