//! Kernels at both ends of a line of cells: each variant moves the file, within the bounds of a
//! step, and is charged for what it does more than another.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::aal::tree::Tree;
use cellgate_core::contract::{Aal, CellRate};
use cellgate_core::terminal::{
    Arq, Board, CellPayload, Copies, Crc, DiskHeader, Events, Exchange, ExchangeTerms, Kernel,
    RateTimer, STEP_CELLS, STEP_MESSAGES, Source, Split, Stepped, Store, TickCells, Variant, Work,
};
use cellgate_simd::{Fold, Level, with_level};
use rand_pcg::Pcg64Mcg;

use super::terminal_stack::random;

struct File(Arc<Vec<u8>>);

impl Source for File {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0[at as usize..][..into.len()]);
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        at..end
    }
}

struct Placed {
    octets: Vec<u8>,
    written: u64,
}

impl Store for Placed {
    fn write(&mut self, at: u64, octets: &[u8]) {
        self.octets[at as usize..][..octets.len()].copy_from_slice(octets);
        self.written += octets.len() as u64;
    }
}

/// An end of a line, which takes as many cells at a time as it has room for.
#[derive(Default)]
struct End {
    came: VecDeque<CellPayload>,
    goes: VecDeque<CellPayload>,
    room: usize,
    charged: BTreeMap<Work, u64>,
}

impl Board for End {
    fn receive(&mut self) -> Option<CellPayload> {
        self.came.pop_front()
    }

    fn transmit(&mut self, cell: &CellPayload) -> bool {
        let is_taken = self.goes.len() < self.room;
        if is_taken {
            self.goes.push_back(*cell);
        }
        is_taken
    }

    fn charge(&mut self, work: Work, times: u64) {
        *self.charged.entry(work).or_default() += times;
    }
}

type Ends = Exchange<File, Placed>;

struct Step<'a>(&'a mut Kernel, Time, &'a mut Ends, &'a mut End);

impl cellgate_simd::Kernel for Step<'_> {
    type Output = Stepped;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Stepped {
        self.0.step(fold, self.1, self.2, self.3)
    }
}

const LEN: usize = 200_000;
const RATE: u32 = 353_207;

/// What both boards were charged, octets that the receiver wrote, and how long it took.
fn run(aal: Aal, variant: Variant, burst: u32) -> ([BTreeMap<Work, u64>; 2], u64, Time) {
    let tree = Arc::new(Tree::new(aal, DiskHeader::LENGTHS).unwrap());
    let octets = Arc::new(random(&mut Pcg64Mcg::new(1), LEN));
    let mut exchanges = [true, false].map(|begins| {
        let terms = ExchangeTerms {
            run: 1 + u32::from(begins),
            arq: Arq::Selective,
            window_pdus: 64,
            window: 100_000,
            pdu_len: 1_984,
            begins,
        };
        Ends::new(Time::ZERO, terms, &tree).unwrap()
    });
    let rate = CellRate::new(RATE).unwrap();
    let timer = || Some(RateTimer::new(Time::ZERO, rate, burst, 1_000));
    let mut kernels = [0, 1].map(|_| Kernel::new(variant, timer()));
    let mut boards = [0, 1].map(|_| End {
        room: 40,
        ..End::default()
    });
    let mut now = Time::ZERO;
    let mut is_begun = false;
    for _ in 0..2_000_000 {
        now = now.plus_ns(10_000);
        for end in 0..2 {
            let (kernel, exchange) = (&mut kernels[end], &mut exchanges[end]);
            if exchange.next_deadline().is_some_and(|due| due <= now) {
                kernel.time_out();
            }
            let stepped = with_level(
                Level::Baseline,
                Step(kernel, now, exchange, &mut boards[end]),
            );
            let bound = if variant.events == Events::Queue {
                STEP_MESSAGES
            } else {
                STEP_CELLS
            };
            assert!(stepped.received as usize <= bound, "{stepped:?}");
            let sent = boards[end].goes.drain(..).collect::<Vec<_>>();
            boards[1 - end].came.extend(sent);
        }
        let [sender, receiver] = &mut exchanges;
        if !is_begun && sender.is_established() && receiver.is_established() {
            is_begun = true;
            let placed = Placed {
                octets: vec![0; LEN],
                written: 0,
            };
            let all = (0, LEN as u64);
            assert!(receiver.receive(now, 1, all, LEN as u64, placed));
            let split = Split {
                pdu_len: 1_984,
                disk_len: Some(1 << 16),
                file_len: Some(LEN as u64),
            };
            sender.send(1, all, 100_000, split, File(octets.clone()));
        }
        while receiver.poll_event().is_some() {}
        if is_begun && sender.outgoing(1).unwrap().is_finished() {
            let placed = receiver.end_receive(1).unwrap();
            assert!(placed.octets == *octets, "{aal:?} {variant:?}");
            assert!(kernels.iter().all(|kernel| kernel.lost() == 0));
            return (boards.map(|board| board.charged), placed.written, now);
        }
    }
    panic!("{aal:?} {variant:?}: it never ends");
}

fn variants() -> impl Iterator<Item = Variant> {
    let events = [Events::Flags, Events::Queue];
    let copies = [Copies::None, Copies::Sar, Copies::All];
    events.into_iter().flat_map(move |events| {
        copies.map(|copies| Variant {
            events,
            copies,
            ..Variant::default()
        })
    })
}

#[test]
fn each_variant_moves_the_file_and_writes_each_octet_of_it_once() {
    for aal in [Aal::Aal5, Aal::Aal34] {
        for variant in variants() {
            let (_, written, _) = run(aal, variant, 8);
            assert_eq!(written, LEN as u64, "{aal:?} {variant:?}");
        }
    }
}

#[test]
fn copies_between_layers_are_three_more_for_each_octet_of_payload_and_none_with_the_tree() {
    for aal in [Aal::Aal5, Aal::Aal34] {
        let copied = |copies| {
            let variant = Variant {
                copies,
                ..Variant::default()
            };
            let ([sender, receiver], ..) = run(aal, variant, 8);
            let of = |charged: &BTreeMap<Work, u64>| {
                charged.get(&Work::CopyOctets).copied().unwrap_or(0) as f64 / LEN as f64
            };
            (of(&sender), of(&receiver))
        };
        assert_eq!(copied(Copies::None), (0.0, 0.0));
        // Headers, trailers and pads go along: some hundredths.
        let about = |(a, b): (f64, f64), n: f64| {
            assert!(a >= n && a < n * 1.06, "{aal:?}: {a}");
            assert!(b >= n && b < n * 1.06, "{aal:?}: {b}");
        };
        about(copied(Copies::Sar), 1.0);
        about(copied(Copies::All), 3.0);
    }
}

#[test]
fn flags_spare_an_interrupt_and_two_turns_of_a_queue_for_each_cell() {
    let of = |events| {
        let variant = Variant {
            events,
            ..Variant::default()
        };
        let ([_, receiver], ..) = run(Aal::Aal34, variant, 8);
        receiver
    };
    let (flags, queue) = (of(Events::Flags), of(Events::Queue));
    assert_eq!(flags.get(&Work::Interrupt), None);
    assert_eq!(queue.get(&Work::PollFlag), None);
    let cells = queue[&Work::ReceiveCell];
    assert!(queue[&Work::Interrupt] >= cells && queue[&Work::Enqueue] >= cells);
    assert!(queue[&Work::Dequeue] >= cells);
    // The CRC is the processor's, or costs it nothing.
    let hardware = Variant {
        crc: Crc::Hardware,
        ..Variant::default()
    };
    assert_eq!(flags[&Work::CrcOctets] % 48, 0);
    assert_eq!(
        run(Aal::Aal34, hardware, 8).0[1].get(&Work::CrcOctets),
        None
    );
}

#[test]
fn a_terminal_sends_at_its_rate_and_never_above() {
    for burst in [1, 8, 32] {
        let (charged, _, end) = run(Aal::Aal5, Variant::default(), burst);
        let sent = charged[0][&Work::TransmitCell];
        let most = u128::from(end.ns()) * u128::from(RATE) / 1_000_000_000 + u128::from(burst);
        assert!(u128::from(sent) <= most, "{burst}: {sent} of {most}");
        assert!(u128::from(sent) * 2 > most, "{burst}: {sent} of {most}");
    }
}

#[test]
fn bursts_of_one_pdu_take_as_many_ticks_as_a_pdu_needs() {
    let end = |tick_cells| {
        let variant = Variant {
            tick_cells,
            ..Variant::default()
        };
        let (_, written, end) = run(Aal::Aal5, variant, 32);
        assert_eq!(written, LEN as u64);
        end.ns() as f64
    };
    // 42 cells are 2 ticks, which have room for 64.
    let longer = end(TickCells::OfOnePdu) / end(TickCells::Any);
    assert!((1.4..1.6).contains(&longer), "{longer}");
}
