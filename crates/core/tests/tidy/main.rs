//! The house rules that no compiler holds, as ordinary tests over the text of the project.
//!
//! Every rule is a function from text to complaints; each is tried on a bad sample as well.
#![cfg(not(any(miri, loom)))]

mod files;
mod rules;
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cellgate_core::adapter::Discard;
use cellgate_core::terminal;

use files::{files_below, manifests, read, relative, root, rust_files, section};
use rules::*;
use source::{Source, split};

/// Where `unsafe` may stand.
const UNSAFE_HOMES: [&str; 4] = [
    "crates/shm/",
    "crates/simd/",
    "crates/host/src/sys/",
    "crates/capi/",
];

/// A longer file is named in the output, not refused.
const LINES_USUAL: usize = 350;

#[test]
fn rooms_use_only_earlier_rooms() {
    let src = root().join("crates/core/src");
    check(&rust_files("crates/core/src"), |path, source| {
        let inside = path.strip_prefix(&src).expect("below src");
        let room = inside.iter().next().and_then(|name| name.to_str());
        match room {
            Some(room) if ROOMS.contains(&room) => later_rooms(room, source),
            _ => Vec::new(),
        }
    });
    assert_complains(later_rooms("wire", &split("use crate::contract::Gcra;")), 1);
    assert_complains(
        later_rooms("aal", &split("use crate::{Time, queue::Words, wire};")),
        1,
    );
    assert_complains(
        later_rooms("wire", &split("fn f() { super::super::queue::f() }")),
        1,
    );
    assert_complains(
        later_rooms("queue", &split("use crate::{wire, aal::Memory, Time};")),
        0,
    );
    assert_complains(
        later_rooms("wire", &split("/// See [`crate::adapter`].")),
        0,
    );
}

#[test]
fn commands_use_nothing_of_each_other() {
    let commands = root().join("crates/cli/src/commands");
    check(&rust_files("crates/cli/src/commands"), |path, source| {
        let inside = path.strip_prefix(&commands).expect("below commands");
        let own = inside.iter().next().and_then(|name| name.to_str());
        other_commands(own.expect("UTF-8").trim_end_matches(".rs"), source)
    });
    let uses = |text| other_commands("sim", &split(text));
    assert_complains(uses("use crate::commands::decode::pdu::fits;"), 1);
    assert_complains(uses("use crate::commands::{sim::seeds, lab};"), 1);
    assert_complains(uses("use crate::commands::sim::seeds::Seeds;"), 0);
}

#[test]
fn instruments_use_nothing_of_each_other_but_what_is_live() {
    for (part, _) in INSTRUMENTS {
        let files = rust_files(&format!("crates/instruments/src/{part}"));
        assert!(!files.is_empty(), "{part}: no files");
        check(&files, |_, source| other_instruments(part, source));
    }
    let uses = |own, text| other_instruments(own, &split(text));
    assert_complains(uses("guarantee", "use crate::flood::stage::Stage;"), 1);
    assert_complains(uses("live", "use crate::{bench::rig, live::sdu};"), 1);
    assert_complains(uses("demo", "use crate::flood::stage::Stage;"), 0);
}

#[test]
fn every_room_is_a_module_of_the_core_and_every_module_a_room() {
    let lib = fs::read_to_string(root().join("crates/core/src/lib.rs")).expect("core has a lib");
    let mut modules: Vec<_> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    let mut rooms = ROOMS.to_vec();
    modules.sort();
    rooms.sort();
    assert_eq!(modules, rooms);
}

#[test]
fn the_core_has_no_io_no_clock_no_threads_no_hash_order_and_no_floats() {
    check(&rust_files("crates/core/src"), |_, source| {
        impurities(source)
    });
    assert_complains(impurities(&split("use std::time::Duration;")), 1);
    assert_complains(impurities(&split("use std::{fmt, thread::spawn};")), 1);
    assert_complains(impurities(&split("let x: HashMap<u8, f64>;")), 2);
    assert_complains(
        impurities(&split("use std::collections::BTreeMap; // not HashMap")),
        0,
    );
}

#[test]
fn what_lives_in_other_processes_starts_no_thread() {
    let shipped = |text: &str| text.split("#[cfg(test)]").next().map(split);
    for path in ["crates/client/src", "crates/msna/src"] {
        check(&rust_files(path), |path, _| {
            shipped(&read(path)).map_or(Vec::new(), |source| threads(&source))
        });
    }
    assert_complains(threads(&split("std::thread::spawn(|| {});")), 1);
    assert_complains(threads(&split("/// One thread uses it at a time.")), 0);
}

#[test]
fn unsafe_stands_only_where_it_has_a_home() {
    check(&rust_files("crates"), |path, source| {
        if UNSAFE_HOMES
            .iter()
            .any(|home| relative(path).starts_with(home))
        {
            return Vec::new();
        }
        unsafe_code(source)
    });
    assert_complains(unsafe_code(&split("fn f() { unsafe { g() } }")), 1);
    assert_complains(
        unsafe_code(&split("#![forbid(unsafe_code)] // unsafe\nf(\"unsafe\");")),
        0,
    );
    assert_complains(
        unsafe_code(&split("unsafe impl GlobalAlloc for Counting {}")),
        0,
    );
}

#[test]
fn crates_without_unsafe_forbid_it() {
    for file in [
        "crates/core/src/lib.rs",
        "crates/lab/src/lib.rs",
        "crates/client/src/lib.rs",
        "crates/report/src/lib.rs",
        "crates/instruments/src/lib.rs",
        "crates/cli/src/lib.rs",
        "crates/cli/src/main.rs",
        "xtask/src/main.rs",
    ] {
        let text = fs::read_to_string(root().join(file)).expect(file);
        assert!(forbids_unsafe(&text), "{file}: no #![forbid(unsafe_code)]");
    }
    assert!(!forbids_unsafe("// #![forbid(unsafe_code)]\nfn main() {}"));
}

#[test]
fn whatever_users_see_is_documented() {
    for file in [
        "crates/client/src/lib.rs",
        "crates/capi/src/lib.rs",
        "crates/core/src/time.rs",
        "crates/core/src/fault.rs",
    ] {
        let text = fs::read_to_string(root().join(file)).expect(file);
        let on = text.lines().any(|line| line == "#![warn(missing_docs)]");
        assert!(on, "{file}: no #![warn(missing_docs)]");
    }
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    for (path, toml) in manifests() {
        let lints = section(&toml, "lints");
        assert!(
            lints.contains(&"workspace = true"),
            "{path}: no [lints] workspace = true"
        );
    }
    let top = fs::read_to_string(root().join("Cargo.toml")).expect("a workspace");
    let (table, lint) = ("workspace.lints.clippy", "undocumented_unsafe_blocks");
    let on = section(&top, table)
        .iter()
        .any(|line| line.starts_with(lint) && !line.contains("allow"));
    assert!(on, "{lint} is not on in [{table}]");
    assert!(section("[a]\nx = 1\n[lints]\n[b]\nworkspace = true", "lints").is_empty());
}

#[test]
fn crates_depend_only_on_what_their_place_allows() {
    for (path, toml) in manifests() {
        let complaints = misplaced_dependencies(&path, &toml);
        assert!(complaints.is_empty(), "{path}: {complaints:?}");
    }
    let core = "[dependencies]\nrustix.workspace = true\nserde = \"1\"";
    assert_complains(misplaced_dependencies("crates/core/Cargo.toml", core), 1);
    let lab = "[dev-dependencies]\ncellgate-host = { path = \"../host\" }";
    assert_complains(misplaced_dependencies("crates/lab/Cargo.toml", lab), 1);
    let host = "[dependencies]\ncellgate-lab.workspace = true";
    assert_complains(misplaced_dependencies("crates/host/Cargo.toml", host), 1);
    assert_complains(misplaced_dependencies("crates/cli/Cargo.toml", host), 0);
    assert_complains(misplaced_dependencies("crates/report/Cargo.toml", host), 1);
    assert_complains(misplaced_dependencies("crates/msna/Cargo.toml", host), 1);
    let instruments = "[dependencies]\ncellgate-instruments.workspace = true";
    for (path, complaints) in [("crates/cli/Cargo.toml", 0), ("crates/host/Cargo.toml", 1)] {
        assert_complains(misplaced_dependencies(path, instruments), complaints);
    }
    let page = "[dependencies]\ncellgate-page.workspace = true\nhyper = \"1\"";
    for (path, complaints) in [
        ("crates/cli/Cargo.toml", 0),
        ("crates/host/Cargo.toml", 2),
        ("crates/client/Cargo.toml", 2),
    ] {
        assert_complains(misplaced_dependencies(path, page), complaints);
    }
    assert_complains(misplaced_dependencies("crates/page/Cargo.toml", host), 1);
    let log = "[dependencies]\ntracing.workspace = true\nprobe.workspace = true";
    for (path, complaints) in [
        ("crates/host/Cargo.toml", 0),
        ("crates/shm/Cargo.toml", 2),
        ("crates/cli/Cargo.toml", 2),
    ] {
        assert_complains(misplaced_dependencies(path, log), complaints);
    }
}

#[test]
fn files_and_lines_are_short() {
    let files = rust_files("crates");
    for path in &files {
        let lines = lines_before_tests(&read(path));
        if lines > LINES_USUAL {
            println!("{lines} lines, more than usual: {}", relative(path));
        }
    }
    check(&files, |path, _| too_long(&read(path)));
    check(&[root().join(".ci/run")], |path, _| too_long(&read(path)));
    assert_complains(too_long(&"//\n".repeat(LINES_MAX)), 1);
    assert_complains(too_long(&format!("// {}", "é".repeat(98))), 1);
    assert_complains(too_long(&"é".repeat(100)), 0);
    let with_tests = format!("fn f() {{}}\n#[cfg(test)]\n{}", "//\n".repeat(LINES_MAX));
    assert_complains(too_long(&with_tests), 0);
}

#[test]
fn guides_are_short() {
    for (file, lines_max) in [("README.md", 150), ("STYLE.md", 70)] {
        let lines = fs::read_to_string(root().join(file))
            .expect(file)
            .lines()
            .count();
        assert!(
            lines <= lines_max,
            "{file} has {lines} lines of {lines_max}"
        );
    }
}

#[test]
fn comments_describe_the_code_and_nothing_is_left_unfinished() {
    check(&rust_files("crates"), |_, source| unfinished(source));
    assert_complains(unfinished(&split("// TODO: more")), 1);
    assert_complains(unfinished(&split("/// Now we check the length.")), 1);
    assert_complains(unfinished(&split("/* It is no longer 5. */")), 1);
    assert_complains(unfinished(&split("fn f() { todo!() }")), 1);
    assert_complains(unfinished(&split("fn f() { unimplemented!(\"x\") }")), 1);
    assert_complains(unfinished(&split("// It waits no longer than a step.")), 0);
}

#[test]
fn every_discard_reason_is_explained_to_users() {
    let text = fs::read_to_string(root().join("docs/discards.md")).expect("a document");
    let of_adapter = Discard::ALL.map(Discard::name);
    let of_terminal = terminal::Discard::ALL.map(terminal::Discard::name);
    for (heading, reasons) in [
        ("At the adapter", &of_adapter[..]),
        ("At a terminal", &of_terminal[..]),
    ] {
        let complaints = unexplained_reasons(&text, heading, reasons);
        assert!(complaints.is_empty(), "docs/discards.md: {complaints:#?}");
    }

    let head = "## A\n\n| reason | means | caused by | what to do |\n|---|---|---|---|\n";
    let with = |rows: &str| unexplained_reasons(&format!("{head}{rows}"), "A", &["x"]);
    assert_complains(with("| `x` | a | b | c |"), 0);
    assert_complains(with("| `x` | a | b | |"), 1);
    assert_complains(with("| `y` | a | b | c |"), 1);
    assert_complains(with("| `x` | a | b | c |\n| `y` | a | b | c |"), 1);
    assert_complains(with(""), 1);
}

#[test]
fn every_invariant_names_a_test_or_lint_that_exists() {
    let texts = ["ARCHITECTURE.md", "docs/invariants.md"]
        .map(|document| fs::read_to_string(root().join(document)).expect(document));
    let mut known = fs::read_to_string(root().join("Cargo.toml")).expect("a workspace");
    for path in rust_files("crates") {
        known.push_str(&read(&path));
    }
    known.push_str(&fs::read_to_string(root().join("crates/core/clippy.toml")).expect("lints"));
    let complaints = unheld_invariants(&texts.each_ref().map(String::as_str), &known);
    assert!(complaints.is_empty(), "{complaints:#?}");

    let table =
        |held| format!("# A\n| invariant | held by |\n|---|---|\n| x | {held} |\n## B\n| y |");
    let unheld = |held, known| unheld_invariants(&[&table(held)], known);
    assert_complains(unheld("`holds_x`", "fn holds_y() {}"), 1);
    assert_complains(unheld("a promise", "fn holds_y() {}"), 1);
    assert_complains(unheld("`holds_x`", "fn holds_x() {}"), 0);
    let (one, known) = (table("`holds_x`"), "fn holds_x() {}");
    assert_complains(unheld_invariants(&[&one, &one], known), 1);
    assert_complains(unheld_invariants(&[&one, "none"], known), 1);
}

#[test]
fn what_a_paper_says_is_shown_by_a_test_that_exists() {
    let mut known = String::new();
    for path in rust_files("crates") {
        known.push_str(&read(&path));
    }
    for paper in ["policing", "l4atm"] {
        let path = root().join("docs/papers").join(paper).with_extension("md");
        let text = fs::read_to_string(path).expect("a document");
        let complaints = unshown_statements(&text, &known);
        assert!(complaints.is_empty(), "{paper}: {complaints:#?}");
    }

    let row = |standing, shown| {
        let head = "| section | what it says | standing | shown by |\n|---|---|---|---|";
        format!("{head}\n| 1 | x | {standing} | {shown} |")
    };
    let known = "fn shows_x() {}";
    assert_complains(unshown_statements(&row("live", "`shows_x`"), known), 0);
    assert_complains(unshown_statements(&row("open: no model", ""), known), 0);
    assert_complains(unshown_statements(&row("live", ""), known), 1);
    assert_complains(unshown_statements(&row("open", "`shows_y`"), known), 1);
    assert_complains(unshown_statements(&row("somehow", "`shows_x`"), known), 1);
}

#[test]
fn links_between_documents_lead_somewhere() {
    for document in documents() {
        let complaints = dead_links(&document, &read(&document));
        assert!(
            complaints.is_empty(),
            "{}: {complaints:?}",
            relative(&document)
        );
    }
    let here = root().join("README.md");
    let text = "# A head, of it\n[a](no-such-file.md), [b](https://x.y), [c](#a-head-of-it)";
    assert_complains(dead_links(&here, text), 1);
    assert_complains(
        dead_links(&here, "[a](STYLE.md#names), [b](STYLE.md#none)"),
        1,
    );
    assert_complains(dead_links(&here, "[a](#none)"), 1);
}

#[test]
fn lines_of_documents_are_short() {
    for document in documents() {
        let complaints = wide_lines(&read(&document));
        assert!(
            complaints.is_empty(),
            "{}: {complaints:#?}",
            relative(&document)
        );
    }
    assert_complains(wide_lines(&"é".repeat(120)), 0);
    assert_complains(wide_lines(&"é".repeat(121)), 1);
    assert_complains(wide_lines(&format!("| {} |", "é".repeat(121))), 0);
}

#[test]
fn the_splitter_tells_code_from_comments_and_literals() {
    let source =
        split("let a = \"// no \\\" {\"; // yes\nlet b = '\"'; /* a /* b */ c */ let c = 'x;");
    assert_eq!(source.code[0].trim_end(), "let a = \"\";");
    assert_eq!(source.comments[0].trim(), "yes");
    assert!(source.code[1].contains("let c = 'x;"));
    assert!(source.comments[1].contains("a /* b */ c"));
    let raw = split("let r = r#\"a \" // b\"#; done(); let not_raw = for_r(\"x\");");
    assert!(raw.code[0].contains("done();") && raw.comments[0].is_empty());
}

/// What people read: the root's documents and those below docs.
fn documents() -> Vec<PathBuf> {
    let mut documents = files_below(&root().join("docs"), "md");
    for name in [
        "README",
        "ARCHITECTURE",
        "STYLE",
        "CAVEATS",
        "CHANGELOG",
        "SECURITY",
    ] {
        documents.push(root().join(name).with_extension("md"));
    }
    documents
}

fn check(files: &[PathBuf], complaints: impl Fn(&Path, &Source) -> Vec<String>) {
    assert!(!files.is_empty(), "nothing to check");
    let mut all = BTreeMap::new();
    for path in files {
        let found = complaints(path, &split(&read(path)));
        if !found.is_empty() {
            all.insert(relative(path), found);
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

#[track_caller]
fn assert_complains(complaints: Vec<String>, times: usize) {
    assert_eq!(complaints.len(), times, "{complaints:?}");
}
