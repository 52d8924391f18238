//! REX over what carries it: associations in cells of which some are lost, and datagrams.

use cellgate_core::Time;
use cellgate_core::upper::msna::rex::{Event, OVERHEAD, Outcome, Rex, RexConfig};
use cellgate_core::upper::msna::{
    self, Access, Association, Msdl, MsdlConfig, Msnl, MsnlConfig, Terms, To,
};

use super::world::{MS, address, config};

const MAX_BLOCK: u16 = 8160;

struct Cells;

impl Access for Cells {
    fn data_len(&self) -> Option<u8> {
        Some(46)
    }
}

struct Node {
    rex: Rex,
    msdl: Msdl,
    association: Association,
}

impl Node {
    fn new(end: usize) -> Self {
        let mut msdl = Msdl::new(MsdlConfig {
            first_vci: 40,
            circuits: 2,
            hold_ns: MS,
            timeout_ns: MS,
            queue_max: 2 * usize::from(MAX_BLOCK),
        });
        let terms = Terms {
            receives: 40 + end as u16,
            sends: 41 - end as u16,
            to: To::Channel(0),
            max_block: MAX_BLOCK,
            senders: 1,
        };
        let association = msdl.begin(Time::ZERO, &Cells, terms);
        Self {
            rex: Rex::new(RexConfig {
                fragment_max: MAX_BLOCK - OVERHEAD as u16,
                message_max: 1 << 20,
                octets_max: 1 << 20,
                ..config()
            }),
            msdl,
            association: association.expect("a free circuit"),
        }
    }

    /// The next cell: a block is asked for when the one before has left.
    fn cell(&mut self, now: Time) -> Option<(u16, [u8; 48])> {
        let mut data = [0; 48];
        let mut leaving = self.msdl.poll_cell(&mut Cells, &mut data);
        if leaving.is_none() {
            let (_, block) = self.rex.poll_out(now)?;
            let sent = self.msdl.send(&mut Cells, self.association, block);
            sent.expect("no block waits");
            leaving = self.msdl.poll_cell(&mut Cells, &mut data);
        }
        leaving.map(|leaving| (leaving.vci, data))
    }

    fn take(&mut self, now: Time, peer: usize, (vci, data): (u16, [u8; 48])) {
        self.msdl.handle_cell(now, &mut Cells, vci, &data);
        while let Some(received) = self.msdl.poll_received() {
            self.rex.handle(now, address(peer), &received.block);
            self.msdl.recycle(received);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let ends = [self.rex.next_deadline(), self.msdl.next_deadline()];
        ends.into_iter().flatten().min()
    }

    fn handle_deadline(&mut self, now: Time) {
        self.rex.handle_deadline(now);
        self.msdl.handle_deadline(now);
    }
}

#[test]
fn a_mebibyte_crosses_an_association_that_loses_cells() {
    let (mut one, mut other) = (Node::new(0), Node::new(1));
    let octets: Vec<_> = (0..1_u32 << 20).map(|at| (at >> 3) as u8).collect();
    let mut now = Time::from_ns(1);
    let call = one.rex.call(now, address(1), octets.clone()).unwrap();
    let (mut cells, mut lost) = (0_u32, 0);
    let event = loop {
        let there = one.cell(now);
        let back = other.cell(now);
        if there.is_none() && back.is_none() {
            let next = [one.deadline(), other.deadline()];
            now = now.max(next.into_iter().flatten().min().unwrap());
            one.handle_deadline(now);
            other.handle_deadline(now);
        }
        now = now.plus_ns(700);
        for (cell, to, from) in [(there, &mut other, 0), (back, &mut one, 1)] {
            let Some(cell) = cell else {
                continue;
            };
            cells += 1;
            if cells.is_multiple_of(2999) {
                lost += 1;
            } else {
                to.take(now, from, cell);
            }
        }
        if let Some(Event::Called { exchange, octets }) = other.rex.poll_event() {
            other.rex.reply(now, exchange, octets).unwrap();
        }
        if let Some(event) = one.rex.poll_event() {
            break event;
        }
    };
    let outcome = Outcome::Reply(octets);
    assert_eq!(event, Event::Ended { call, outcome });
    assert!(lost > 10, "{lost} of {cells}");
}

#[test]
fn a_call_crosses_in_datagrams() {
    let now = Time::from_ns(1);
    let node = |end| {
        let msnl = Msnl::new(MsnlConfig {
            host: address(end).host,
            incarnation: 1,
            retry_ns: MS,
            tries: 3,
            waiting_max: 1,
            hosts_max: 2,
        });
        (Rex::new(config()), msnl)
    };
    let mut nodes = [node(0), node(1)];
    let call = nodes[0].0.call(now, address(1), vec![5; 500]).unwrap();
    let mut outcomes = Vec::new();
    while outcomes.is_empty() {
        for end in [0, 1] {
            let (rex, msnl) = &mut nodes[end];
            while let Some((to, block)) = rex.poll_out(now) {
                msnl.datagram(address(end).sap, to, block);
            }
            while let Some((_, block)) = nodes[end].1.poll_out() {
                let (rex, msnl) = &mut nodes[1 - end];
                msnl.handle(now, &block);
                while let Some(event) = msnl.poll_event() {
                    if let msna::Event::Datagram { from, octets, .. } = event {
                        rex.handle(now, from, &octets);
                    }
                }
                while let Some(event) = rex.poll_event() {
                    match event {
                        Event::Called { exchange, octets } => {
                            rex.reply(now, exchange, octets).unwrap();
                        }
                        event => outcomes.push(event),
                    }
                }
            }
        }
    }
    let outcome = Outcome::Reply(vec![5; 500]);
    assert_eq!(outcomes, [Event::Ended { call, outcome }]);
}
