//! How long a PDU may take that nothing disturbs: what waits before it on its way, and the steps
//! and the wake-up that it waits for where it is received.

use cellgate_core::adapter::Notification;

use super::Oracle;
use crate::world::host::{shaped_late, transmit_fifo};
use crate::world::plan::Connection;
use crate::world::scenario::{FaultSpec, LinkSpec, Scenario, Traffic};
use crate::world::topology::Place;
use crate::world::{Interval, Ps};

/// Cells that can wait before a host's line whose sources are together as fast as it, or faster.
const CROWD: u64 = 256;
/// Steps from a cell's arrival to the interrupt that tells of it, or from an SDU's doorbell to its
/// first cell: the one that is due, and one that was left out and is made up for.
const STEPS: u64 = 2;

/// For how long in all the clients of a host are not run.
pub(super) fn stood_idle(scenario: &Scenario, host: &str) -> Ps {
    let stalls = scenario.faults.iter().map(|fault| match fault {
        FaultSpec::HostStall {
            host: at, for_ns, ..
        } if at == host => *for_ns,
        _ => 0,
    });
    Ps::from_ns(stalls.fold(0, u64::saturating_add))
}

/// How much longer than it would a cell can take on a line that is impaired.
pub(super) fn impaired(link: &LinkSpec) -> Ps {
    let Some(line) = link.line else {
        return Ps::ZERO;
    };
    let waits = line.bottleneck.map_or(Ps::ZERO, |neck| {
        Interval::of_rate(neck.rate).times(neck.queue.into())
    });
    Ps::from_ns(line.delay_ns.saturating_add(line.jitter_ns)).plus(waits)
}

impl Oracle<'_> {
    /// The longest that a PDU of a connection takes that nothing disturbs but short stalls of its
    /// receiver: from its last cell's being sent, or, where an adapter sends it, from when the
    /// shaper is to have sent that.
    pub(super) fn delay_bound(&self, crowds: &Crowds, n: usize) -> Ps {
        let Connection { to, path, .. } = &self.plan.connections[n];
        let mut bound = self.wait_bound(crowds, n);
        for line in path {
            let own = self.plan.cells[*line];
            let delay = Ps::from_ns(self.scenario.links[line / 2].delay_ns);
            bound = bound.plus(delay).plus(own.times(1));
            bound = bound.plus(impaired(&self.scenario.links[line / 2]));
            // A cell that another overtakes has that one's place, which may have been ready until
            // the first arrived.
            let late = delay.plus(own.times(2));
            let swapped = self.report().lines[*line].counts.swapped;
            bound = bound.plus(Ps::new(late.ps().saturating_mul(swapped)));
        }
        let host = &self.scenario.hosts[*to];
        let told = match self.scenario.connections[n].notification {
            // That it has been silent for too long is noticed by a step.
            Notification::Silent {
                longest_delay_ns, ..
            } => longest_delay_ns.saturating_add(host.step_ns),
            Notification::Polled | Notification::FirstCell => return Ps::MAX,
            _ => 0,
        };
        let stalls = self.scenario.faults.iter().map(|fault| match fault {
            FaultSpec::AdapterStall {
                host: at, for_ns, ..
            } if *at == host.name => *for_ns,
            _ => 0,
        });
        // What has come meanwhile is taken but little faster than what comes.
        let stalled = stalls.fold(0, u64::saturating_add);
        let late = host.step_ns.saturating_mul(STEPS);
        let late = late.saturating_add(host.wake_up_ns).saturating_add(told);
        bound.plus(Ps::from_ns(late.saturating_add(stalled)))
    }

    /// The longest that a cell of a connection waits behind others on its way.
    pub(super) fn wait_bound(&self, crowds: &Crowds, n: usize) -> Ps {
        let path = self.plan.connections[n].path.iter().enumerate();
        let waits = path.map(|(nth, line)| {
            let queue = match self.plan.places[line ^ 1] {
                Place::Switch { switch, .. } if nth > 0 => self.most_waiting(switch, *line),
                _ => crowds.of(*line),
            };
            self.plan.cells[*line].times(queue)
        });
        waits.fold(Ps::ZERO, Ps::plus)
    }

    /// How much later than planned a shaper sends a PDU's last cell: a step hears of it and another
    /// sends it, what all VCs of the line can make good may come before it, and it waits while each
    /// step begins and sends as much as it may, and while the adapter rests.
    pub(super) fn shaping_bound(&self, n: usize) -> Ps {
        let Connection { from, path, .. } = &self.plan.connections[n];
        let (cells, full) = self.host(*from).before(path[0]);
        let step_ns = self.scenario.hosts[*from].step_ns;
        let steps = step_ns.saturating_mul(STEPS + full);
        let shaped = Ps::from_ns(steps).plus(self.plan.cells[path[0]].times(cells));
        shaped.plus(self.rest_bound(n))
    }

    /// How late a connection's cells leave because the adapter that shapes them rests.
    pub(super) fn rest_bound(&self, n: usize) -> Ps {
        let Connection {
            from,
            path,
            contract,
            ..
        } = &self.plan.connections[n];
        let cdvt_ns = contract.transmit.and_then(|transmit| transmit.cdvt_ns);
        let cdvt = Ps::from_ns(cdvt_ns.unwrap_or(0));
        shaped_late(
            &self.scenario.hosts[*from],
            self.plan.cells[path[0]],
            Some(cdvt),
        )
    }

    /// The most cells that have waited at the output of a switch before this line.
    fn most_waiting(&self, switch: usize, line: usize) -> u64 {
        let counts = &self.report().switches[switch].outputs;
        let of_line = self.plan.outputs_of(switch).zip(counts);
        let mut of_line = of_line.filter(|(behind, _)| *behind == line);
        of_line.next().map_or(0, |(_, counts)| counts.most)
    }

    /// How many cells can wait before each line of a host.
    pub(super) fn crowds(&self) -> Crowds {
        let mut crowds = Crowds(vec![Crowd::default(); self.plan.cells.len()]);
        for (spec, source) in self.scenario.sources.iter().zip(&self.plan.sources) {
            let line = self.plan.cell_s(source.line);
            let cell_s = match spec.traffic {
                Traffic::Paced { cell_s }
                | Traffic::OnOff { cell_s, .. }
                | Traffic::Scan { cell_s } => Some(u64::from(cell_s)),
                Traffic::Greedy | Traffic::Cells(_) => None,
            };
            let crowd = &mut crowds.0[source.line];
            crowd.in_all += cell_s.unwrap_or(line);
            crowd.is_over = crowd.in_all > line;
            if source.is_by_adapter() {
                let host = self.plan.connections[source.connection as usize].from;
                crowd.by_adapter = transmit_fifo(&self.scenario.hosts[host]);
            } else {
                crowd.by_line += 1;
                crowd.cell_s += cell_s.unwrap_or(line);
                crowd.is_fast |= cell_s.is_none() || crowd.cell_s > line;
            }
        }
        let streams = self.plan.connections.iter();
        for connection in streams.filter(|connection| connection.stream.is_some()) {
            let line = connection.path[0];
            let transmit = connection.contract.transmit.unwrap_or_default();
            let rate = transmit.pace(self.plan.cells[line].rate());
            let crowd = &mut crowds.0[line];
            crowd.in_all += u64::from(rate.cell_s());
            crowd.is_over = crowd.in_all > self.plan.cell_s(line);
            crowd.by_adapter = transmit_fifo(&self.scenario.hosts[connection.from]);
        }
        crowds
    }
}

/// What can wait before one line.
#[derive(Clone, Copy, Debug, Default)]
struct Crowd {
    /// Cells that its host's adapter may put there.
    by_adapter: u64,
    /// One of each source that puts cells there itself.
    by_line: u64,
    /// Cells per second of these together.
    cell_s: u64,
    /// They can be as fast as the line, or faster.
    is_fast: bool,
    /// Cells per second of all that is to be sent there, and that this is more than the line has.
    in_all: u64,
    is_over: bool,
}

/// For each line, what can wait before it.
#[derive(Debug)]
pub(super) struct Crowds(Vec<Crowd>);

impl Crowds {
    fn of(&self, line: usize) -> u64 {
        let crowd = &self.0[line];
        match crowd.is_fast {
            true => CROWD,
            false => crowd.by_adapter + crowd.by_line,
        }
    }

    /// Whether all that is to be sent on a line has room there.
    pub(super) fn lets_pass(&self, line: usize) -> bool {
        !self.0[line].is_over
    }
}
