//! What a replay brought, as text and JSON.

use std::collections::BTreeMap;

use cellgate_core::adapter::{Aal, DiscardCounts, VcStats};
use cellgate_report::output;
use serde::Serialize;

use super::contract::Tolerance;
use super::host::Host;
use super::survey::Survey;
use crate::captured::train::{Lost, Shunter, Skipped};

/// Counts by reason, without the zeros.
type Reasons = BTreeMap<&'static str, u64>;

/// Everything that is told.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    records: u64,
    records_broken: u64,
    records_skipped: Skipped,
    lost: Lost,
    /// Records captured before one that stands in front of them.
    time_steps_back: u64,
    elapsed_ns: u64,
    /// How early cells may be where a contract does not say it.
    cdvt_ns: u64,
    /// Cells that may come at once.
    clump_cells: u16,
    vcs: Vec<VcOutcome>,
    /// The capture names more VCs than were opened.
    vcs_cut: bool,
    cells_received: u64,
    cells_delivered: u64,
    cells_answered: u64,
    cells_discarded: Reasons,
    cells_held: u64,
    pdus_delivered: u64,
    pdus_discarded: u64,
    sdu_octets: u64,
    conserved: bool,
}

#[derive(Debug, Serialize)]
struct VcOutcome {
    vpi: u16,
    vci: u16,
    aal: &'static str,
    aal_guessed: bool,
    cdvt_ns: Option<u64>,
    cells_received: u64,
    cells_delivered: u64,
    cells_answered: u64,
    cells_discarded: Reasons,
    cells_held: u64,
    pdus_delivered: u64,
    pdus_tagged: u64,
    pdus_discarded: Reasons,
    sdu_octets: u64,
}

fn reasons(counts: &DiscardCounts) -> Reasons {
    let counts = counts.iter().filter(|(_, n)| *n > 0);
    counts.map(|(reason, n)| (reason.name(), n)).collect()
}

fn adds_up(stats: &VcStats) -> bool {
    let gone = stats.cells_delivered + stats.cells_discarded.total() + stats.cells_answered;
    stats.cells_received == gone + stats.cells_held
}

impl Outcome {
    pub(super) fn of(
        host: &mut Host,
        survey: &Survey,
        shunter: &Shunter,
        tolerance: Tolerance,
        records_broken: u64,
    ) -> anyhow::Result<Self> {
        let state = host.state()?;
        let stats = state.stats;
        let sum = |of: fn(&VcStats) -> u64| state.vcs.iter().map(|vc| of(&vc.stats)).sum::<u64>();
        // Every cell that was sent is in one count of the adapter, every cell of a VC in one of the
        // VC's, and the host has seen as many SDUs as were delivered.
        let conserved = stats.is_conserved()
            && stats.cells_received == host.cells_sent
            && state.vcs.iter().all(|vc| adds_up(&vc.stats))
            && sum(|vc| vc.cells_delivered) == stats.cells_delivered
            // An F4 flow's are of a path, and of no VC.
            && sum(|vc| vc.cells_answered) <= stats.cells_answered
            && sum(|vc| vc.cells_held) == stats.cells_held
            && state.vcs.len() == host.vcs.len()
            && state
                .vcs
                .iter()
                .zip(&host.vcs)
                .all(|(info, vc)| info.vc == vc.id && info.stats.pdus_delivered == vc.sdus);
        let vcs = state.vcs.iter().zip(&host.vcs);
        let vcs = vcs.map(|(info, vc)| VcOutcome {
            vpi: vc.address.vpi(),
            vci: vc.address.vci(),
            aal: name(vc.aal),
            aal_guessed: vc.aal_guessed,
            cdvt_ns: vc.cdvt_ns,
            cells_received: info.stats.cells_received,
            cells_delivered: info.stats.cells_delivered,
            cells_answered: info.stats.cells_answered,
            cells_discarded: reasons(&info.stats.cells_discarded),
            cells_held: info.stats.cells_held,
            pdus_delivered: info.stats.pdus_delivered,
            pdus_tagged: info.stats.pdus_tagged,
            pdus_discarded: reasons(&info.stats.pdus_discarded),
            sdu_octets: vc.sdu_octets,
        });
        Ok(Self {
            records: shunter.records,
            records_broken,
            records_skipped: shunter.skipped,
            lost: shunter.lost,
            time_steps_back: host.steps_back,
            elapsed_ns: host.elapsed_ns(),
            cdvt_ns: tolerance.cdvt_ns,
            clump_cells: tolerance.clump_cells,
            vcs: vcs.collect(),
            vcs_cut: survey.is_cut(),
            cells_received: stats.cells_received,
            cells_delivered: stats.cells_delivered,
            cells_answered: stats.cells_answered,
            cells_discarded: reasons(&stats.cells_discarded),
            cells_held: stats.cells_held,
            pdus_delivered: sum(|vc| vc.pdus_delivered),
            pdus_discarded: sum(|vc| vc.pdus_discarded.total()),
            sdu_octets: host.vcs.iter().map(|vc| vc.sdu_octets).sum(),
            conserved,
        })
    }

    /// Whether every cell is accounted for.
    pub(super) const fn conserved(&self) -> bool {
        self.conserved
    }

    /// Whether there were records, and the adapter saw no cell of them.
    pub(super) const fn replayed_nothing(&self) -> bool {
        self.records > 0 && self.cells_received == 0
    }

    pub(super) fn to_text(&self) -> String {
        let heading = [
            "vpi.vci",
            "cells",
            "delivered",
            "answered",
            "held",
            "discarded",
            "PDUs",
            "discarded",
            "octets",
        ];
        let mut rows = vec![heading.map(String::from)];
        rows.extend(self.vcs.iter().map(VcOutcome::row));
        rows.push(self.total());
        let mut text = output::table(&rows);
        text.push('\n');
        for vc in &self.vcs {
            if vc.aal != name(Aal::Aal5) {
                let doubt = if vc.aal_guessed { "?" } else { "" };
                text += &format!("{}.{} is {}{doubt}\n", vc.vpi, vc.vci, vc.aal);
            }
            let why = [("cells", &vc.cells_discarded), ("PDUs", &vc.pdus_discarded)];
            for (what, reasons) in why.iter().filter(|(_, reasons)| !reasons.is_empty()) {
                text += &format!(
                    "{}.{} {what} discarded: {}\n",
                    vc.vpi,
                    vc.vci,
                    list(reasons)
                );
            }
        }
        let of_no_vc = self.of_no_vc();
        if !of_no_vc.is_empty() {
            text += &format!("cells of no VC discarded: {}\n", list(&of_no_vc));
        }
        text + &self.tolerance_text() + &self.records_text()
    }

    /// What was tolerated, if anything was policed.
    fn tolerance_text(&self) -> String {
        let policed = self.vcs.iter().filter_map(|vc| Some((vc, vc.cdvt_ns?)));
        let all: Vec<_> = policed.collect();
        if all.is_empty() {
            return String::new();
        }
        let others = all.iter().filter(|(_, cdvt_ns)| *cdvt_ns != self.cdvt_ns);
        let others = others
            .map(|(vc, cdvt_ns)| format!("; {}.{}: {cdvt_ns} ns by its contract", vc.vpi, vc.vci));
        format!(
            "policed with a CDVT of {} ns and clumps of {} cells{}\n",
            self.cdvt_ns,
            self.clump_cells,
            others.collect::<String>()
        )
    }

    fn total(&self) -> [String; 9] {
        let discarded: u64 = self.cells_discarded.values().sum();
        [
            "all".into(),
            self.cells_received.to_string(),
            self.cells_delivered.to_string(),
            self.cells_answered.to_string(),
            self.cells_held.to_string(),
            discarded.to_string(),
            self.pdus_delivered.to_string(),
            self.pdus_discarded.to_string(),
            self.sdu_octets.to_string(),
        ]
    }

    /// What the adapter discarded before it knew a VC.
    fn of_no_vc(&self) -> Reasons {
        let mut left = self.cells_discarded.clone();
        for (reason, n) in self.vcs.iter().flat_map(|vc| &vc.cells_discarded) {
            if let Some(count) = left.get_mut(reason) {
                *count = count.saturating_sub(*n);
            }
        }
        left.retain(|_, n| *n > 0);
        left
    }

    fn records_text(&self) -> String {
        let skipped = self.records_skipped;
        let mut text = format!(
            "{} records over {} ns; {} broken",
            self.records, self.elapsed_ns, self.records_broken
        );
        let skipped = [
            (skipped.other_way, "went the other way"),
            (skipped.not_whole, "not whole"),
            (skipped.no_address, "of no known VC"),
            (skipped.ring, "cells of the ring"),
            (skipped.aal2, "packets of AAL2"),
            (skipped.no_pseudowire, "without a pseudowire"),
            (skipped.control_channel, "of a control channel"),
            (skipped.out_of_order, "twice or out of order"),
            (skipped.damaged, "marked as damaged (rx error)"),
        ];
        for (n, why) in skipped.iter().filter(|(n, _)| *n > 0) {
            text += &format!("; {n} not replayed: {why}");
        }
        text.push('\n');
        for (n, what) in [
            (self.lost.records, "records, by the capture's loss counters"),
            (
                self.lost.packets,
                "packets of pseudowires, by their numbers",
            ),
        ] {
            if n > 0 {
                text += &format!("lost before they came here: {n} {what}\n");
            }
        }
        if self.time_steps_back > 0 {
            let n = self.time_steps_back;
            text += &format!("{n} records are older than one before them: taken to be as old\n");
        }
        if self.vcs_cut {
            text += &format!("only the first {} VCs were opened\n", self.vcs.len());
        }
        text
    }
}

impl VcOutcome {
    fn row(&self) -> [String; 9] {
        let sum = |reasons: &Reasons| reasons.values().sum::<u64>();
        [
            format!("{}.{}", self.vpi, self.vci),
            self.cells_received.to_string(),
            self.cells_delivered.to_string(),
            self.cells_answered.to_string(),
            self.cells_held.to_string(),
            sum(&self.cells_discarded).to_string(),
            self.pdus_delivered.to_string(),
            sum(&self.pdus_discarded).to_string(),
            self.sdu_octets.to_string(),
        ]
    }
}

/// The word for an AAL, as options have it.
const fn name(aal: Aal) -> &'static str {
    match aal {
        Aal::Aal0 => "aal0",
        Aal::Aal5 => "aal5",
        Aal::Aal34(_) => "aal34",
    }
}

fn list(reasons: &Reasons) -> String {
    let reasons: Vec<_> = reasons
        .iter()
        .map(|(reason, n)| format!("{reason} {n}"))
        .collect();
    reasons.join(", ")
}
