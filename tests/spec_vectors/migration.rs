//! 06: codes and event types, against the code.

use std::collections::BTreeSet;
use std::fs;

use seslog::format::inventory::{Inventory, Kind};
use seslog::format::upload::{Accepted, Extension, marker};
use seslog::format::{Class, Code, Stage};
use seslog::limits::Limits;
use seslog::row::{Check, Event, Header};

use crate::markdown::{Doc, code};

fn doc() -> Doc {
    Doc::read("06-migration.md")
}

#[test]
fn stages_and_codes_are_those_of_the_code() {
    let tables = doc().tables("Outcomes");
    let mut listed = BTreeSet::new();
    let stages =
        [Stage::Header, Stage::Decode, Stage::V0ToV1, Stage::V1ToV2, Stage::Target, Stage::Publication];
    let rows = tables[1].select(["stage", "codes"]);
    assert_eq!(rows.iter().map(|[stage, _]| stage.as_str()).collect::<Vec<_>>(), stages.map(Stage::name));
    for [_, codes] in &rows {
        listed.extend(codes.split(", ").map(|name| code(name).to_owned()));
    }
    let known: BTreeSet<String> = Code::ALL.iter().map(|code| code.name().to_owned()).collect();
    assert_eq!(listed, known);
    let classes: Vec<String> = tables[0].select(["class"]).into_iter().map(|[class]| class).collect();
    let known = [Class::Malformed, Class::Corrupt, Class::Unsupported, Class::Verification].map(Class::name);
    assert_eq!(classes, known);
}

#[test]
fn event_types_are_those_of_the_frozen_inventories() {
    let rows = doc().table("Frozen generations").select(["group", "types"]);
    let mut listed = BTreeSet::new();
    for [group, types] in rows {
        listed.extend(types.split(", ").map(|name| format!("{}{}", code(&group), code(name))));
    }
    let schema = |name: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(crate::markdown::folder().join("inventory").join(name)).unwrap();
        let events = text.lines().filter_map(|line| line.strip_prefix("event "));
        events.map(|event| event.split(' ').next().expect("a name").to_owned()).collect()
    };
    assert_eq!(listed, schema("v1.schema"));
    let v2: BTreeSet<String> = (listed.iter().filter(|name| *name != "assistant/chunk").cloned())
        .chain(["assistant/attempt".to_owned()])
        .collect();
    assert_eq!(v2, schema("v2.schema"));
    for name in listed.union(&v2) {
        let kind = Kind::from_name(name).unwrap_or_else(|| panic!("{name} is unknown"));
        assert_eq!(Inventory::v1().has(kind), listed.contains(name), "{name}");
        assert_eq!(Inventory::v2().has(kind), v2.contains(name), "{name}");
        let surface = ["user/message", "assistant/message", "tool/result"].contains(&name.as_str());
        assert_eq!(kind.is_surface(), surface, "{name}");
    }
}

#[test]
fn the_worked_upload_is_made_so() {
    let doc = doc();
    let fences = doc.json_fences("A worked upload");
    let [log, sent, accepted] = &fences[..] else { panic!("{} fences", fences.len()) };
    let (first, rows) = log.split_first().expect("a header");
    let header = Header::parse(first.as_bytes(), &Limits::DEFAULT).unwrap();
    let events: Vec<Event<'_>> =
        rows.iter().map(|row| Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap()).collect();
    let mut known = Accepted::new(&header);
    events.iter().for_each(|event| known.observe(event).unwrap());
    let mut extension = Extension::new(&header, 1, known.through(), 1 << 20);
    events.iter().for_each(|event| extension.push(event).unwrap());
    let through = extension.through().expect("events");
    assert_eq!(String::from_utf8(extension.finish().expect("events")).unwrap(), sent.concat());
    assert_eq!(marker(&header, through), accepted.concat());
}
