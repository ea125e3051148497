//! What is read, and what is not.

use seslog::container::Encoding;
use seslog::container::disk::fault::OpKind;
use seslog::json::Text;
use seslog::session::Projections;

use crate::machine::{Machine, ROOT, listed};
use crate::rows::{Dice, rows};

#[test]
fn a_listing_with_a_warm_catalog_shows_what_is_known_and_opens_nothing_for_it() {
    for encoding in Encoding::ALL {
        let machine = Machine::new(encoding);
        for id in 0..20 {
            machine.create(&format!("s{id}"), &rows(&mut Dice::new(id), 0, 30));
        }
        machine.wait(3);
        let opens = |sought: &str| {
            let trace = machine.disk.trace();
            trace.iter().filter(|op| op.kind == OpKind::Open && op.path.starts_with(sought)).count()
        };
        // Nothing is known, and nothing is read to know it.
        let sessions = machine.store().list_with_overviews().unwrap();
        assert!(sessions.iter().all(|one| one.overview().is_none()));
        assert_eq!((opens(ROOT), machine.kept().len()), (20, 0));
        for session in &sessions {
            machine.store().project_log(&session.path, &Projections::built_in()).unwrap();
        }
        // What was kept beside the catalog gets into it, once.
        machine.disk.forget_trace();
        let first = machine.store().list_with_overviews().unwrap();
        assert_eq!((opens(ROOT), opens("/cache")), (0, 21));
        machine.disk.forget_trace();
        let second = machine.store().list_with_overviews().unwrap();
        assert_eq!((opens(ROOT), opens("/cache")), (0, 1), "{encoding}: the catalog alone");
        for id in 0..20 {
            let id = format!("s{id}");
            let scratch = machine.scratch(&machine.log(&id), &Projections::built_in()).unwrap();
            let scratch = seslog::session::Overview::of(&scratch);
            assert_eq!((listed(&first, &id), listed(&second, &id)), (scratch.clone(), scratch));
        }
        // A listing that is not asked for it says what it always said.
        let plain = machine.store().list().unwrap();
        assert!(plain.iter().all(|one| one.overview().is_none()));
    }
}

#[test]
fn of_a_log_that_has_grown_what_was_appended_is_read_and_nothing_else() {
    for encoding in Encoding::ALL {
        let machine = Machine::new(encoding);
        let mut dice = Dice::new(11);
        machine.create("s", &rows(&mut dice, 0, 9000));
        let (set, path) = (Projections::built_in(), machine.log("s"));
        machine.store().project_log(&path, &set).unwrap();
        let long = machine.disk.content(&path).unwrap().len() as u64;
        let mut next = 9000;
        for count in [1, 10, 40] {
            machine.append("s", &rows(&mut dice, next, count));
            next += count;
            let grown = machine.disk.content(&path).unwrap().len() as u64 - long;
            machine.disk.forget_trace();
            let projected = machine.store().project_log(&path, &set).unwrap();
            assert_eq!(projected.folded(), next);
            let read = machine.disk.bytes_read(&path);
            // The header, the two pieces that prove the beginning, and what is behind it.
            assert!(read <= grown + (32 << 10), "{encoding}: {read} bytes read, {grown} new ones");
            assert!(long > 100 << 10, "{long}");
            // The trailer of the last append, at most: else it is known to be what it was.
            machine.wait(3);
            machine.store().project_log(&path, &set).unwrap();
            machine.disk.forget_trace();
            machine.store().project_log(&path, &set).unwrap();
            assert_eq!((machine.logs_opened(), machine.disk.bytes_read(&path)), (0, 0));
        }
        // A listing goes on from there by itself, where little was added.
        machine.append("s", &rows(&mut dice, next, 5));
        machine.disk.forget_trace();
        let sessions = machine.store().list_with_overviews().unwrap();
        assert_eq!(listed(&sessions, "s").unwrap().events, next + 5);
        assert!(machine.disk.bytes_read(&path) < 96 << 10, "{encoding}: {}", machine.disk.bytes_read(&path));
    }
}

#[test]
fn much_that_was_added_is_not_read_by_a_listing() {
    let machine = Machine::new(Encoding::Plain);
    let mut dice = Dice::new(11);
    machine.create("s", &rows(&mut dice, 0, 10));
    machine.store().project(&Text::from("s"), &Projections::built_in()).unwrap();
    machine.append("s", &rows(&mut dice, 10, 3000));
    machine.disk.forget_trace();
    let sessions = machine.store().list_with_overviews().unwrap();
    assert_eq!(listed(&sessions, "s"), None);
    assert!(machine.disk.bytes_read(machine.log("s")) < 100 << 10);
}

#[test]
fn nothing_that_folds_or_lists_changes_anything_below_the_root() {
    for encoding in Encoding::ALL {
        let machine = Machine::new(encoding);
        machine.create("s", &rows(&mut Dice::new(1), 0, 40));
        machine.wait(3);
        machine.disk.forget_trace();
        machine.check("s", "created");
        machine.store().list_with_overviews().unwrap();
        let snapshot = machine.store().stat(&Text::from("s")).unwrap().unwrap();
        assert!(machine.store().recall_overview(&snapshot).is_some());
        machine.store().forget(&[snapshot.path.parent().unwrap().to_path_buf()]);
        let trace = machine.disk.trace();
        // Bytes that a writer has left unsynced are synced before anything is kept of them.
        let is_change = |kind: OpKind| kind.is_change() && kind != OpKind::SyncData;
        let changes: Vec<_> =
            trace.iter().filter(|op| is_change(op.kind) && op.path.starts_with(ROOT)).collect();
        assert!(changes.is_empty(), "{changes:?}");
        assert!(trace.iter().any(|op| op.kind == OpKind::Rename && op.path.starts_with("/cache")));
    }
}

#[test]
fn files_are_private_to_the_user_and_lie_outside_the_root() {
    use seslog::container::disk::Disk as _;
    use seslog::store::Catalog;

    let machine = Machine::new(Encoding::Indexed);
    machine.create("s", &rows(&mut Dice::new(1), 0, 10));
    machine.check("s", "created");
    let [kept] = &machine.kept()[..] else { panic!("{:?}", machine.kept()) };
    let mode = |path: &std::path::Path| machine.disk.stamp(path).unwrap().unwrap().mode;
    assert_eq!((mode(kept), mode(kept.parent().unwrap())), (0o600, 0o700));
    let inside = machine.bare().with_catalog(Catalog::in_folder("/root/cache"));
    inside.project(&Text::from("s"), &Projections::built_in()).unwrap();
    assert!(!machine.disk.paths().iter().any(|path| path.starts_with("/root/cache")));
}
