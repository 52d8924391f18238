//! What the adapter sends: every cell must be the next one of a PDU that a client handed over, the
//! cells of a VC with a rate, guaranteed or a peak, must conform where they leave, and those of VBR
//! leave when both its buckets admit them and their line has nothing else to do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cellgate_core::adapter::{Aal, Event, OpenRequest, PortConfig, PortIndex, VcId, VcStats};
use cellgate_core::queue::SduOptions;
use cellgate_core::wire::{CellFormat, HeaderForm};

use super::aal34::{cells_of_sdu, payloads};
use super::bits::{Fields, crc32, hec};
use super::policer::Policer;

/// An SDU that a client handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submission {
    pub(crate) sdu: Vec<u8>,
    pub(crate) uu: u8,
    pub(crate) cpi: u8,
    pub(crate) clp: bool,
    /// The descriptor names something else than the SDU: it must be thrown away.
    pub(crate) forged: bool,
}

impl Submission {
    /// One whose descriptor is what its client was told to give.
    pub(crate) fn new(sdu: Vec<u8>, options: SduOptions) -> Self {
        let [of_mid, below] = options.mid.to_be_bytes();
        Self {
            sdu,
            uu: options.uu | of_mid,
            cpi: options.cpi | below,
            clp: options.clp,
            forged: false,
        }
    }

    /// Multiplexing identification on an AAL3/4 VC, which knows no UU and CPI.
    pub(crate) fn mid(&self) -> u16 {
        u16::from(self.uu & 3) << 8 | u16::from(self.cpi)
    }
}

#[derive(Clone, Debug)]
struct Sender {
    request: OpenRequest,
    queue: VecDeque<Submission>,
    /// Cells of the front of `queue` that have left.
    sent: usize,
    /// The payloads of all its cells, once one has left.
    payloads: Vec<[u8; 48]>,
    /// Of the rate, and of the sustained rate.
    policers: Vec<Policer>,
    /// Its shaper has charged what its policers do not know: what was sent before a change, or an
    /// SDU that was refused.
    is_behind: bool,
    /// Steps in a row after which a cell could have left, and the line had nothing.
    held_up: u32,
    /// Descriptors whose last cell has left, or that are forged and were reached; and those told.
    done: u64,
    told: u64,
    cells: u64,
    /// Of these, those of CLP 1.
    cells_clp1: u64,
    pdus: u64,
    faults: u64,
    /// Of the AAL3/4 PDU before, and of the one that leaves.
    tags: [Option<u8>; 2],
    /// Its client is an adversary.
    lawless: bool,
}

/// The transmit side of all VCs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    senders: BTreeMap<VcId, Sender>,
    /// Those that may send, by port, VPI and VCI: no two have the same.
    places: BTreeMap<(u8, u16, u16), VcId>,
    /// Those of which something has left or was told since the last step, and new ones.
    touched: BTreeSet<VcId>,
    /// Those with two buckets.
    vbr: BTreeSet<VcId>,
    /// When something left a port last, by its number.
    left_ns: BTreeMap<u8, u64>,
    pub(crate) cells: u64,
}

/// A cell may wait for a tick of the adapter's wheel, and for its VC's turn to be found.
const TICK_NS: u64 = 2_000;
/// Steps in which the adapter may have had queues to look into, and descriptors to refuse, only.
const STEPS: u32 = 3;

/// Where cells of a VC leave, if it sends.
fn place(request: &OpenRequest) -> Option<(u8, u16, u16)> {
    request.transmit?;
    let address = request.address;
    Some((request.port.0, address.vpi(), address.vci()))
}

/// Of what is shaped: guaranteed VCs, and best effort with a peak rate. VBR has two (TM 4.0).
pub(crate) fn policers(request: &OpenRequest) -> Vec<Policer> {
    let Some(transmit) = request.transmit else {
        return Vec::new();
    };
    let cdvt_ns = i128::from(transmit.cdvt_ns);
    let rate = transmit.rate.or(transmit.peak);
    let peak = rate.map(|rate| Policer::new(rate.cell_s(), cdvt_ns, 0));
    let sustained = transmit.sustained.map(|of| {
        let tolerance_ns = i128::from(of.burst_tolerance_ns) + cdvt_ns;
        Policer::new(of.rate.cell_s(), tolerance_ns, 0)
    });
    let mut both: Vec<Policer> = peak.into_iter().chain(sustained).collect();
    // Of what was before time 0 nothing is made good.
    both.iter_mut().for_each(|one| one.arrive(transmit.cdvt_ns));
    both
}

impl Output {
    pub(crate) fn open(&mut self, id: VcId, request: OpenRequest, lawless: bool) {
        let sender = Sender {
            request,
            queue: VecDeque::new(),
            sent: 0,
            payloads: Vec::new(),
            policers: policers(&request),
            is_behind: false,
            held_up: 0,
            done: 0,
            told: 0,
            cells: 0,
            cells_clp1: 0,
            pdus: 0,
            faults: 0,
            tags: [None; 2],
            lawless,
        };
        self.insert(id, sender);
    }

    fn insert(&mut self, id: VcId, sender: Sender) {
        let place = place(&sender.request);
        self.places.extend(place.map(|place| (place, id)));
        self.touched.insert(id);
        if sender.policers.len() > 1 {
            self.vbr.insert(id);
        }
        self.senders.insert(id, sender);
    }

    fn remove(&mut self, id: VcId) -> Option<Sender> {
        let sender = self.senders.remove(&id)?;
        self.vbr.remove(&id);
        if let Some(place) = place(&sender.request) {
            self.places.remove(&place);
        }
        Some(sender)
    }

    pub(crate) fn modify(&mut self, old: VcId, new: VcId, request: OpenRequest) {
        let Some(mut sender) = self.remove(old) else {
            return;
        };
        sender.policers = policers(&request);
        (sender.is_behind, sender.held_up) = (true, 0);
        sender.request = request;
        if new != old {
            // Another region: what was not begun in the old one is not sent.
            sender.queue.clear();
            (sender.sent, sender.done, sender.told) = (0, 0, 0);
            sender.tags = [None; 2];
        }
        self.insert(new, sender);
    }

    pub(crate) fn close(&mut self, id: VcId) {
        self.remove(id);
    }

    pub(crate) fn submit(&mut self, id: VcId, submission: Submission) {
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.queue.push_back(submission);
        }
    }

    /// Is a PDU of this VC partly sent?
    pub(crate) fn in_progress(&self, id: VcId) -> bool {
        self.senders.get(&id).is_some_and(|sender| sender.sent > 0)
    }

    /// Completions told for a VC: the tail of its transmit queue.
    pub(crate) fn told(&self, id: VcId) -> Option<u64> {
        self.senders.get(&id).map(|sender| sender.told)
    }

    /// SDUs handed over and not sent.
    pub(crate) fn waiting(&self) -> Option<(VcId, usize)> {
        let waiting = self
            .senders
            .iter()
            .filter(|(_, sender)| !sender.lawless)
            .map(|(id, sender)| (*id, sender.queue.len()));
        waiting.into_iter().find(|(_, len)| *len > 0)
    }

    /// Something left `port`.
    pub(crate) fn leaves(&mut self, now_ns: u64, port: PortIndex) {
        self.left_ns.insert(port.0, now_ns);
    }

    /// After a step, in which port n has had room for `space(n)` cells: a VBR VC that is in the
    /// middle of a PDU, whose next cell both its buckets admit, though nothing has left its line.
    pub(crate) fn held_up(
        &mut self,
        now_ns: u64,
        ports: &[PortConfig],
        space: impl Fn(usize) -> usize,
    ) -> Option<String> {
        let (senders, left_ns) = (&mut self.senders, &self.left_ns);
        self.vbr.iter().find_map(|id| {
            let sender = senders.get_mut(id)?;
            let port = sender.request.port;
            let slot_ns = 1_000_000_000 / u64::from(ports[usize::from(port.0)].line_rate.cell_s());
            let free_ns = left_ns.get(&port.0).map_or(0, |ns| ns + slot_ns + 1);
            let before_ns = now_ns.saturating_sub(TICK_NS);
            let could = sender.sent > 0
                && !sender.lawless
                && !sender.is_behind
                && free_ns <= now_ns
                && space(port.0.into()) > 0
                && sender.policers.iter().all(|one| one.conforms(before_ns));
            sender.held_up = if could { sender.held_up + 1 } else { 0 };
            (sender.held_up == STEPS).then(|| {
                format!("{id:?}: both buckets admit a cell, the line is free, and none leaves")
            })
        })
    }

    /// A cell left `port` at `now_ns`; what is wrong with it, if anything.
    pub(crate) fn cell(
        &mut self,
        now_ns: u64,
        port: PortIndex,
        format: CellFormat,
        form: HeaderForm,
        octets: &[u8],
    ) -> Option<String> {
        self.cells += 1;
        let header = [octets[0], octets[1], octets[2], octets[3]];
        let payload = match format {
            CellFormat::NoHec => &octets[4..],
            CellFormat::WithHec if octets[4] != hec(header) => return Some("wrong HEC".into()),
            CellFormat::WithHec => &octets[5..],
        };
        let fields = Fields::of(header, form == HeaderForm::Uni);
        let Some((id, sender)) = self.sender_at(port, fields) else {
            return Some(format!(
                "{}.{} sends on no port {}",
                fields.vpi, fields.vci, port.0
            ));
        };
        sender
            .cell(now_ns, fields, payload)
            .map(|text| format!("transmitted cell of {id:?} (port {}): {text}", port.0))
    }

    /// Whose cells leave like this; it counts as touched.
    fn sender_at(&mut self, port: PortIndex, fields: Fields) -> Option<(VcId, &mut Sender)> {
        let id = *self.places.get(&(port.0, fields.vpi, fields.vci))?;
        self.touched.insert(id);
        Some((id, self.senders.get_mut(&id)?))
    }

    /// A client was told that a PDU has left.
    pub(crate) fn completed(&mut self, event: &Event) -> Option<String> {
        let Some(sender) = self.senders.get_mut(&event.vc) else {
            return Some(format!("{:?} does not send", event.vc));
        };
        self.touched.insert(event.vc);
        sender.told += 1;
        let wanted = sender
            .request
            .transmit
            .is_some_and(|t| t.interrupt_on_completion);
        if event.value != sender.told || event.interruptive != wanted {
            return Some(format!(
                "expected value {}, interruptive {wanted}",
                sender.told
            ));
        }
        None
    }

    /// After transmission: forged descriptors whose end was told are behind us.
    pub(crate) fn settle(&mut self) {
        for id in &self.touched {
            let Some(sender) = self.senders.get_mut(id) else {
                continue;
            };
            while sender.done < sender.told && sender.queue.front().is_some_and(|s| s.forged) {
                sender.queue.pop_front();
                sender.done += 1;
                sender.faults += 1;
                sender.is_behind = true;
            }
        }
    }

    /// VCs of which something has left or was told since the last call, and new ones.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<VcId> {
        std::mem::take(&mut self.touched)
    }

    /// At the end of a step: every PDU that has left was told, and no other. Of a VC that nothing
    /// happened to, that has not changed.
    pub(crate) fn step_difference(&mut self) -> Option<String> {
        self.settle();
        self.touched.iter().find_map(|id| {
            let sender = self.senders.get(id)?;
            (sender.done != sender.told && !sender.lawless).then(|| {
                format!(
                    "{id:?}: {} transmit descriptors are done, {} completions told",
                    sender.done, sender.told
                )
            })
        })
    }

    /// What differs between the counters, if anything.
    pub(crate) fn difference(&self, id: VcId, tail_faults: u64, stats: &VcStats) -> Option<String> {
        let sender = self.senders.get(&id);
        let (cells, clp1, pdus, faults) = sender.map_or((0, 0, 0, 0), |sender| {
            (sender.cells, sender.cells_clp1, sender.pdus, sender.faults)
        });
        let pairs = [
            ("cells_transmitted", cells, stats.cells_transmitted),
            ("cells_transmitted_clp1", clp1, stats.cells_transmitted_clp1),
            ("pdus_transmitted", pdus, stats.pdus_transmitted),
            ("client_faults", faults + tail_faults, stats.client_faults),
        ];
        super::first_difference(&pairs).map(|text| format!("{id:?}: {text}"))
    }
}

impl Sender {
    fn cell(&mut self, now_ns: u64, fields: Fields, payload: &[u8]) -> Option<String> {
        if self.lawless {
            return None;
        }
        self.cells += 1;
        if self.sent == 0 {
            while self
                .queue
                .front()
                .is_some_and(|submission| submission.forged)
            {
                self.queue.pop_front();
                self.done += 1;
                self.faults += 1;
                self.is_behind = true;
            }
        }
        let Some(submission) = self.queue.front() else {
            return Some("nothing was handed over".into());
        };
        for policer in &mut self.policers {
            if !policer.conforms(now_ns) {
                return Some(format!("does not conform at {now_ns} ns"));
            }
            policer.arrive(now_ns);
            policer.charge(1);
        }
        let cells = match self.request.aal {
            Aal::Aal0 => 1,
            Aal::Aal5 => (submission.sdu.len() + 8).div_ceil(48),
            Aal::Aal34(_) => cells_of_sdu(submission.sdu.len()),
        };
        let last = self.sent + 1 == cells;
        let (pti, clp) = match self.request.aal {
            Aal::Aal0 => {
                let octet = submission.sdu[3];
                self.payloads = submission.sdu[4..].as_chunks().0.to_vec();
                (octet >> 1 & 7, octet & 1)
            }
            Aal::Aal5 => {
                if self.sent == 0 {
                    self.payloads = pdu_of(submission, cells).as_chunks().0.to_vec();
                }
                (u8::from(last), u8::from(submission.clp))
            }
            Aal::Aal34(_) => {
                // The tag is the adapter's choice, but not that of the PDU before.
                let [before, tag] = if self.sent == 0 {
                    [self.tags[1], Some(payload[3])]
                } else {
                    self.tags
                };
                if before == tag {
                    return Some(format!("tag {tag:?} again"));
                }
                if self.sent == 0 {
                    let tag = tag.unwrap_or(0);
                    self.payloads = payloads(&submission.sdu, submission.mid(), tag);
                }
                (0, u8::from(submission.clp))
            }
        };
        if self.sent == 0 {
            // Behind the SAR-PDU's header and the CPI.
            self.tags = [self.tags[1], Some(payload[3])];
        }
        if (fields.gfc, fields.pti, fields.clp) != (0, pti, clp) {
            return Some(format!(
                "expected PTI {pti} CLP {clp} GFC 0, got {fields:?}"
            ));
        }
        if self
            .payloads
            .get(self.sent)
            .is_none_or(|expected| payload != expected)
        {
            return Some(format!("cell {} of {cells}: other octets", self.sent));
        }
        self.cells_clp1 += u64::from(clp);
        self.sent += 1;
        if last {
            self.sent = 0;
            self.queue.pop_front();
            self.done += 1;
            self.pdus += 1;
        }
        None
    }
}

/// The CPCS-PDU of I.363.5 around an SDU.
fn pdu_of(submission: &Submission, cells: usize) -> Vec<u8> {
    let mut pdu = submission.sdu.clone();
    pdu.resize(48 * cells - 8, 0);
    pdu.extend([submission.uu, submission.cpi]);
    pdu.extend((submission.sdu.len() as u16).to_be_bytes());
    let crc = crc32(&pdu);
    pdu.extend(crc.to_be_bytes());
    pdu
}
