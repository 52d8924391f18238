//! What carries files in a trial: SDUs some of which are lost, or octets as they come.

use std::collections::VecDeque;
use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::aal::tree::Tree;
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{
    Arq, Carrier, DiskHeader, Exchange, ExchangeTerms, FRAME_MAX, OctetStream, Split,
};
use rand_pcg::Pcg64Mcg;

use super::trees::{DISK_LEN, File, Half};
use crate::terminal_stack::below;

const WINDOW: u64 = 200_000;

pub(super) const SPLIT: Split = Split {
    pdu_len: 1_984,
    disk_len: Some(DISK_LEN as u32),
    file_len: None,
};

/// A line with a carrier at each end.
pub(super) trait Line {
    type Carrier: Carrier<Source = File, Store = Half>;

    /// `lost` is how many of a thousand PDUs are, where any can be.
    fn new(run: u32, lost: u64) -> Self;

    /// Who gives, and who takes.
    fn ends(&mut self) -> (&mut Self::Carrier, &mut Self::Carrier);

    /// Carries a little: how many octets have arrived. Events are to be drained behind it.
    fn carry(&mut self, now: Time, rng: &mut Pcg64Mcg, to_giver: bool) -> u64;
}

/// SDUs.
pub(super) struct Sdus {
    ends: [Exchange<File, Half>; 2],
    lost: u64,
}

impl Sdus {
    fn with_window(run: u32, lost: u64, window: u64) -> Self {
        let tree = Arc::new(Tree::new(Aal::Aal5, DiskHeader::LENGTHS).unwrap());
        let end = |begins| {
            let terms = ExchangeTerms {
                run: 2 * run + u32::from(begins),
                arq: Arq::Selective,
                window_pdus: 128,
                window,
                pdu_len: SPLIT.pdu_len,
                begins,
            };
            Exchange::new(Time::ZERO, terms, &tree).unwrap()
        };
        let ends = [end(true), end(false)];
        Self { ends, lost }
    }
}

impl Line for Sdus {
    type Carrier = Exchange<File, Half>;

    fn new(run: u32, lost: u64) -> Self {
        Self::with_window(run, lost, WINDOW)
    }

    fn ends(&mut self) -> (&mut Self::Carrier, &mut Self::Carrier) {
        let [giver, taker] = &mut self.ends;
        (giver, taker)
    }

    fn carry(&mut self, now: Time, rng: &mut Pcg64Mcg, to_giver: bool) -> u64 {
        let [from, to] = &mut self.ends;
        let (from, to) = if to_giver { (to, from) } else { (from, to) };
        let mut sdu = [0; 2_100];
        from.handle_deadline(now);
        match from.poll_sdu(now, &mut sdu) {
            Some(len) if below(rng, 1_000) >= self.lost => {
                to.handle_sdu(now, &sdu[..len.into()]);
                len.into()
            }
            _ => 0,
        }
    }
}

/// SDUs with a window that is shorter than a disk-PDU.
pub(super) struct Narrow(Sdus);

impl Line for Narrow {
    type Carrier = Exchange<File, Half>;

    fn new(run: u32, lost: u64) -> Self {
        Self(Sdus::with_window(run, lost, DISK_LEN / 4))
    }

    fn ends(&mut self) -> (&mut Self::Carrier, &mut Self::Carrier) {
        self.0.ends()
    }

    fn carry(&mut self, now: Time, rng: &mut Pcg64Mcg, to_giver: bool) -> u64 {
        self.0.carry(now, rng, to_giver)
    }
}

/// Octets, which come in other stretches than they left.
pub(super) struct Octets {
    ends: [OctetStream<File, Half>; 2],
    /// What has left and not come, to who takes and to who gives.
    under_way: [VecDeque<u8>; 2],
}

impl Line for Octets {
    type Carrier = OctetStream<File, Half>;

    fn new(_: u32, _: u64) -> Self {
        Self {
            ends: [(); 2].map(|()| OctetStream::new(Time::ZERO, WINDOW)),
            under_way: Default::default(),
        }
    }

    fn ends(&mut self) -> (&mut Self::Carrier, &mut Self::Carrier) {
        let [giver, taker] = &mut self.ends;
        (giver, taker)
    }

    fn carry(&mut self, now: Time, rng: &mut Pcg64Mcg, to_giver: bool) -> u64 {
        let [from, to] = &mut self.ends;
        let (from, to) = if to_giver { (to, from) } else { (from, to) };
        let under_way = &mut self.under_way[usize::from(to_giver)];
        if under_way.len() < 2_000 {
            let mut out = vec![0; FRAME_MAX];
            let len = from.poll_octets(now, &mut out);
            under_way.extend(&out[..len]);
        }
        let len = (1 + below(rng, 4_000) as usize).min(under_way.len());
        let taken = to.handle_octets(now, &under_way.make_contiguous()[..len]);
        let taken = taken.expect("what terminals say");
        under_way.drain(..taken);
        taken as u64
    }
}
