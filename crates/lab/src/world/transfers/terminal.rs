//! A terminal of a transfer: the core's exchange, and who gives or takes over it. It stands for the
//! session of a host, which asks, answers, and begins anew when the other end has.

use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::aal::tree;
use cellgate_core::terminal::{
    CellPayload, Event, Exchange, ExchangeTerms, Given, Giving, Manner, Message, SendingFile,
    Settled, Split, Taking,
};
use cellgate_core::wire::PAYLOAD_LEN;
use cellgate_simd::{Fold, Kernel, with_features};

use super::content::{DISK_LEN, SourceOctets, Tree};
use super::place::{Place, TakenFile};
use super::scenario::TransferSpec;

/// A terminal that nothing comes from for so long is gone.
const SILENCE_NS: u64 = 10_000_000_000;
/// Steps of who gives in one turn.
const STEPS: usize = 64;
/// More than there are of a terminal.
const TRANSFERS_AT_ONCE: u16 = 16;

type Ends = Exchange<SendingFile<SourceOctets>, TakenFile>;

/// What it does.
enum Work {
    /// It waits to be asked, with a place to take to.
    Served(Option<Place>),
    /// It has asked.
    Asked(Option<Tree>),
    Giving(Box<Giving<Tree>>),
    Taking(Box<Taking<Place>>),
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Restarted,
    Silent,
    Fault,
}

/// What it has told.
#[derive(Default)]
pub(super) struct Told {
    pub(super) given: Vec<Given>,
    pub(super) settled: Vec<Settled>,
}

/// A terminal.
pub(super) struct Terminal {
    exchange: Ends,
    work: Work,
    split: Split,
    jobs: usize,
    message: Vec<u8>,
    /// The last transfer that has begun.
    transfer: u16,
}

fn exchange(
    now: Time,
    spec: &TransferSpec,
    tree: &Arc<tree::Tree>,
    run: u32,
    begins: bool,
) -> Ends {
    let pdus = spec.window_octets / u64::from(spec.pdu_octets);
    let terms = ExchangeTerms {
        run,
        arq: match spec.go_back {
            true => cellgate_core::terminal::Arq::GoBackN,
            false => cellgate_core::terminal::Arq::Selective,
        },
        window_pdus: (pdus as u32).clamp(16, 1 << 13),
        window: spec.window_octets,
        pdu_len: spec.pdu_octets,
        begins,
    };
    Ends::new(now, terms, tree).expect("a tree of terminals")
}

impl Terminal {
    /// One that gives: it asks at once.
    pub(super) fn gives(
        now: Time,
        spec: &TransferSpec,
        tree: &Arc<tree::Tree>,
        run: u32,
        manner: Manner,
        files: Tree,
    ) -> Self {
        let mut exchange = exchange(now, spec, tree, run, true);
        let path = Vec::new();
        exchange.say(&Message::Put { manner, path }.emit());
        Self::new(exchange, spec, Work::Asked(Some(files)))
    }

    /// One that takes, when it is asked.
    pub(super) fn takes(
        now: Time,
        spec: &TransferSpec,
        tree: &Arc<tree::Tree>,
        run: u32,
        place: Place,
    ) -> Self {
        let exchange = exchange(now, spec, tree, run, false);
        Self::new(exchange, spec, Work::Served(Some(place)))
    }

    fn new(exchange: Ends, spec: &TransferSpec, work: Work) -> Self {
        Self {
            exchange,
            work,
            split: Split {
                pdu_len: spec.pdu_octets,
                disk_len: Some(DISK_LEN.octets()),
                file_len: None,
            },
            jobs: spec.jobs.into(),
            message: Vec::new(),
            transfer: 0,
        }
    }

    /// Takes a cell that has come.
    pub(super) fn handle_cell(&mut self, now: Time, cell: &CellPayload) {
        with_features(Comes(&mut self.exchange, now, cell));
    }

    /// The next cell, if there is one.
    pub(super) fn poll_cell(&mut self, now: Time) -> Option<CellPayload> {
        with_features(Goes(&mut self.exchange, now))
    }

    /// When it has something to do if nothing comes.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.exchange.next_deadline()
    }

    /// What follows from what has come. Whether it is over, and why.
    pub(super) fn acts(&mut self, now: Time, told: &mut Told) -> Result<(), Over> {
        self.exchange.handle_deadline(now);
        while let Some(event) = self.exchange.poll_event() {
            match event {
                Event::DiskPdu { transfer, disk_pdu } => {
                    if let Work::Taking(taking) = &mut self.work {
                        let (exchange, settled) = (&mut self.exchange, &mut told.settled);
                        taking.handle_disk_pdu(now, exchange, transfer, &disk_pdu, settled);
                    }
                }
                Event::Restarted => return Err(Over::Restarted),
                Event::Fault => return Err(Over::Fault),
            }
        }
        self.hears(now, told)?;
        self.works(now, told);
        let is_idle = matches!(self.work, Work::Served(_));
        match !is_idle && now.since_ns(self.exchange.heard_at()) > SILENCE_NS {
            true => Err(Over::Silent),
            false => Ok(()),
        }
    }

    fn hears(&mut self, now: Time, told: &mut Told) -> Result<(), Over> {
        let mut message = std::mem::take(&mut self.message);
        while self
            .exchange
            .hear(now, &mut message)
            .map_err(|_| Over::Fault)?
        {
            let message = Message::parse(&message).map_err(|_| Over::Fault)?;
            let exchange = &mut self.exchange;
            match (&mut self.work, message) {
                (Work::Served(place), Message::Put { .. }) => {
                    if let Some(place) = place.take() {
                        exchange.say(&Message::Accepted.emit());
                        self.work = Work::Taking(Box::new(Taking::new(place, self.jobs)));
                    }
                }
                (Work::Asked(files), Message::Accepted) => {
                    if let Some(files) = files.take() {
                        self.work = Work::Giving(Box::new(Giving::new(files, self.split)));
                    }
                }
                (Work::Giving(giving), message) => {
                    giving.handle(exchange, message, &mut told.given);
                }
                (Work::Taking(taking), message) => {
                    taking.handle(now, exchange, message, &mut told.settled);
                    if taking.fault().is_some() {
                        return Err(Over::Fault);
                    }
                }
                (Work::Served(_) | Work::Asked(_), _) => {}
            }
        }
        self.message = message;
        Ok(())
    }

    fn works(&mut self, now: Time, told: &mut Told) {
        match &mut self.work {
            Work::Giving(giving) => {
                for _ in 0..STEPS {
                    if !giving.step(&mut self.exchange, &mut told.given) {
                        break;
                    }
                }
            }
            Work::Taking(taking) => {
                taking.step(now, &mut self.exchange, &mut told.settled);
                self.tells_ap();
            }
            Work::Served(_) | Work::Asked(_) => {}
        }
    }

    /// Tells each file up to where it is acknowledged.
    fn tells_ap(&mut self) {
        while self.exchange.received(self.transfer + 1).is_some() {
            self.transfer += 1;
        }
        for transfer in self.transfer.saturating_sub(TRANSFERS_AT_ONCE)..=self.transfer {
            let received = self.exchange.received(transfer);
            if let (Some((ap, _)), Some(file)) = (received, self.exchange.store_mut(transfer)) {
                file.ap = ap;
            }
        }
    }

    /// It ends, and leaves what it takes to be gone on with.
    pub(super) fn leaves(&mut self) {
        if let Work::Taking(taking) = &mut self.work {
            taking.abandon(&mut self.exchange);
        }
    }

    /// What it has sent.
    pub(super) fn sent(&self) -> cellgate_core::terminal::SenderCounts {
        self.exchange.sent()
    }
}

struct Comes<'a>(&'a mut Ends, Time, &'a CellPayload);

impl Kernel for Comes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        self.0
            .handle_cell(fold, self.1, self.2.last, &self.2.octets);
    }
}

struct Goes<'a>(&'a mut Ends, Time);

impl Kernel for Goes<'_> {
    type Output = Option<CellPayload>;

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Option<CellPayload> {
        let mut octets = [0; PAYLOAD_LEN];
        let last = self.0.poll_cell(fold, self.1, &mut octets)?;
        Some(CellPayload { octets, last })
    }
}
