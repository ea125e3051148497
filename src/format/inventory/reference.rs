//! Compares the frozen inventory with the specification's own table, member by member.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::Kind;
use super::notation::{Event, Form, ListSize, Literal, Member, Schema, parse};
use super::rules::Rule;
use super::{V1_SCHEMA, V2_SCHEMA};

/// The specification's table, or a visible line when it is not beside the checkout.
fn table() -> Option<Value> {
    let shared = std::env::var_os("SESLOG_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")), PathBuf::from);
    match std::fs::read(shared.join("reference/event-inventory.json")) {
        Ok(bytes) => Some(serde_json::from_slice(&bytes).expect("the table is JSON")),
        Err(_) => {
            // The harness captures `eprintln!`.
            let _closed = writeln!(std::io::stderr(), "SKIPPED: ../shared is not here");
            None
        }
    }
}

/// Writes forms in the table's schema language.
struct Writer<'s> {
    schemas: Vec<&'s Schema>,
}

impl Writer<'_> {
    fn form(&self, form: &Form) -> Value {
        match form {
            Form::Text { non_empty, trimmed } => {
                let mut value = json!({"t": "string"});
                if *non_empty {
                    value["nonEmpty"] = true.into();
                }
                if *trimmed {
                    value["format"] = "trimmed".into();
                }
                value
            }
            Form::Instant => json!({"t": "string", "format": "utc-instant-ms"}),
            Form::Bool => json!({"t": "bool"}),
            Form::Count { low: 0 } => json!({"t": "count"}),
            Form::Count { low } => json!({"t": "count", "min": low}),
            Form::Positive { up_to_generation: false } => json!({"t": "positive"}),
            Form::Positive { up_to_generation: true } => json!({"t": "positive", "maxGeneration": true}),
            Form::Int { low, high } => bounds(
                json!({"t": "safeInt"}),
                [("min", low.map(Value::from)), ("max", high.map(Value::from))],
            ),
            Form::Number { low, above, high } => {
                // The table spells these bounds as integers.
                let whole = |bound: &Option<f64>| {
                    bound.map(|b| Value::from(format!("{b}").parse::<i64>().expect("whole")))
                };
                bounds(
                    json!({"t": "number"}),
                    [("min", whole(low)), ("exclusiveMin", whole(above)), ("max", whole(high))],
                )
            }
            Form::Seq => json!({"t": "seq"}),
            Form::Any { .. } => json!({"t": "any"}),
            Form::Object => json!({"t": "jsonObject"}),
            Form::Nullable(inner) => json!({"nullable": self.form(inner)}),
            Form::Values(literals) => json!({"enum": literals.iter().map(literal).collect::<Vec<_>>()}),
            Form::List { item, size, unique } => {
                let (min, max) = match size {
                    ListSize::Any => (None, None),
                    ListSize::OneOrMore => (Some(1.into()), None),
                    ListSize::One => (Some(1.into()), Some(1.into())),
                };
                let value = json!({"t": "array", "items": self.form(item)});
                bounds(value, [("minItems", min), ("maxItems", max), ("unique", unique.then(|| true.into()))])
            }
            Form::Record(_) => self.record(form, None),
            Form::Choice { tag, cases, open } => {
                let named = |(names, form): &(Vec<String>, Form)| {
                    names
                        .iter()
                        .map(|name| (name.clone(), self.record(form, Some((tag, name)))))
                        .collect::<Vec<_>>()
                };
                let cases: Map<String, Value> = cases.iter().flat_map(named).collect();
                let mut value = json!({"t": "union", "tag": tag, "cases": cases});
                if *open {
                    let mut required = Map::new();
                    required.insert(tag.clone(), json!({"t": "string", "nonEmpty": true}));
                    value["otherwise"] = json!({"t": "object", "required": required, "open": true});
                }
                value
            }
            Form::Named(name) => json!({"ref": name}),
            Form::Ruled { form, rules } => {
                let mut value = self.form(form);
                value["rules"] = json!(rules);
                value
            }
        }
    }

    fn record(&self, form: &Form, tag: Option<(&str, &str)>) -> Value {
        if let Form::Ruled { form, rules } = form {
            let mut value = self.record(form, tag);
            value["rules"] = json!(rules);
            return value;
        }
        let (mut required, mut optional) = (Map::new(), Map::new());
        if let Some((tag, name)) = tag {
            required.insert(tag.to_owned(), json!({"enum": [name]}));
        }
        for member in self.members(form) {
            let into = if member.required { &mut required } else { &mut optional };
            into.insert(member.name.clone(), self.form(&member.form));
        }
        let mut value = json!({"t": "object", "required": required});
        if !optional.is_empty() {
            value["optional"] = optional.into();
        }
        value
    }

    /// The members of a record, spreads included.
    fn members(&self, form: &Form) -> Vec<Member> {
        let Form::Record(record) = form else { panic!("a record is wanted, not {form:?}") };
        let spread = |name: &String| {
            let mut shapes = self.schemas.iter().flat_map(|schema| &schema.shapes);
            let shape = shapes.find(|shape| shape.name == *name).expect("the shape is declared");
            self.members(&shape.form)
        };
        record.members.iter().cloned().chain(record.spreads.iter().flat_map(spread)).collect()
    }

    /// The payload's record, or those of its cases, with rules and names followed.
    fn records(&self, form: &Form) -> Vec<(Option<String>, Form)> {
        match form {
            Form::Ruled { form, .. } => self.records(form),
            Form::Named(name) => {
                let mut shapes = self.schemas.iter().flat_map(|schema| &schema.shapes);
                self.records(&shapes.find(|shape| shape.name == *name).expect("the shape is declared").form)
            }
            Form::Choice { tag, cases, .. } => {
                let unruled = |form: &Form| match form {
                    Form::Ruled { form, .. } => (**form).clone(),
                    other => other.clone(),
                };
                cases.iter().map(|(_, form)| (Some(tag.clone()), unruled(form))).collect()
            }
            other => vec![(None, other.clone())],
        }
    }

    /// Names of members that all cases require, and of all others; and those that are opaque.
    fn member_names(&self, form: &Form) -> (BTreeSet<String>, BTreeSet<String>, BTreeSet<String>) {
        let (mut all, mut opaque) = (BTreeSet::new(), BTreeSet::new());
        let mut in_every_case: Option<BTreeSet<String>> = None;
        for (tag, record) in self.records(form) {
            let mut required: BTreeSet<String> = tag.into_iter().collect();
            all.extend(required.iter().cloned());
            for member in self.members(&record) {
                all.insert(member.name.clone());
                if member.form == (Form::Any { opaque: true }) {
                    opaque.insert(member.name.clone());
                }
                if member.required {
                    required.insert(member.name);
                }
            }
            in_every_case = Some(match in_every_case {
                Some(others) => others.intersection(&required).cloned().collect(),
                None => required,
            });
        }
        let required = in_every_case.unwrap_or_default();
        let optional = all.difference(&required).cloned().collect();
        (required, optional, opaque)
    }
}

fn bounds<const N: usize>(mut value: Value, named: [(&str, Option<Value>); N]) -> Value {
    for (name, bound) in named {
        if let Some(bound) = bound {
            value[name] = bound;
        }
    }
    value
}

fn literal(literal: &Literal) -> Value {
    match literal {
        Literal::Text(text) => text.as_str().into(),
        Literal::True => true.into(),
        Literal::Number(n) => (*n).into(),
    }
}

/// The `refs` of an event as the table lists them.
fn references(writer: &Writer<'_>, event: &Event) -> Value {
    let member = |path: &str| {
        let name = path.strip_prefix("data.")?;
        let records = writer.records(event.form.as_ref()?);
        let mut members = records.iter().flat_map(|(_, record)| writer.members(record));
        members.find(|member| member.name == name).map(|member| member.form)
    };
    let one = |path: &String| match (path.as_str(), member(path)) {
        ("sourceEventSeqs", _) => json!({"at": "envelope.sourceEventSeqs", "kind": "list"}),
        ("surfaceOp", _) => {
            json!({"at": "envelope.surfaceOp.start..end", "kind": "range", "order": "surface-position"})
        }
        (_, Some(Form::Seq)) => json!({"at": path, "kind": "single"}),
        (_, Some(Form::List { .. })) => json!({"at": path, "kind": "list"}),
        (_, Some(Form::Record(_))) => {
            json!({"at": format!("{path}.start..end"), "kind": "range", "order": "surface-position"})
        }
        (_, other) => panic!("{path} holds no seqs but {other:?}"),
    };
    event.refs.iter().map(one).collect()
}

fn strings(value: &Value) -> BTreeSet<String> {
    value.as_array().expect("a list").iter().map(|s| s.as_str().expect("a string").to_owned()).collect()
}

#[test]
fn shapes_are_the_table_s_definitions() {
    let Some(table) = table() else { return };
    let (v1, v2) = (parse(V1_SCHEMA).expect("v1.schema"), parse(V2_SCHEMA).expect("v2.schema"));
    let writer = Writer { schemas: vec![&v1, &v2] };
    let ours: BTreeMap<String, Value> =
        v1.shapes.iter().chain(&v2.shapes).map(|s| (s.name.clone(), writer.form(&s.form))).collect();
    let theirs = table["definitions"].as_object().expect("definitions");
    assert_eq!(
        ours.keys().collect::<Vec<_>>(),
        theirs.keys().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    );
    for (name, form) in &ours {
        assert_eq!(form, &theirs[name], "shape {name}");
    }
}

#[test]
fn events_are_the_table_s_types() {
    let Some(table) = table() else { return };
    let (v1, v2) = (parse(V1_SCHEMA).expect("v1.schema"), parse(V2_SCHEMA).expect("v2.schema"));
    let writer = Writer { schemas: vec![&v1, &v2] };
    for (generation, schema) in [("v0v1", &v1), ("v2", &v2)] {
        let theirs = table["generations"][generation]["types"].as_object().expect("types");
        let ours: BTreeSet<&String> = schema.events.iter().map(|event| &event.name).collect();
        assert_eq!(ours, theirs.keys().collect(), "{generation}");
        assert_eq!(ours.len(), schema.events.len(), "{generation} declares a type twice");
        for declared in &schema.events {
            let entry = &theirs[&declared.name];
            let name = &declared.name;
            let event = match &declared.form {
                Some(form) => {
                    assert_eq!(writer.form(form), entry["payload"], "payload of {generation} {name}");
                    declared
                }
                None => {
                    assert_eq!(entry["payload"], json!({"sameAs": format!("v0v1.{name}")}), "{name}");
                    v1.events.iter().find(|event| event.name == *name).expect("v1 has it")
                }
            };
            assert_eq!(json!(event.surface), entry["surface"], "{name}");
            assert_eq!(references(&writer, event), entry["seqRefs"], "references of {generation} {name}");
            let (required, optional, opaque) = writer.member_names(event.form.as_ref().expect("a form"));
            let listed = entry["required"]
                .as_array()
                .expect("a list")
                .iter()
                .chain(entry["optional"].as_array().expect("a list"));
            let listed: BTreeSet<String> = listed.map(|s| s.as_str().expect("a string").to_owned()).collect();
            let all: BTreeSet<String> = required.union(&optional).cloned().collect();
            assert_eq!(strings(&entry["opaque"]), opaque, "opaque members of {name}");
            // The table's flat lists leave out what only its payload schema has: see the delivery marker.
            assert!(listed.is_subset(&all), "members of {name}");
            assert!(strings(&entry["required"]).is_subset(&all), "required members of {name}");
        }
    }
}

#[test]
fn rules_and_surface_types_are_the_table_s() {
    let Some(table) = table() else { return };
    let theirs: BTreeSet<&str> =
        table["rules"].as_object().expect("rules").keys().map(String::as_str).collect();
    assert_eq!(Rule::ALL.iter().map(|rule| rule.name()).collect::<BTreeSet<_>>(), theirs);
    let surface: BTreeSet<String> =
        Kind::ALL.iter().filter(|kind| kind.is_surface()).map(|kind| kind.name().to_owned()).collect();
    assert_eq!(strings(&table["envelope"]["surfaceTypes"]), surface);
}
