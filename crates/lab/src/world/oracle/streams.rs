//! Streams: each packet is accounted for, and played when it should be.

use super::Oracle;
use super::delays::{Crowds, impaired, stood_idle};
use crate::world::log::StreamReport;
use crate::world::scenario::{ClockSpec, FaultSpec, StreamSpec};
use crate::world::{Ps, Violation};

/// How much of an ms beyond all bounds an instant may be for what is rounded.
const SLACK: Ps = Ps::from_ns(1_000_000);

impl Oracle<'_> {
    /// S1, S2, S4: of all streams.
    pub(super) fn streams_are_right(&self) -> Result<(), Violation> {
        let streams = self.scenario.streams.iter().zip(&self.report().streams);
        for (spec, report) in streams {
            self.packets_are_accounted_for(spec, report)?;
            self.stream_is_in_time(spec, report)?;
        }
        Ok(())
    }

    fn stream_wrong(&self, spec: &StreamSpec, invariant: &str, text: String) -> Violation {
        self.wrong(invariant, format!("stream on {}: {text}", spec.connection))
    }

    /// S2: sent = released + left out + missing, and the playout says so.
    fn packets_are_accounted_for(
        &self,
        spec: &StreamSpec,
        stream: &StreamReport,
    ) -> Result<(), Violation> {
        let (player, counts) = (&stream.player, &stream.player.counts);
        let pack = u64::from(spec.pack);
        let tail = stream.sent.saturating_sub(player.passed);
        let missing = (player.missing + tail) * pack;
        let sums = [
            ("packets", stream.sent * pack, counts.packets + missing),
            ("packets", counts.packets, counts.released + counts.overruns),
            ("PDUs", counts.pdus * pack, counts.packets),
            ("lost PDUs", counts.lost_pdus, player.told_missing),
            (
                "lost packets",
                counts.lost_packets,
                player.told_missing * pack,
            ),
            ("packets left out", counts.overruns, player.overruns),
            ("late packets", counts.late, player.late),
            ("marks", counts.marked, player.marks),
            ("packets that wait", player.held as u64, 0),
            ("packets that are none", counts.not_ts + counts.errors, 0),
        ];
        for (what, here, there) in sums {
            if here != there {
                let text = format!("{here} {what}, {there} are accounted for: {counts:?}");
                return Err(self.stream_wrong(spec, "S2", text));
            }
        }
        let frames = player.display.on_time + player.display.late + player.display.missing;
        if player.display.packets != counts.released || player.display.strange > 0 {
            let text = format!("its display has {:?} in {frames} frames", player.display);
            return Err(self.stream_wrong(spec, "S2", text));
        }
        Ok(())
    }

    /// S1: where nothing takes PDUs, none is missing. S4: where the latency is long enough for all
    /// that nobody disturbs, all is in time.
    fn stream_is_in_time(&self, spec: &StreamSpec, stream: &StreamReport) -> Result<(), Violation> {
        let (player, counts) = (&stream.player, &stream.player.counts);
        if !self.is_undisturbed(player.connection as usize) {
            return Ok(());
        }
        let missing = player.missing + stream.sent.saturating_sub(player.passed);
        if missing > 0 {
            let text = format!("{missing} of {} PDUs are missing for nothing", stream.sent);
            return Err(self.stream_wrong(spec, "S1", text));
        }
        if !self.is_promised_in_time(spec, stream) {
            return Ok(());
        }
        let amiss = counts.late + counts.underruns + counts.overruns + counts.early;
        let amiss = amiss + counts.jumps + counts.restarts + counts.discontinuities;
        let amiss = amiss + counts.continuity_errors + (counts.anchors.saturating_sub(1));
        let display = &player.display;
        if amiss + display.late + display.missing > 0 {
            let text = format!("nothing disturbs it: {counts:?}, {display:?}");
            return Err(self.stream_wrong(spec, "S4", text));
        }
        let spread = |of: Option<(u64, u64)>| of.map_or(0, |(least, most)| most - least);
        let (arrived, played) = (spread(player.arrived), spread(player.played));
        let drift = self.stream_drift(spec);
        let most = drift.plus(Ps::from_ns(2 * arrived)).plus(SLACK).ns();
        if played > most {
            let text = format!("its delays differ by {played} ns, at most {most} ({arrived})");
            return Err(self.stream_wrong(spec, "S4", text));
        }
        Ok(())
    }

    /// Whether nothing can take PDUs of a stream's connection, or delay them by more than a bound.
    fn is_undisturbed(&self, n: usize) -> bool {
        let standing = self.standing(&self.senders(), n);
        let steps = self.scenario.faults.iter().any(|fault| match fault {
            FaultSpec::ClockStep { host, .. } => {
                let ends = &self.scenario.connections[n];
                [&ends.from, &ends.to].contains(&host)
            }
            _ => false,
        });
        let to = self.host(self.plan.connections[n].to);
        let path = self.plan.connections[n].path.iter();
        let waits = path.map(|line| impaired(&self.scenario.links[line / 2]));
        let waits = waits.fold(self.wait_bound(&self.crowds(), n), Ps::plus);
        // What comes so unevenly is beyond its contract, if it has one.
        let is_policed = to.policed_rate(n as u32).is_some();
        let is_uneven = is_policed && waits > to.cdvt(n as u32);
        self.is_sound(n) && !(standing.disturbed || standing.cut || steps || is_uneven)
    }

    /// Whether a stream is promised to be played in time: nothing disturbs it, and the latency is
    /// as long as its packets can need.
    pub(crate) fn is_promised_in_time(&self, spec: &StreamSpec, stream: &StreamReport) -> bool {
        let n = stream.player.connection as usize;
        let (crowds, first) = (self.crowds(), self.plan.connections[n].path[0]);
        let needs = self.stream_delay(spec, &crowds, n);
        let needs = needs.plus(self.stream_drift(spec));
        self.is_undisturbed(n)
            && crowds.lets_pass(first)
            && spec.packets_max == 0
            && needs <= Ps::from_ns(spec.latency_ns)
    }

    /// From a frame's being made to the arrival of the next one's reference, for all that has to be
    /// there then: its PDUs leave one after the other, no faster than the contract lets them.
    fn stream_delay(&self, spec: &StreamSpec, crowds: &Crowds, n: usize) -> Ps {
        let connection = &self.plan.connections[n];
        let line = self.plan.cells[connection.path[0]].rate();
        let pdu = spec.pdu_time(&connection.contract, line);
        let waits = spec.longest_wait(pdu);
        let frame = Ps::from_ns(1_000_000_000 / u64::from(spec.fps));
        let bound = self.delay_bound(crowds, n).plus(self.shaping_bound(n));
        let bound = bound.plus(stood_idle(self.scenario, &self.scenario.connections[n].to));
        bound.plus(waits).plus(frame).plus(pdu).plus(SLACK)
    }

    /// What the clocks' drift makes of the delay before it is known.
    fn stream_drift(&self, spec: &StreamSpec) -> Ps {
        let known_ns = match spec.clock {
            ClockSpec::Pcr => 20_000_000_000,
            ClockSpec::Occupancy => 60_000_000_000,
            ClockSpec::None => u64::MAX,
        };
        let span = self.scenario.duration_ns.min(known_ns);
        Ps::from_ns(span / 1_000_000 * u64::from(spec.ppm.unsigned_abs()))
    }
}
