//! The two networks of sections 5 and 6: the ring, and an Ethernet under the same MSDL.

use cellgate_report::{Rational, dec};

use super::{
    Destination, END, Error, Model, Network, Notify, Parameter, Script, Settings, To, ps, us,
};
use crate::machine::ethernet::{Attachment, EtherSpec, Segment};
use crate::machine::v1s::Application;
use crate::world::Ps;

pub(super) const WORD: Parameter = Parameter::number(
    "ether_word_ns",
    "what a word costs the host of an Ethernet, ns (calibrated)",
    Rational::new(EtherSpec::WORD.ps() as i128, 1_000),
    (dec("0"), dec("3000")),
);
pub(super) const START: Parameter = Parameter::number(
    "ether_start_us",
    "what an Ethernet's interface takes to start, us (calibrated)",
    Rational::new(EtherSpec::START.ps() as i128, 1_000_000),
    (dec("0"), dec("2000")),
);
pub(super) const PARAMETERS: &[Parameter] = &super::and::<2, 9>([WORD, START]);

/// A network of two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Ring,
    Ethernet,
}

/// The hosts of either network.
#[derive(Clone, Copy)]
pub(super) struct Wires {
    model: Model,
    ether: EtherSpec,
}

impl Wires {
    pub(super) fn new(settings: &Settings) -> Self {
        let ether = EtherSpec {
            word: ps(settings.number("ether_word_ns")),
            start: ps(settings.number("ether_start_us") * dec("1000")),
            ..EtherSpec::PAPER
        };
        let model = Model::new(settings);
        Self { model, ether }
    }

    /// Runs two applications until `is_done` of the first: both, and when that was.
    pub(super) fn run<A: Application + Clone>(
        &self,
        wire: Wire,
        applications: [A; 2],
        is_done: impl Fn(&A) -> bool,
    ) -> Result<([A; 2], Ps), Error> {
        let (applications, now) = match wire {
            Wire::Ring => {
                let seats = (1..).zip(self.model.seats(applications));
                let seats = seats.map(|(vci, mut seat)| {
                    seat.circuits = vec![(vci, Notify::Every)];
                    seat
                });
                let mut network = Network::new(self.model.ring, seats.collect());
                network.run(END, |network| is_done(network.hosts()[0].application()));
                let of = |n: usize| network.hosts()[n].application().clone();
                ([of(0), of(1)], network.now())
            }
            Wire::Ethernet => {
                let attach = |(vci, application)| Attachment {
                    costs: self.model.host.costs,
                    circuits: vec![vci],
                    application,
                };
                let attached = (1..).zip(applications).map(attach);
                let mut segment = Segment::new(self.ether, attached.collect());
                segment.run(END, |segment| is_done(segment.hosts()[0].application()));
                let of = |n: usize| segment.hosts()[n].application().clone();
                ([of(0), of(1)], segment.now())
            }
        };
        match now < END {
            true => Ok((applications, now)),
            false => Err(Error::new("the network stands still")),
        }
    }

    /// The time of a ping of so many octets, in microseconds.
    pub(super) fn ping(&self, wire: Wire, octets: usize) -> Result<Rational, Error> {
        let scripts = [
            Script::pings(to(1, octets), 1),
            Script::answers(to(0, octets)),
        ];
        let ([one, other], came) = self.run(wire, scripts, |script| !script.received.is_empty())?;
        match one.wrong + other.wrong {
            0 => Ok(us(came)),
            _ => Err(Error::new("a block has come with other octets")),
        }
    }
}

/// To host `n`, in blocks of so many octets.
pub(super) const fn to(n: u8, octets: usize) -> Destination {
    Destination {
        vci: n as u16 + 1,
        to: To::Channel(n),
        octets,
    }
}
