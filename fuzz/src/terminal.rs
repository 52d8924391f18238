//! A terminal before another that says anything.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use cellgate_core::Time;
use cellgate_core::aal::tree::{Place, Tree};
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{
    Arq, Control, DiskHeader, Exchange, ExchangeTerms, Kind, Pci, Source, Split, Status, Store,
};
use cellgate_simd::{Fold, Kernel, Level, with_level};

use crate::take::Take;

const RUN: u32 = 1;
const PEER: u32 = 2;
const TRANSFERS: u16 = 3;
const FILE: u64 = 8_192;
const DISK: u32 = 2_048;
const ROOM: usize = 2_048;

/// A file of known octets, with a hole.
struct Known;

const fn octet(at: u64) -> u8 {
    (at ^ at >> 8).wrapping_mul(7) as u8
}

const HOLE: Range<u64> = 3_000..3_900;

impl Source for Known {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        assert!(at + into.len() as u64 <= FILE);
        for (to, at) in into.iter_mut().zip(at..) {
            *to = octet(at);
        }
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        match at {
            _ if at >= HOLE.end => at..end,
            _ if at >= HOLE.start => HOLE.end.min(end)..end,
            _ => at..end.min(HOLE.start),
        }
    }
}

/// Where a transfer's octets come: never below what is acknowledged, nor beyond the edge.
struct Watched {
    octets: Vec<u8>,
    /// Ap and the edge, as they were before what is being handled.
    may: Rc<Cell<(u64, u64)>>,
}

impl Store for Watched {
    fn write(&mut self, at: u64, octets: &[u8]) {
        let (ap, edge) = self.may.get();
        let end = at + octets.len() as u64;
        assert!(
            octets.is_empty() || ap <= at && end <= edge,
            "{at}..{end} is not within {ap}..{edge}"
        );
        self.octets[at as usize..end as usize].copy_from_slice(octets);
    }
}

type End = Exchange<Known, Watched>;

struct HandleCell<'a>(&'a mut End, Time, bool, &'a [u8; 48]);

impl Kernel for HandleCell<'_> {
    type Output = ();
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        self.0.handle_cell(fold, self.1, self.2, self.3);
    }
}

struct PollCell<'a>(&'a mut End, Time);

impl Kernel for PollCell<'_> {
    type Output = Option<(bool, [u8; 48])>;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Self::Output {
        let mut payload = [0; 48];
        let last = self.0.poll_cell(fold, self.1, &mut payload)?;
        Some((last, payload))
    }
}

/// A terminal, and what is known of what it receives.
struct Model {
    end: End,
    now: Time,
    may: [Rc<Cell<(u64, u64)>>; TRANSFERS as usize],
    /// What was acknowledged, as it was then.
    acknowledged: [Vec<u8>; TRANSFERS as usize],
    handled: u64,
}

fn tree(aal: Aal) -> Arc<Tree> {
    let tree = Tree::new(aal, DiskHeader::LENGTHS);
    Arc::new(tree.expect("an AAL with a tree"))
}

/// They take longer to make than an input takes.
static AAL5: LazyLock<Arc<Tree>> = LazyLock::new(|| tree(Aal::Aal5));
static AAL34: LazyLock<Arc<Tree>> = LazyLock::new(|| tree(Aal::Aal34));

fn end(aal: Aal, run: u32, arq: Arq) -> End {
    let tree: &Arc<Tree> = if aal == Aal::Aal5 { &AAL5 } else { &AAL34 };
    let terms = ExchangeTerms {
        run,
        arq,
        window_pdus: 16,
        window: 4_096,
        pdu_len: 500,
        begins: run == RUN,
    };
    let mut end = Exchange::new(Time::ZERO, terms, tree).expect("a terminal's tree");
    end.adapt();
    end
}

impl Model {
    fn new(aal: Aal, run: u32, arq: Arq) -> Self {
        Self {
            end: end(aal, run, arq),
            now: Time::ZERO,
            may: Default::default(),
            acknowledged: Default::default(),
            handled: 0,
        }
    }

    fn receives(&mut self, transfer: u16) {
        let at = usize::from(transfer);
        let store = Watched {
            octets: vec![0; FILE as usize],
            may: Rc::clone(&self.may[at]),
        };
        if self
            .end
            .receive(self.now, transfer + 1, (0, FILE), FILE, store)
        {
            self.acknowledged[at].clear();
        }
        self.looks();
    }

    fn sends(&mut self, transfer: u16) {
        let split = Split {
            pdu_len: 500,
            disk_len: Some(DISK),
            file_len: Some(FILE),
        };
        self.end
            .send(transfer + 1, (0, FILE), FILE / 2, split, Known);
    }

    /// Nothing that was acknowledged has changed, and every cell is accounted for.
    fn looks(&mut self) {
        while self.end.poll_event().is_some() {}
        for transfer in 0..TRANSFERS {
            let at = usize::from(transfer);
            let Some((ap, edge)) = self.end.received(transfer + 1) else {
                continue;
            };
            assert!(ap <= edge && edge <= FILE, "{ap} {edge}");
            let before = &mut self.acknowledged[at];
            assert!(ap >= before.len() as u64, "Ap went back");
            let store = self.end.store_mut(transfer + 1).expect("it is received");
            assert!(
                store.octets.starts_with(before),
                "acknowledged octets changed"
            );
            before.extend_from_slice(&store.octets[before.len()..ap as usize]);
            self.may[at].set((ap, edge));
        }
        let mut received = 0;
        for counts in self.end.counts() {
            let gone = counts.delivered + counts.discarded_cells() + counts.held;
            assert_eq!(counts.received, gone);
            received += counts.received;
        }
        assert_eq!(received, self.handled);
    }

    fn sdu(&mut self, sdu: &[u8]) {
        self.handled += 1;
        self.end.handle_sdu(self.now, sdu);
        self.looks();
    }

    fn passes(&mut self, take: &mut Take<'_>) {
        self.now = self.now.plus_ns(u64::from(take.u8()) * 1_000_000);
        self.end.handle_deadline(self.now);
        self.looks();
    }
}

/// A PCI that is mostly one that could be.
fn pci(take: &mut Take<'_>, len: usize) -> Pci {
    let op = take.u8();
    let is_odd = |bit: u8| op >> bit & 1 != 0;
    Pci {
        kind: if is_odd(0) { Kind::Control } else { Kind::Data },
        place: Place::new(is_odd(1), is_odd(2)),
        transfer: u16::from(take.below(TRANSFERS as u8 + 2)),
        run: if is_odd(3) { take.u32() } else { PEER },
        sequence: if is_odd(4) {
            take.u32()
        } else {
            take.u8().into()
        } % Pci::SEQUENCES,
        serial: take.u8().into(),
        offset: if is_odd(5) {
            take.u64()
        } else {
            take.u16().into()
        },
        length: if is_odd(6) { take.u16() } else { len as u16 },
    }
}

fn control<'a>(take: &mut Take<'_>, above: &'a [u8]) -> Control<'a> {
    if take.flag() {
        let to = take.flag().then_some(RUN);
        return Control::Hello {
            to: to.filter(|_| take.flag()),
            window: take.u16(),
        };
    }
    Control::Status(Status {
        seen: take.flag().then(|| take.u8().into()),
        held_us: take.u32(),
        next: take.u8().into(),
        acknowledged: take.u64(),
        edge: if take.flag() {
            take.u64()
        } else {
            take.u16().into()
        },
        above: &above[..usize::from(take.below(4))],
    })
}

/// SDUs with a right PCI's check before a terminal that sends and receives: nothing is written
/// below what is acknowledged or beyond the edge, and every SDU is accounted for.
pub fn terminal(data: &[u8]) {
    let mut take = Take::new(data);
    let arq = take.pick(&[Arq::Selective, Arq::GoBackN]);
    let mut model = Model::new(Aal::Aal5, RUN, arq);
    // The other terminal is known.
    let mut known = [0; ROOM];
    let hello = Control::Hello {
        to: Some(RUN),
        window: 16,
    };
    let len = hello.emit(&mut known[Pci::LEN..]).expect("there is room");
    let mut first = pci(&mut Take::new(&[1]), len.into());
    first.transfer = 0;
    known[..Pci::LEN].copy_from_slice(&first.emit());
    model.sdu(&known[..Pci::LEN + usize::from(len)]);
    while !take.is_empty() {
        match take.u8() % 9 {
            0 => {
                let len = take.u8().into();
                model.sdu(take.slice(len));
            }
            1 => {
                let above: [u8; 4] = take.octets();
                let mut sdu = [0; ROOM];
                let said = control(&mut take, &above);
                let len = said.emit(&mut sdu[Pci::LEN..]).expect("there is room");
                let mut pci = pci(&mut take, len.into());
                pci.kind = Kind::Control;
                sdu[..Pci::LEN].copy_from_slice(&pci.emit());
                model.sdu(&sdu[..Pci::LEN + usize::from(len)]);
            }
            2..=4 => {
                let len = usize::from(take.u8()) * 2;
                let pci = pci(&mut take, len);
                let mut sdu = pci.emit().to_vec();
                if pci.place.is_first() {
                    let header: [u8; DiskHeader::LEN] = take.octets();
                    sdu.extend(header);
                }
                sdu.extend((0..len as u64).map(|at| octet(pci.offset.wrapping_add(at))));
                if pci.place.is_last() {
                    sdu.extend([0; DiskHeader::TAIL]);
                }
                model.sdu(&sdu);
            }
            5 => {
                let mut out = [0; ROOM];
                if let Some(len) = model.end.poll_sdu(model.now, &mut out) {
                    assert!(usize::from(len) <= out.len());
                }
                model.looks();
            }
            6 => model.passes(&mut take),
            7 => {
                let transfer = take.u16() % TRANSFERS;
                match take.below(4) {
                    0 => drop(model.end.end_receive(transfer + 1)),
                    1 => drop(model.end.end_send(transfer + 1)),
                    2 => model.sends(transfer),
                    _ => model.receives(transfer),
                }
                model.looks();
            }
            _ => {
                let mut message = Vec::new();
                let _ = model.end.hear(model.now, &mut message);
                model.end.say(b"a message");
                model.looks();
            }
        }
    }
}

/// Two terminals that make their own cells, and a line that loses, repeats and damages these:
/// what is acknowledged is the file.
pub fn terminal_line(data: &[u8]) {
    let mut take = Take::new(data);
    let aal = take.pick(&[Aal::Aal5, Aal::Aal34]);
    let arq = take.pick(&[Arq::Selective, Arq::GoBackN]);
    let mut ends = [RUN, PEER].map(|run| Model::new(aal, run, arq));
    let mut is_begun = false;
    while !take.is_empty() {
        let op = take.u8();
        let from = usize::from(op & 1);
        let polled = with_level(
            Level::Baseline,
            PollCell(&mut ends[from].end, ends[from].now),
        );
        if let Some((last, mut payload)) = polled {
            let times = match op >> 1 & 15 {
                0 => 0,
                1 => 2,
                2 => {
                    // One bit, which every CRC finds.
                    let bit = usize::from(take.u8()) * 2 % (48 * 8);
                    payload[bit / 8] ^= 1 << (bit % 8);
                    1
                }
                _ => 1,
            };
            let to = &mut ends[1 - from];
            for _ in 0..times {
                to.handled += 1;
                with_level(
                    Level::Baseline,
                    HandleCell(&mut to.end, to.now, last, &payload),
                );
                to.looks();
            }
        } else {
            for end in &mut ends {
                end.passes(&mut take);
            }
        }
        if !is_begun && ends.iter().all(|end| end.end.is_established()) {
            is_begun = true;
            for transfer in 0..TRANSFERS {
                ends[1].receives(transfer);
                ends[0].sends(transfer);
            }
        }
    }
    for acknowledged in &ends[1].acknowledged {
        for (at, is) in (0..).zip(acknowledged) {
            let right = if HOLE.contains(&at) { 0 } else { octet(at) };
            assert_eq!(*is, right, "octet {at}");
        }
    }
}
