//! The list, the document and the source tell the same events; each form tells all of one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of the document's table of all: name, priority, fields, meaning, what to do.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (_, table) = text.split_once("## All events").expect("a heading");
    let lines = table.lines().filter(|line| line.starts_with("| `"));
    let cells = |line: &str| {
        let inside = line.trim_matches('|').split('|');
        inside.map(|cell| cell.trim().to_owned()).collect()
    };
    lines.map(cells).collect()
}

/// The row of an event, but for what to do.
fn row(kind: Kind) -> [String; 4] {
    let fields: Vec<_> = kind.fields().iter().map(ToString::to_string).collect();
    let bounded = if kind.is_bounded() { ", bounded" } else { "" };
    [
        format!("`{}`", kind.name()),
        format!("{}{bounded}", kind.priority()),
        fields.join(", "),
        kind.meaning().to_owned(),
    ]
}

/// The faults of a document of events.
fn complaints(text: &str) -> Vec<String> {
    let rows = rows(text);
    let mut wrong = Vec::new();
    for row in &rows {
        let known = Kind::ALL
            .iter()
            .any(|kind| row[0] == format!("`{}`", kind.name()));
        if !known {
            wrong.push(format!("{}: no such event", row[0]));
        }
        if row.len() != 5 || row[4].is_empty() {
            wrong.push(format!("{}: not told what to do", row[0]));
        }
    }
    for kind in Kind::ALL {
        let wanted = row(*kind);
        let found = rows.iter().filter(|row| row[0] == wanted[0]);
        let found: Vec<_> = found.collect();
        match &found[..] {
            [found] if found[..4] == wanted => {}
            found => wrong.push(format!("{wanted:?} is wanted once, found {found:?}")),
        }
    }
    wrong
}

#[test]
fn each_event_has_a_row_in_the_document_and_each_row_an_event() {
    let text = fs::read_to_string(root().join("docs/events.md")).expect("a document");
    let wrong = complaints(&text);
    assert!(wrong.is_empty(), "docs/events.md: {wrong:#?}");

    let without = text.replacen("| `ready` |", "| ready |", 1);
    assert_eq!(complaints(&without).len(), 1);
    let unknown = format!("{text}| `no_such` | info | | x | y |\n");
    assert_eq!(complaints(&unknown).len(), 1);
    let other = text.replacen("| `adapter_lost` | err", "| `adapter_lost` | info", 1);
    assert_eq!(complaints(&other).len(), 1);
}

#[test]
fn names_are_in_order_and_each_is_its_kinds() {
    let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    for kind in Kind::ALL {
        let name = kind.name().replace('_', "");
        assert_eq!(name, kind.variant().to_lowercase());
        assert!(kind.fields().is_sorted(), "{name}");
    }
}

/// Whatever lies below a directory and is a source that ships.
fn sources(directory: &Path, into: &mut String) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            sources(&path, into);
        } else if name
            .to_str()
            .is_some_and(|name| name.ends_with(".rs") && name != "tests.rs")
        {
            let text = fs::read_to_string(path).expect("a source");
            into.push_str(text.split("#[cfg(test)]").next().unwrap_or_default());
        }
    }
}

#[test]
fn each_event_of_the_list_is_told_somewhere() {
    let mut text = String::new();
    for directory in ["crates/host/src", "crates/cli/src"] {
        sources(&root().join(directory), &mut text);
    }
    let is_told = |variant: &str| {
        let name = format!("Kind::{variant}");
        let mut found = text.match_indices(&name);
        found.any(|(at, _)| !text[at + name.len()..].starts_with(|c: char| c.is_alphanumeric()))
    };
    for kind in Kind::ALL {
        assert!(is_told(kind.variant()), "{}", kind.name());
    }
    assert!(!is_told("Adapter"), "a part of a name");
}

#[test]
fn who_puts_lines_on_standard_error_is_the_log_alone() {
    for directory in ["server", "adapter"] {
        let mut text = String::new();
        sources(&root().join("crates/host/src").join(directory), &mut text);
        let wrong = text
            .lines()
            .filter(|line| line.contains("eprint") || line.contains("stderr()"));
        assert_eq!(wrong.collect::<Vec<_>>(), [""; 0], "{directory}");
    }
}

fn lost() -> Event {
    Event::of(Kind::AdapterLost, "adapter \"north\" has gone")
        .with(Field::Adapter, "north")
        .with_any(Field::Reason, None::<String>)
}

/// The line that a log of this form writes for an event.
fn written(form: Form, event: &Event) -> String {
    let octets = Arc::new(Mutex::new(Vec::new()));
    let log = log::log_into(Arc::clone(&octets), form);
    log.tell(event);
    let octets = octets.lock().unwrap().clone();
    String::from_utf8(octets).unwrap()
}

#[test]
fn a_line_of_text_is_for_people() {
    let line = written(Form::Text, &lost());
    assert_eq!(line, "cellgate: adapter \"north\" has gone\n");
}

#[test]
fn a_line_of_json_has_name_level_text_and_fields() {
    let event = Event::of(Kind::PagesTaken, "user 7 took pages")
        .with(Field::User, 7_u32)
        .with(Field::Count, 3_u64);
    let line = written(Form::Json, &event);
    assert_eq!(line.matches('\n').count(), 1);
    let mut object: serde_json::Value = serde_json::from_str(&line).unwrap();
    let time = object.as_object_mut().unwrap().remove("timestamp").unwrap();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    let wanted = serde_json::json!({
        "level": "WARN", "event": "pages_taken", "message": "user 7 took pages",
        "user": 7, "count": 3,
    });
    assert_eq!(object, wanted);
    let line = written(Form::Json, &lost());
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&object["adapter"], object.get("reason")),
        (&"north".into(), None)
    );
}

/// Each field of the list reaches the log.
#[test]
fn no_field_is_forgotten() {
    for kind in Kind::ALL {
        for field in kind.fields() {
            let event = match field {
                Field::Count | Field::Process | Field::User => {
                    Event::of(*kind, "x").with(*field, 5_u64)
                }
                _ => Event::of(*kind, "x").with(*field, "5"),
            };
            let line = written(Form::Json, &event);
            let object: serde_json::Value = serde_json::from_str(&line).unwrap();
            let found = &object[field.to_string()];
            assert!(*found == 5 || *found == "5", "{}: {field}", kind.name());
        }
    }
}

#[test]
#[should_panic(expected = "user of ready")]
fn a_field_that_is_not_in_the_list_is_a_bug() {
    let _ = Event::of(Kind::Ready, "ready").with(Field::User, 1_u32);
}
