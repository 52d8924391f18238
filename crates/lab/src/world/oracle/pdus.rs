//! PDUs: those that come are those that were sent, and those that must come do, in time.

use cellgate_core::contract::{Aal, CellRate, TrafficDescriptor};

use super::Oracle;
use super::delays::{Crowds, stood_idle};
use super::standing::Standing;
use crate::world::check::is_shaped_at_once;
use crate::world::incident::SETTLED;
use crate::world::scenario::FaultSpec;
use crate::world::{Interval, Ps, Violation};

impl Oracle<'_> {
    /// I3, I4, I6, I7, I9, I21.
    pub(super) fn pdus_are_right(&self) -> Result<(), Violation> {
        let senders = self.senders();
        let crowds = self.crowds();
        for n in 0..self.plan.connections.len() {
            let standing = self.standing(&senders, n);
            self.pdus_are_of_sender(n, standing)?;
            self.pdus_are_there(&crowds, n, standing)?;
        }
        Ok(())
    }

    /// I3: a PDU that is delivered is one that was sent. I4: in order, and once. Both but for
    /// single-cell PDUs that a fault has put there, which AAL5 cannot tell.
    fn pdus_are_of_sender(&self, n: usize, standing: Standing) -> Result<(), Violation> {
        let (connection, tally) = self.connection(n);
        let pdus = &tally.pdus;
        // A cell of AAL0 has no CRC: neither damage shows, nor that somebody has made it up.
        let blind = connection.contract.aal == Some(Aal::Aal0);
        let known = !(standing.lawless || blind && standing.mixed);
        let Some(sender) = connection.sender.filter(|_| known) else {
            return Ok(());
        };
        let name = &connection.name;
        let inserted = self.report().lines.iter().map(|line| {
            let faults = line.counts.faults;
            let damaged = if blind { faults.payload_errors } else { 0 };
            let inserted = faults.inserted + faults.header_errors + damaged;
            (inserted, faults.duplicated)
        });
        let (inserted, duplicated) = inserted.fold((0, 0), |(a, b), (inserted, twice)| {
            (a + inserted, b + twice)
        });
        // What a fault has put there can be doubled further on.
        let doubled = if inserted > 0 { duplicated } else { 0 };
        if pdus.strangers + pdus.misfits > inserted + doubled {
            let strange = pdus.strangers + pdus.misfits;
            let text = format!("connection {name}: {strange} PDUs that nobody sent");
            return Err(self.wrong("I3", text));
        }
        if pdus.repeated > duplicated + inserted {
            let text = format!("connection {name}: {} PDUs came again", pdus.repeated);
            return Err(self.wrong("I4", text));
        }
        let sent = self.report().sources[sender].begun;
        if pdus.delivered > sent + duplicated + inserted {
            let text = format!("connection {name}: {} of {sent} PDUs came", pdus.delivered);
            return Err(self.wrong("I3", text));
        }
        Ok(())
    }

    /// Whether a new adapter of the sender may have sent all of a burst, while the reader's still
    /// counts the one before.
    fn has_burst_again(&self, n: usize) -> bool {
        let contract = &self.plan.connections[n].contract;
        let of_burst = |receive: TrafficDescriptor| receive.burst_tolerance_ns(CellRate::OC3);
        let from = &self.scenario.connections[n].from;
        let crashes =
            |fault: &_| matches!(fault, FaultSpec::AdapterCrash { host, .. } if host == from);
        contract.receive.map_or(0, of_burst) > SETTLED.ns()
            && self.scenario.faults.iter().any(crashes)
    }

    /// I6: what conforms and is not disturbed arrives, I7: in time. I9: what floods keeps its
    /// contract. I21: after the healing, all is well.
    fn pdus_are_there(
        &self,
        crowds: &Crowds,
        n: usize,
        standing: Standing,
    ) -> Result<(), Violation> {
        let (connection, tally) = self.connection(n);
        // What a server opens it promises by itself.
        let is_served = self.plan.serves(connection.from, n as u32);
        let is_ours = connection.is_open && !is_served;
        let Some(sender) = connection.sender.filter(|_| is_ours) else {
            return Ok(());
        };
        let (name, pdus) = (&connection.name, &tally.pdus);
        let sent = self.report().sources[sender].sent;
        let no_room = self.found_no_room(n);
        let passed = no_room == 0;
        let met = self.is_met(n);
        let quiet = !(standing.crowded
            || standing.lawless
            || standing.gave_way
            || standing.cut
            || standing.untold
            || self.came_too_close(n));
        let sound = passed && !met && !standing.disturbed && quiet;
        if standing.conforms && sound {
            let missing = pdus.missing(sent);
            if missing > 0 {
                let text = format!("connection {name}: {missing} of {sent} PDUs did not arrive");
                return Err(self.wrong("I6", text));
            }
            self.pdus_are_in_time(crowds, n, sender)?;
        }
        // Whoever writes where it should not harms itself alone, and that is promised nothing.
        let flooded = !(standing.conforms
            || standing.lawless
            || standing.mixed
            || standing.modified
            || standing.untold);
        if flooded && passed && !met && !standing.disturbed && !standing.gave_way {
            self.flooded_keeps_contract(crowds, n, sender)?;
        }
        // Who is held for longer than that pays for it in what comes after the healing.
        let heal = Ps::from_ns(self.scenario.heal_ns);
        let healed = self.plan.opened.plus(heal.plus(SETTLED));
        let mut path = connection.path.iter();
        let held = path.any(|line| self.report().lines[*line].held_until > healed);
        let settles = standing.conforms && quiet && !held && !self.has_burst_again(n);
        let Some(settled) = pdus.settled.filter(|_| settles) else {
            return Ok(());
        };
        let due = sent.saturating_sub(settled.from);
        let untouched = no_room == settled.no_room;
        // Of a PDU that a fault cut short the reader may still hold cells: the next is lost with
        // them, however late it comes.
        if untouched && settled.delivered + 1 < due {
            let came = settled.delivered;
            let text = format!("connection {name}: after the healing {came} of {due} PDUs came");
            return Err(self.wrong("I21", text));
        }
        Ok(())
    }

    /// I7: no PDU takes longer than it may, if its adapter can begin it when it is handed over.
    fn pdus_are_in_time(&self, crowds: &Crowds, n: usize, sender: usize) -> Result<(), Violation> {
        let (connection, tally) = self.connection(n);
        let (name, pdus) = (&connection.name, &tally.pdus);
        let source = &self.plan.sources[sender];
        let bound = self.delay_bound(crowds, n);
        let to = &self.scenario.connections[n].to;
        let mut bound = bound.plus(stood_idle(self.scenario, to));
        if source.is_by_adapter() {
            if !crowds.lets_pass(source.line) || !self.is_shaped_at_once(n, sender) {
                return Ok(());
            }
            let shaped = source.shaping().plus(self.shaping_bound(n));
            bound = bound.plus(shaped);
        }
        if pdus.latency.most > bound.ps() {
            let (most, bound) = (Ps::new(pdus.latency.most).ns(), bound.ns());
            let text = format!("connection {name}: a PDU took {most} ns, bound {bound} ns");
            return Err(self.wrong("I7", text));
        }
        Ok(())
    }

    /// Whether what an adapter is handed conforms to what it shapes to, and that lets it make good
    /// what passes from step to step.
    fn is_shaped_at_once(&self, n: usize, sender: usize) -> bool {
        let (connection, _) = self.connection(n);
        let cell = self.plan.cells[self.plan.sources[sender].line];
        let step = Ps::from_ns(self.scenario.hosts[connection.from].step_ns);
        let step = step.plus(self.rest_bound(n));
        let span = (self.scenario.duration_ns, step);
        let spec = &self.scenario.sources[sender];
        is_shaped_at_once(spec, &connection.contract, cell, span)
    }

    /// A VC that is flooded with whole PDUs gets what its contract says, but for one at each end,
    /// and for what comes too late to be in time for the next: who tolerates less than cells wait
    /// on their way, and for each other, loses that.
    fn flooded_keeps_contract(
        &self,
        crowds: &Crowds,
        n: usize,
        sender: usize,
    ) -> Result<(), Violation> {
        let ((connection, tally), number) = (self.connection(n), n as u32);
        let (source, reader) = (&self.plan.sources[sender], self.host(connection.to));
        let policed = reader.policed_rate(number).map(Interval::of_rate);
        let Some((due, gap)) = policed.zip(source.steady()) else {
            return Ok(());
        };
        let (start, stop) = self.scenario.sources[sender].span(self.scenario.duration_ns);
        let span = stop.since(start);
        let (shortest, longest) = (source.shortest_pdu(), source.longest_pdu());
        let between = gap.times(longest * source.at_once());
        // A cell of AAL0 is judged alone, of others a PDU, which may come all at once.
        let at_once = match connection.contract.aal {
            Some(Aal::Aal0) => Ps::ZERO,
            _ => due.times(longest),
        };
        let tolerated = reader.cdvt(number).plus(at_once);
        let late = between.plus(self.wait_bound(crowds, n)).since(tolerated);
        let each = due.times(shortest).plus(late).ps().max(1);
        let due = span.ps() / each * shortest;
        let got = tally.pdus.cells;
        if self.report().sources[sender].cells >= due && got + 3 * longest < due {
            let name = &connection.name;
            let text = format!("connection {name}: {got} cells of a contract for {due} came");
            return Err(self.wrong("I9", text));
        }
        Ok(())
    }
}
