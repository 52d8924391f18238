//! The verdict, in words for somebody who sees this for the first time.

use cellgate_report::grouped;

use crate::flood::plan::HAZARD;
use crate::flood::report::{PhaseReport, million};
use crate::live::verdict::Verdict;

/// That of all phases.
pub(super) fn of(phases: &[PhaseReport], shared_port: bool) -> Verdict {
    let (void, sound): (Vec<_>, Vec<_>) =
        phases.iter().partition(|phase| phase.void_reason.is_some());
    let broken = |phase: &&PhaseReport| !phase.more.faults.is_empty();
    let broken: Vec<String> = sound.iter().copied().filter(broken).map(faults).collect();
    if !broken.is_empty() {
        return Verdict::Fail(broken.join("; "));
    }
    if let Some(phase) = void.first() {
        let reason = phase.void_reason.as_deref().unwrap_or_default();
        return Verdict::Void(format!(
            "{} said nothing in {} tries, the last time because {reason}",
            phase.name, phase.tries
        ));
    }
    Verdict::Pass(match shared_port {
        true => shared(&sound),
        false => protected(&sound),
    })
}

fn faults(phase: &PhaseReport) -> String {
    format!("{}: {}", phase.name, phase.more.faults.join(", "))
}

fn sum(phases: &[&PhaseReport], of: impl Fn(&PhaseReport) -> u64) -> u64 {
    phases.iter().map(|phase| of(phase)).sum()
}

/// Guaranteed PDUs delivered, and sent.
pub(super) fn guaranteed(phase: &PhaseReport) -> (u64, u64) {
    let both = phase.connections.iter().take(HAZARD);
    both.fold((0, 0), |(delivered, sent), c| {
        (delivered + c.delivered_pdus, sent + c.sent_pdus)
    })
}

fn hostile_cell_s(phases: &[&PhaseReport]) -> u64 {
    let rates = phases.iter().map(|phase| phase.more.discarded_cell_s);
    rates.max().unwrap_or(0)
}

fn protected(phases: &[&PhaseReport]) -> String {
    let events = sum(phases, |phase| phase.host.events);
    let delivered = sum(phases, PhaseReport::delivered);
    format!(
        "two guaranteed connections delivered {} of {} PDUs, every octet right, while up to {} \
         hostile cells/s were discarded on the adapter. The host had {} events for {} delivered \
         PDUs: {} beyond these.",
        grouped(sum(phases, |phase| guaranteed(phase).0)),
        grouped(sum(phases, |phase| guaranteed(phase).1)),
        million(hostile_cell_s(phases)),
        grouped(events),
        grouped(delivered),
        grouped(events - delivered),
    )
}

/// On one port nobody can protect a connection from what the port itself loses: this says when it
/// began to.
fn shared(phases: &[&PhaseReport]) -> String {
    let lost = |phase: &PhaseReport| -> u64 { phase.more.damaged_pdus.iter().take(HAZARD).sum() };
    let hurt = phases.iter().find(|phase| lost(phase) > 0);
    let capacity = million(hostile_cell_s(phases));
    let total = sum(phases, lost);
    match hurt {
        None => format!(
            "on one port, nothing of the guaranteed connections was lost; the adapter discarded up \
             to {capacity} hostile cells/s, all that the senders sent."
        ),
        Some(phase) => format!(
            "on one port, the flood made the port overflow: {} guaranteed PDUs were damaged on it \
             before the adapter saw them, first in {} ({} hostile cells/s discarded there, longest \
             gap {:.1} ms). The adapter discarded up to {capacity} hostile cells/s, and delivered \
             every guaranteed PDU that the port left whole.",
            grouped(total),
            phase.name,
            million(phase.more.discarded_cell_s),
            phase.gaps.max_ns as f64 / 1e6,
        ),
    }
}
