use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, ensure};
use cellgate_core::Time;
use cellgate_core::aal::tree::Tree;
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{
    Arq, Board, CellPayload, DiskHeader, Exchange, ExchangeTerms, Kernel, Source, Split, Store,
    Variant,
};
use cellgate_simd::{Fold, with_features};

/// Payload of a PDU of 170 cells.
const PDU_LEN: u16 = 170 * 48 - 32;
const TRANSFER: u16 = 1;
/// Longer than any run.
const FILE_LEN: u64 = 1 << 50;

/// A file that is the same memory again and again.
struct Memory(Vec<u8>);

impl Memory {
    fn place(&self, at: u64, len: usize) -> Range<usize> {
        let room = self.0.len() - usize::from(PDU_LEN);
        let from = (at % room as u64) as usize;
        from..from + len
    }
}

impl Source for Memory {
    #[inline(always)]
    fn read(&mut self, at: u64, into: &mut [u8]) {
        let place = self.place(at, into.len());
        into.copy_from_slice(&self.0[place]);
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        at..end
    }
}

impl Store for Memory {
    #[inline(always)]
    fn write(&mut self, at: u64, octets: &[u8]) {
        let place = self.place(at, octets.len());
        self.0[place].copy_from_slice(octets);
    }
}

/// An end of the line between both.
#[derive(Default)]
struct End {
    came: VecDeque<CellPayload>,
    goes: VecDeque<CellPayload>,
}

impl Board for End {
    #[inline(always)]
    fn receive(&mut self) -> Option<CellPayload> {
        self.came.pop_front()
    }

    #[inline(always)]
    fn transmit(&mut self, cell: &CellPayload) -> bool {
        let is_taken = self.goes.len() < 64;
        if is_taken {
            self.goes.push_back(*cell);
        }
        is_taken
    }
}

type Ends = Exchange<Memory, Memory>;

/// Two terminals, of which the first sends without end.
pub(super) struct Pair {
    exchanges: [Ends; 2],
    kernels: [Kernel; 2],
    boards: [End; 2],
    now: Time,
}

impl Pair {
    pub(super) fn new(variant: Variant, memory: usize) -> anyhow::Result<Self> {
        let tree = Tree::new(Aal::Aal5, DiskHeader::LENGTHS).context("a tree of AAL5")?;
        let tree = Arc::new(tree);
        let end = |begins| {
            let terms = ExchangeTerms {
                run: 1 + u32::from(begins),
                arq: Arq::Selective,
                window_pdus: 128,
                window: 1 << 20,
                pdu_len: PDU_LEN,
                begins,
            };
            Ends::new(Time::ZERO, terms, &tree).context("an exchange")
        };
        let mut pair = Self {
            exchanges: [end(true)?, end(false)?],
            kernels: [0, 1].map(|_| Kernel::new(variant, None)),
            boards: <[End; 2]>::default(),
            now: Time::ZERO,
        };
        for _ in 0..1_000 {
            with_features(Steps(&mut pair, 1));
        }
        ensure!(
            pair.exchanges.iter().all(Exchange::is_established),
            "the terminals do not know each other"
        );
        let (now, all) = (pair.now, (0, FILE_LEN));
        let store = Memory(vec![0; memory]);
        pair.exchanges[1].receive(now, TRANSFER, all, FILE_LEN, store);
        let split = Split {
            pdu_len: PDU_LEN,
            disk_len: Some(1 << 20),
            file_len: None,
        };
        // As much as a whole disk-PDU: what is read is in the cache, as a file's page may be.
        let source = Memory(vec![0x5a; 128 << 10]);
        pair.exchanges[0].send(TRANSFER, all, 1 << 20, split, source);
        Ok(pair)
    }

    /// Until so many cells more have gone there.
    pub(super) fn run(&mut self, cells: usize) {
        with_features(Steps(self, cells));
    }

    /// The same with another CRC.
    pub(super) fn run_with<F: Fold>(&mut self, fold: F, cells: usize) {
        self.steps(fold, cells);
    }

    #[inline(always)]
    fn steps<F: Fold>(&mut self, fold: F, cells: usize) {
        let mut sent = 0;
        // Terminals that do not know each other yet send little.
        for _ in 0..20 + cells {
            self.now = self.now.plus_ns(20_000);
            for end in 0..2 {
                let (kernel, exchange) = (&mut self.kernels[end], &mut self.exchanges[end]);
                kernel.step(fold, self.now, exchange, &mut self.boards[end]);
                while exchange.poll_event().is_some() {}
                let goes = std::mem::take(&mut self.boards[end].goes);
                sent += if end == 0 { goes.len() } else { 0 };
                self.boards[1 - end].came.extend(goes);
            }
            if sent >= cells {
                break;
            }
        }
    }

    /// That what was moved was right.
    pub(super) fn ensure(&mut self) -> anyhow::Result<()> {
        let received = self.exchanges[1].received(TRANSFER);
        let (octets, _) = received.context("nothing was received")?;
        let store = self.exchanges[1].store_mut(TRANSFER);
        let memory = store.context("nothing was received")?;
        let end = memory.0.len().min(octets as usize) - usize::from(PDU_LEN);
        let is_right = memory.0[..end].iter().all(|octet| *octet == 0x5a);
        ensure!(octets > 0 && is_right, "other octets came than were sent");
        let sender = self.exchanges[0].outgoing(TRANSFER);
        let again = sender.context("nothing was sent")?.counts().again;
        ensure!(
            again == 0,
            "{again} PDUs were sent again on a line that loses none"
        );
        Ok(())
    }
}

struct Steps<'a>(&'a mut Pair, usize);

impl cellgate_simd::Kernel for Steps<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        self.0.steps(fold, self.1);
    }
}
