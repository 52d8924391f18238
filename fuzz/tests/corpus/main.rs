//! Every input of the corpus through its target, and a few thousand made from them by chance: what
//! a fuzzer once found stays found, without a fuzzer.

mod archive;

use std::fs;
use std::io::Write;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::Instant;

use archive::inputs;
use cellgate_core::adapter::Planted;
use cellgate_fuzz::{TARGETS, plan};
use cellgate_lab::plan::Plan;
use cellgate_lab::{OF_ABR, OF_RESTS, run_adapter, run_adapter_resting};
use flate2::{Compression, GzBuilder};
use tar::{Builder, Header};

#[test]
fn every_input_of_the_corpus_passes() {
    let mut failed = Vec::new();
    for (name, target) in TARGETS {
        let inputs = inputs(name);
        assert!(
            inputs.len() >= 5,
            "{name}: a corpus of {} inputs",
            inputs.len()
        );
        for input in &inputs {
            if catch_unwind(|| target(&input.octets)).is_err() {
                failed.push(format!("{name}: {}", input.name));
            }
        }
        println!("{name}: {} inputs", inputs.len());
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn the_empty_input_and_cut_and_changed_ones_pass() {
    for (name, target) in TARGETS {
        target(&[]);
        for input in inputs(name).iter().step_by(7) {
            let octets = &input.octets;
            target(&octets[..octets.len() / 2]);
            let changed: Vec<u8> = octets.iter().map(|octet| octet ^ 0x10).collect();
            target(&changed);
        }
    }
}

/// Inputs that are changed by chance, for so many seconds, where there is no fuzzer:
/// `CELLGATE_CHANCE=cbn:120 cargo test --manifest-path fuzz/Cargo.toml by_chance -- --ignored`
#[test]
#[ignore = "as long as CELLGATE_CHANCE says"]
fn inputs_that_are_changed_by_chance_pass() {
    let asked = std::env::var("CELLGATE_CHANCE").expect("CELLGATE_CHANCE=TARGET:SECONDS");
    let (name, seconds) = asked.split_once(':').expect("TARGET:SECONDS");
    let seconds = seconds.parse().expect("a number of seconds");
    let all = TARGETS.iter().find(|(target, _)| *target == name);
    let (_, target) = all.expect("a target");
    let known = inputs(name);
    let (began, mut state, mut count) = (Instant::now(), 0x9e37_79b9_7f4a_7c15_u64, 0_u64);
    let mut next = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.max(1) as u64) as usize
    };
    while began.elapsed().as_secs() < seconds {
        let mut octets = known[next(known.len())].octets.clone();
        let other = &known[next(known.len())].octets;
        let at = next(octets.len());
        match next(4) {
            0 => octets
                .splice(at.., other.iter().skip(next(other.len())).copied())
                .for_each(drop),
            1 => octets.truncate(at),
            _ => {}
        }
        for _ in 0..next(6) {
            let at = next(octets.len());
            if let Some(octet) = octets.get_mut(at) {
                *octet = next(256) as u8;
            }
        }
        let passed = catch_unwind(|| target(&octets));
        assert!(passed.is_ok(), "input {count}: {octets:02x?}");
        count += 1;
    }
    println!("{name}: {count} inputs");
}

/// An archive of inputs of one octet, `change` made in the header of each.
fn archive_of(names: &[&str], gzip: GzBuilder, change: fn(&mut Header)) -> Vec<u8> {
    let mut tar = Builder::new(gzip.write(Vec::new(), Compression::fast()));
    for name in names {
        let mut header = Header::new_ustar();
        header.set_path(name).expect("a short name");
        header.set_size(1);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        change(&mut header);
        header.set_cksum();
        tar.append(&header, &b"x"[..]).expect("written to memory");
    }
    let gzip = tar.into_inner().expect("written to memory");
    gzip.finish().expect("written to memory")
}

/// `inputs` reads nothing but the normal form, so every archive that the tests read is in it.
#[test]
fn an_archive_that_is_not_in_its_normal_form_is_refused() {
    let normal = archive_of(&["a", "b"], GzBuilder::new(), |_| ());
    let read = archive::unpacked(&normal).map(|inputs| inputs.len());
    assert_eq!(read, Ok(2));
    let changes: [fn(&mut Header); 6] = [
        |header| header.set_mtime(1),
        |header| header.set_uid(1),
        |header| header.set_gid(1),
        |header| header.set_mode(0o600),
        |header| header.set_username("somebody").expect("a short name"),
        |header| header.set_entry_type(tar::EntryType::Symlink),
    ];
    let mut bad: Vec<_> = changes
        .iter()
        .map(|change| archive_of(&["a", "b"], GzBuilder::new(), *change))
        .collect();
    bad.push(archive_of(&["b", "a"], GzBuilder::new(), |_| ()));
    bad.push(archive_of(&["a", "a"], GzBuilder::new(), |_| ()));
    bad.push(archive_of(&["folder/a"], GzBuilder::new(), |_| ()));
    bad.push(archive_of(&["a"], GzBuilder::new().mtime(1), |_| ()));
    bad.push(archive_of(
        &["a"],
        GzBuilder::new().filename("name"),
        |_| (),
    ));
    let mut longer = normal.clone();
    longer.write_all(&normal).expect("written to memory");
    bad.push(longer);
    for (at, archive) in bad.iter().enumerate() {
        assert!(archive::unpacked(archive).is_err(), "bad sample {at}");
    }
}

#[test]
fn every_target_has_its_archive_and_no_other_lies_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut found: Vec<_> = fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("readable").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut named: Vec<_> = TARGETS.map(|(name, _)| format!("{name}.tar.gz")).into();
    named.sort();
    assert_eq!(found, named);
}

#[test]
fn every_target_has_its_binary() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let binaries = fs::read_dir(folder).expect("targets").count();
    assert_eq!(binaries, TARGETS.len());
    let manifest = include_str!("../../Cargo.toml");
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name}");
    }
}

/// The judge of the adapter's target sees: what is planted in the adapter shows on the corpus.
#[test]
fn the_corpus_finds_planted_bugs() {
    let shows = |plan: &Plan, bug: Planted| {
        let run = match OF_RESTS.contains(&bug) {
            true => catch_unwind(|| run_adapter_resting(plan, Some(bug)).is_err()),
            false => catch_unwind(|| run_adapter(plan, Some(bug)).is_err()),
        };
        run.unwrap_or(true)
    };
    let mut alive = Planted::ALL.to_vec();
    // No plan of the adapter alone has ABR.
    alive.retain(|bug| !OF_ABR.contains(bug));
    let all = alive.len();
    // The rest lies in what its plans hardly do: loopback, leases.
    let enough = |alive: &[Planted]| (all - alive.len()) * 5 >= all * 3;
    let mut tried = 0;
    for input in inputs("adapter") {
        if enough(&alive) {
            break;
        }
        let plan = plan(&input.octets);
        alive.retain(|bug| !shows(&plan, *bug));
        tried += 1;
    }
    let found = all - alive.len();
    println!("{found} of {all} found by {tried} inputs, not {alive:?}");
    assert!(enough(&alive), "alive: {alive:?}");
}
