//! What the service thread has of ports: their ends, and what they count.

use std::sync::Arc;

use cellgate_core::adapter::{PortIndex, PortStats};
use cellgate_core::keeper::{
    Answer, ControlError, MeetingReport, PORTS_MAX, PortReport, UdpReport,
};
use cellgate_core::line::LineCounts;

use super::sources::RestBell;
use crate::link::{QueueCounters, Shown};

/// One end of a port.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) counters: Arc<QueueCounters>,
    /// Of who sends into it.
    pub(super) _bell: Option<RestBell>,
}

/// What the process has of a port.
#[derive(Debug, Default)]
pub(super) struct Port {
    pub(super) receive: End,
    pub(super) transmit: End,
    /// Of the last pseudowire that it had: receiving and transmitting end.
    pub(super) pseudowire: Option<[Arc<Shown<UdpReport>>; 2]>,
    /// Cells of no VC that it has received.
    pub(super) strays: Arc<Shown<PortStats>>,
    /// Of the line on which it receives, if that is impaired.
    pub(super) line: Option<Arc<Shown<LineCounts>>>,
}

impl Port {
    /// What its pseudowire has counted at both ends; none: it has none.
    pub(super) fn pseudowire_report(&self) -> Option<UdpReport> {
        let [receive, transmit] = self.pseudowire.as_ref()?;
        let (receive, transmit) = (receive.read(), transmit.read());
        Some(UdpReport {
            sent_datagrams: transmit.sent_datagrams,
            sent_cells: transmit.sent_cells,
            send_calls: transmit.send_calls,
            send_errors: transmit.send_errors,
            dropped_cells: transmit.dropped_cells,
            foreign_cells: transmit.foreign_cells,
            refusals: transmit.refusals,
            last_refusal: transmit.last_refusal,
            ..receive
        })
    }

    /// What it has counted in all.
    fn report(&self, meeting: Option<MeetingReport>) -> PortReport {
        PortReport {
            receive: self.receive.counters.report(),
            transmit: self.transmit.counters.report(),
            strays: self.strays.read(),
            pseudowire: self.pseudowire_report(),
            line: self.line.as_ref().map(|line| line.read()),
            meeting,
        }
    }
}

/// What becomes of a port when the firmware has what it was sent.
pub(super) enum NewEnds {
    One {
        transmit: bool,
        end: End,
    },
    Pseudowire([End; 2], [Arc<Shown<UdpReport>>; 2], Box<Answer>),
    /// Those of a link to another server's adapter.
    Met([End; 2]),
    /// None, and where it counts what it drops.
    Nothing(End),
    Line(Option<Arc<Shown<LineCounts>>>),
}

/// All ports.
pub(super) struct Ports(pub(super) Vec<Port>);

impl Ports {
    pub(super) fn get(&self, port: PortIndex) -> Result<&Port, ControlError> {
        let port = self.0.get(usize::from(port.0));
        port.ok_or(ControlError::NotYours)
    }

    /// Puts the ends of a port in place; what is answered.
    pub(super) fn change(&mut self, port: PortIndex, new: NewEnds) -> Answer {
        let Some(port) = self.0.get_mut(usize::from(port.0)) else {
            return Answer::Done;
        };
        match new {
            NewEnds::One {
                transmit: true,
                end,
            } => port.transmit = end,
            NewEnds::One { end, .. } => port.receive = end,
            NewEnds::Pseudowire([receive, transmit], shown, answer) => {
                (port.receive, port.transmit) = (receive, transmit);
                port.pseudowire = Some(shown);
                return *answer;
            }
            NewEnds::Met([receive, transmit]) => {
                (port.receive, port.transmit) = (receive, transmit);
            }
            NewEnds::Nothing(line) => {
                (port.receive, port.transmit) = (End::default(), line);
                port.pseudowire = None;
            }
            NewEnds::Line(counters) => port.line = counters,
        }
        Answer::Done
    }

    /// What ports have counted, from one on; `meeting` tells how each has met another server's.
    pub(super) fn reports(
        &self,
        from: PortIndex,
        meeting: impl Fn(PortIndex) -> Option<MeetingReport>,
    ) -> Answer {
        let ports = (0..).map(PortIndex).zip(&self.0);
        let ports = ports.skip(from.0.into()).take(PORTS_MAX);
        Answer::Ports(ports.map(|(at, port)| port.report(meeting(at))).collect())
    }
}
