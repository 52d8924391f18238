//! What has become of files, for the end of a command.

use cellgate_core::terminal::{
    Counts, Digest, Discard, Entry, EntryKind, Given, SenderCounts, Settled,
};
use serde_json::{Value, json};

use super::words::{said, shown};

/// What has come to its end.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) files: u64,
    pub(super) octets: u64,
    /// Files and links that were there already, and their octets.
    pub(super) there: u64,
    pub(super) there_octets: u64,
    /// Paths, and why.
    pub(super) failed: Vec<(Vec<u8>, String)>,
    pub(super) skipped: Vec<(Vec<u8>, String)>,
    /// Counts of what was sent, and of what came, in tries that are over.
    pub(super) sent: SenderCounts,
    pub(super) come: Counts,
    pub(super) is_done: bool,
}

impl Tally {
    /// Counts, and gives the line about a file that arrived.
    pub(super) fn given(&mut self, given: Given) -> Option<Value> {
        match given {
            Given::There { entry, digest } => self.there(&entry, digest),
            Given::Failed { path, reason } => self.fails(path, &reason),
            Given::Skipped { path, reason } => {
                let line = json!({ "path": shown(&path), "skipped": reason });
                self.skipped.push((path, reason));
                Some(line)
            }
            Given::Done => {
                self.is_done = true;
                None
            }
        }
    }

    /// As [`Tally::given`], for who takes.
    pub(super) fn settled(&mut self, settled: Settled) -> Option<Value> {
        match settled {
            Settled::There { entry, digest } => self.there(&entry, digest),
            Settled::Failed { path, reason } => self.fails(path, &reason),
            Settled::Done => {
                self.is_done = true;
                None
            }
        }
    }

    fn there(&mut self, entry: &Entry, digest: Option<Digest>) -> Option<Value> {
        let Some(digest) = digest else {
            self.there += 1;
            self.there_octets += entry.octets();
            return None;
        };
        if !matches!(entry.kind, EntryKind::File { .. }) {
            return None;
        }
        self.files += 1;
        self.octets += entry.octets();
        Some(json!({
            "path": shown(&entry.path),
            "octets": entry.octets(),
            "blake3": hex(&digest),
        }))
    }

    /// The reason may be the other end's.
    fn fails(&mut self, path: Vec<u8>, reason: &str) -> Option<Value> {
        let reason = said(reason);
        let line = json!({ "path": shown(&path), "error": reason });
        self.failed.push((path, reason));
        Some(line)
    }
}

/// PDUs that were thrown away, by why; and cells that were of none.
pub(super) fn discarded(come: &Counts) -> Value {
    let of = |count: &dyn Fn(Discard) -> u64| -> Value {
        let reasons = Discard::ALL
            .iter()
            .map(|reason| (reason.name(), count(*reason)));
        reasons.filter(|(_, count)| *count > 0).collect()
    };
    json!({
        "pdus": of(&|reason| come.discarded(reason)),
        "cells": of(&|reason| come.cells(reason)),
    })
}

/// The same in words; none if nothing was.
pub(super) fn discarded_words(come: &Counts) -> Option<String> {
    let shown = |reason: &Discard| match (come.discarded(*reason), come.cells(*reason)) {
        (0, 0) => None,
        (pdus, cells) => Some(format!("{} {pdus} PDUs ({cells} cells)", reason.name())),
    };
    let all: Vec<_> = Discard::ALL.iter().filter_map(shown).collect();
    (!all.is_empty()).then(|| format!("discarded: {}", all.join(", ")))
}

/// A digest as `b3sum` prints it.
pub(super) fn hex(digest: &Digest) -> String {
    digest.iter().map(|octet| format!("{octet:02x}")).collect()
}
