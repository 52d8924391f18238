//! A traffic contract in the adapter's terms: what to open, and the memory that it takes.

use serde::{Deserialize, Serialize};

use super::aal::Interleaving;
use super::vc::{Bounds, PDU_ALIGN, Tolerance};
use super::{
    Aal, AbrTerms, AttachmentIndex, ClpScope, Excess, Marks, Notification, OpenRequest, PortIndex,
    Receive, Sustained, SustainedRate, Transmit,
};
use crate::aal::aal0;
use crate::contract::{
    self, AbrWrong, Bursts, CellRate, Increment, Lateness, PduStream, Peak, Police,
    ServiceCategory, TrafficContract, TrafficDescriptor,
};
use crate::queue::ConnectionSizes;
use crate::queue::layout::{BUFFER_LEN_MAX, PAGE_LEN, QUEUE_SLOTS_MAX};
use crate::wire::{PAYLOAD_LEN, VpiVci};

/// What a contract leaves open and a VC depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// The port's line: what `max` means.
    pub line: CellRate,
    /// CDVT where the contract gives none.
    pub cdvt_ns: u64,
    /// How AAL3/4 is reassembled.
    pub interleaving: Interleaving,
    /// When the client is told of received cells.
    pub notification: Notification,
    /// The marks of AAL0 cells that this is about.
    pub marks: Marks,
    /// SDUs of the largest size that may wait to be sent; none: as many as the credit of an
    /// interval has, or as leave while the client is late.
    pub transmit_pdus: Option<u32>,
    /// PDUs that may wait to be read beyond those that the contract needs room for.
    pub receive_pdus: u32,
    /// How late the client may be: from an interrupt to its reading, or for room to its writing.
    pub wake_up_ns: u64,
    /// The adapter's [`gap_max_ns`](super::Config::gap_max_ns): what it lets come early for its own
    /// lateness.
    pub gap_max_ns: u64,
    /// The adapter's [`clump_cells`](super::Config::clump_cells).
    pub clump_cells: u16,
}

/// Why the adapter cannot serve a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// It has neither direction.
    #[error("a contract that neither transmits nor receives")]
    Nothing,
    /// Its RM cells come back on the same VC.
    #[error("abr needs both directions: its RM cells come back on the way back; leave out none")]
    AbrOneWay,
    /// RM cells stand between cells whose payload type says what they are.
    #[error("abr is for aal5: RM cells stand between the cells of its PDUs")]
    AbrOutsideAal5,
    /// The network's rate is no excess of another.
    #[error("excess= is not for abr: what the network allows is no excess")]
    AbrExcess,
    /// Its parameters contradict each other.
    #[error("{0}")]
    AbrParameters(AbrWrong),
    /// VBR is defined by SCR and MBS.
    #[error("vbr needs scr= and mbs= in each direction it has")]
    NoSustainedRate,
    /// Only VBR is.
    #[error("scr= and mbs= belong to vbr")]
    SustainedRateOutsideVbr,
    /// A sustainable rate is at most the peak.
    #[error("scr={scr} is more than the peak rate of {peak} cells/s")]
    SustainedAbovePeak {
        /// Cells/s.
        scr: u32,
        /// Cells/s.
        peak: u32,
    },
    /// AAL5 by cell starves whom it polices.
    #[error("police=cell is for aal0: aal5 and aal34 are policed by frame")]
    FramesByCell,
    /// AAL0 has no frames.
    #[error("police=frame is for aal5 and aal34: aal0 has no frames")]
    CellsByFrame,
    /// The buffer is the bound.
    #[error("police=buffer knows no excess: excess= needs a rate to exceed")]
    NoExcess,
    /// TM 4.0 tags in VBR.3; on CBR it is an extension.
    #[error("excess=tag is for vbr and cbr: best effort has nothing to exceed")]
    TaggedBestEffort,
    /// VBR has bursts of its own, and best effort no times to keep.
    #[error("burst= is for cbr; a burst of vbr is mbs=")]
    BurstOutsideCbr,
    /// A burst makes the cells of others late.
    #[error("burst={0}: at most {max} cells", max = TrafficDescriptor::BURST_MAX)]
    LongBurst(u32),
    /// Nobody can commit to a size without one.
    #[error("fixed commits to a size: max_sdu= says which")]
    FixedWithoutSize,
    /// Other AALs mark the cells of their PDUs themselves.
    #[error("marks belong to aal0: on aal5 and aal34 notification is of their PDUs")]
    MarksOutsideAal0,
    /// An AAL0 SDU is a cell.
    #[error("max_sdu={0}: an SDU of aal0 has 52 octets")]
    CellSdu(u32),
    /// The lengths of AAL3/4 and AAL5 have 16 bits.
    #[error("max_sdu={0}: an SDU has at most 65535 octets")]
    LongSdu(u32),
    /// A connection's buffers are bounded.
    #[error("a buffer of {needed} octets is needed: at most {BUFFER_LEN_MAX} can be had")]
    Buffer {
        /// Octets.
        needed: u64,
    },
}

/// A contract as the adapter serves it.
///
/// Rates are those of the contract; the burst tolerance is rounded up. VBR that receives is policed
/// by both rates: VBR.1, or VBR.3 with `excess=tag`. VBR that transmits is shaped by both, whatever
/// the loss priority of its cells: up to `mbs` of them leave at the peak rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How cells make up PDUs.
    pub aal: Aal,
    /// The receive direction, if there is one.
    pub receive: Option<Receive>,
    /// The transmit direction, if there is one.
    pub transmit: Option<Transmit>,
    /// PDUs of the largest size that its memory has room for.
    pub pdus: Waiting,
    /// Octets that conforming PDUs can take of the receive buffer.
    receive_octets: u64,
    transmit_octets: u64,
}

/// PDUs of the largest size that a VC's memory has room for; 0: the direction is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// That conform to the contract and are not given back yet, the one that is being read
    /// included.
    pub receive: u64,
    /// That wait to be sent.
    pub transmit: u64,
}

impl Terms {
    /// The terms of `contract`.
    pub fn of(contract: &TrafficContract, assumptions: &Assumptions) -> Result<Self, Unserved> {
        check(contract, assumptions.marks)?;
        let with = Context {
            contract,
            assumptions,
            aal: match contract.aal {
                Some(contract::Aal::Aal0) => Aal::Aal0,
                Some(contract::Aal::Aal34) => Aal::Aal34(interleaving(contract, assumptions)),
                Some(contract::Aal::Aal5) | None => Aal::Aal5,
            },
        };
        let receive = contract.receive.map(|d| with.receive(&d)).transpose()?;
        let transmit = contract.transmit.map(|d| with.transmit(&d)).transpose()?;
        Ok(Self {
            aal: with.aal,
            receive: receive.map(|(receive, _)| receive),
            transmit: transmit.map(|(transmit, _)| transmit),
            pdus: Waiting {
                receive: receive.map_or(0, |(_, room)| room.pdus),
                transmit: transmit.map_or(0, |(_, room)| room.pdus),
            },
            receive_octets: receive.map_or(0, |(_, room)| room.octets),
            transmit_octets: transmit.map_or(0, |(_, room)| room.octets),
        })
    }

    /// Of a contract's CDVT, what a shaper makes good when a step is late. The last eighth is for
    /// the way from the step to the line, on which a host takes now longer and now shorter: what
    /// leaves it keeps the CDVT.
    pub const fn made_good_ns(cdvt_ns: u64) -> u64 {
        cdvt_ns - cdvt_ns / 8
    }

    /// How early a PDU's first cell may be by the peak rate, and by the sustained rate, in
    /// nanoseconds, where the link brings so many cells at once; none: the rate does not judge.
    pub fn policing_ns(&self, clump_cells: u16) -> [Option<u64>; 2] {
        let Some(receive) = &self.receive else {
            return [None, None];
        };
        let tolerance = Tolerance {
            clump_cells,
            pdu_time: true,
        };
        let max_cells = Bounds::new(self.aal, receive.max_sdu).max_cells;
        let bucket = |rate, cdvt_ns| {
            let bucket = tolerance.bucket(self.aal, rate, cdvt_ns, max_cells);
            bucket.tolerance_ns()
        };
        let peak = receive.rate.map(|rate| bucket(rate, receive.cdvt_ns));
        let sustained = receive.sustained.map(|sustained| {
            let burst_ns = sustained.burst_tolerance_ns;
            bucket(sustained.rate, receive.cdvt_ns.saturating_add(burst_ns))
        });
        [peak, sustained]
    }

    /// Cells of the largest PDU that it sends; 0: it does not send.
    pub fn transmit_cells(&self) -> u32 {
        let sent = self.transmit.map(|transmit| transmit.max_sdu);
        sent.map_or(0, |sdu| Bounds::new(self.aal, sdu).max_cells.into())
    }

    /// The request that opens a VC on these terms.
    pub const fn request(
        &self,
        address: VpiVci,
        port: PortIndex,
        attachment: AttachmentIndex,
    ) -> OpenRequest {
        OpenRequest {
            address,
            port,
            aal: self.aal,
            attachment,
            receive: self.receive,
            transmit: self.transmit,
        }
    }

    /// The memory of such a VC. No conforming PDU finds its receive buffer full while its reader
    /// keeps the sustained rate and is no later than assumed; where PDUs beyond it are let in, they
    /// have as much room again. A writer has room for a whole credit and for what
    /// leaves while it is late.
    ///
    /// A queue has a slot for every 64 octets of its buffer, so that PDUs of one cell fill the
    /// buffer first, up to the 65,536 that a queue can have.
    pub fn sizes(&self) -> Result<ConnectionSizes, Unserved> {
        let shares = match self.receive {
            Some(receive) if receive.takes_more() => 2,
            _ => 1,
        };
        let (receive_slots, receive_len) = buffer(self.receive_octets.saturating_mul(shares))?;
        let (transmit_slots, transmit_len) = buffer(self.transmit_octets)?;
        Ok(ConnectionSizes {
            receive_slots,
            receive_len,
            receive_elsewhere: false,
            transmit_slots,
            transmit_len,
        })
    }

    /// The largest PDUs that a receive buffer of `sizes` has room for.
    pub fn largest_pdus(&self, sizes: &ConnectionSizes) -> u32 {
        let octets = self.receive.map_or(u64::MAX, |receive| {
            pdu_octets(self.aal, receive.max_sdu).max(PDU_ALIGN)
        });
        let pdus = u64::from(sizes.receive_len) / octets;
        sizes.receive_slots.min(pdus as u32)
    }
}

/// Slots and length of a buffer of `octets` at least, in whole pages.
fn buffer(octets: u64) -> Result<(u32, u32), Unserved> {
    let len = octets.checked_next_multiple_of(PAGE_LEN as u64);
    let len = len.and_then(|len| u32::try_from(len).ok());
    let len = len
        .filter(|len| *len <= BUFFER_LEN_MAX)
        .ok_or(Unserved::Buffer { needed: octets })?;
    // At most 2^24.
    let slots = (len / PDU_ALIGN as u32).max(1).next_power_of_two();
    Ok((slots.min(QUEUE_SLOTS_MAX), len))
}

/// PDUs of AAL3/4 in progress: as the contract says, else as is usual.
fn interleaving(contract: &TrafficContract, assumptions: &Assumptions) -> Interleaving {
    let usual = assumptions.interleaving;
    let mids = contract.mids.map(|mids| mids.get() as u16);
    Interleaving {
        mids: mids.unwrap_or(usual.mids),
        reassembly_timeout_ns: contract
            .reassembly_ns
            .unwrap_or(usual.reassembly_timeout_ns),
    }
}

/// What concerns the whole contract.
fn check(contract: &TrafficContract, marks: Marks) -> Result<(), Unserved> {
    let aal0 = contract.aal == Some(contract::Aal::Aal0);
    let best_effort = !contract.category.is_guaranteed();
    let excess = contract.excess;
    let ways = [contract.transmit, contract.receive];
    let unsized_ones = |way: &TrafficDescriptor| way.fixed && way.max_sdu.is_none();
    if ways.iter().flatten().any(unsized_ones) && !aal0 {
        return Err(Unserved::FixedWithoutSize);
    }
    if contract.transmit.is_none() && contract.receive.is_none() {
        return Err(Unserved::Nothing);
    }
    if contract.category == ServiceCategory::Abr {
        match contract.aal {
            Some(contract::Aal::Aal5) | None => {}
            _ => return Err(Unserved::AbrOutsideAal5),
        }
        if contract.transmit.is_none() || contract.receive.is_none() {
            return Err(Unserved::AbrOneWay);
        }
        if excess != contract::Excess::Discard {
            return Err(Unserved::AbrExcess);
        }
    }
    match contract.policing() {
        Police::Cell if !aal0 => Err(Unserved::FramesByCell),
        Police::Frame if aal0 => Err(Unserved::CellsByFrame),
        Police::Buffer if excess != contract::Excess::Discard => Err(Unserved::NoExcess),
        _ if best_effort && excess == contract::Excess::Tag => Err(Unserved::TaggedBestEffort),
        _ if marks != Marks::None && !aal0 => Err(Unserved::MarksOutsideAal0),
        _ => Ok(()),
    }
}

/// PDUs of the largest size, and the octets of buffer that they take.
#[derive(Clone, Copy)]
struct RoomFor {
    pdus: u64,
    octets: u64,
}

/// A contract and what it is served with.
struct Context<'a> {
    contract: &'a TrafficContract,
    assumptions: &'a Assumptions,
    aal: Aal,
}

impl Context<'_> {
    /// How it receives, and the room that conforming PDUs can take.
    fn receive(&self, descriptor: &TrafficDescriptor) -> Result<(Receive, RoomFor), Unserved> {
        let sustained = self.sustained(descriptor)?;
        let policed = self.contract.policing() != Police::Buffer;
        // The sustained rate judges beside a peak rate.
        let beside = sustained.map(|_| self.assumptions.line);
        let rate = self.peak(descriptor).or(beside);
        let mut receive = Receive {
            rate: rate.filter(|_| policed),
            sustained: sustained.filter(|_| policed),
            // A burst is early by all but the first of its cells.
            cdvt_ns: self
                .cdvt_ns(descriptor)
                .saturating_add(self.burst_ns(descriptor)?),
            max_sdu: self.max_sdu(descriptor)?,
            fixed_sdu: descriptor.fixed,
            excess: Excess::Discard,
            notification: self.assumptions.notification,
            marks: self.assumptions.marks,
            queue_threshold: 0,
            guaranteed: self.contract.category.is_guaranteed(),
        };
        let room = self.receive_room(descriptor, &receive);
        let reserve = u32::try_from(room.octets).unwrap_or(u32::MAX);
        receive.excess = match self.contract.excess {
            contract::Excess::Discard => Excess::Discard,
            contract::Excess::Tag => Excess::Tag { reserve },
            contract::Excess::WhenIdle => Excess::WhenIdle { reserve },
        };
        let tags = self.contract.excess == contract::Excess::Tag;
        if let Some(sustained) = &mut receive.sustained
            && (tags || descriptor.high_priority)
        {
            sustained.clp = ClpScope::HighPriority { reserve };
        }
        Ok((receive, room))
    }

    /// Buffer for whatever the policer lets in before the reader has given it back (paper 003's
    /// Equation 2, and what that leaves out).
    fn receive_room(&self, descriptor: &TrafficDescriptor, receive: &Receive) -> RoomFor {
        let assumed = self.assumptions;
        let stream = self.stream(descriptor, receive.max_sdu);
        let clump = assumed.clump_cells.saturating_sub(1);
        let clump_ns = Increment::of(stream.sustained).times_ns(clump.into());
        let early_ns = receive.cdvt_ns.saturating_add(assumed.gap_max_ns);
        let pdus = stream.buffer_pdus(Lateness {
            cdv_ns: early_ns.saturating_add(clump_ns),
            wake_up_ns: assumed.wake_up_ns,
            coalescing_ns: receive.notification.longest_delay_ns(),
        });
        // The policer tolerates one PDU time beside.
        let pdus = pdus.saturating_add(1 + u64::from(assumed.receive_pdus));
        let cells = pdus.saturating_mul(stream.cells.into());
        // Each in a PDU of its own, the worst that can be. On AAL3/4 every MID keeps the room of a
        // largest SDU beside.
        let kept = self.aal.interleaving().map_or(0, |interleaving| {
            u64::from(interleaving.mids) * pdu_octets(self.aal, receive.max_sdu)
        });
        RoomFor {
            pdus,
            octets: cells.saturating_mul(PDU_ALIGN).saturating_add(kept),
        }
    }

    /// How it transmits, and a buffer that does not make its writer wait.
    fn transmit(&self, descriptor: &TrafficDescriptor) -> Result<(Transmit, RoomFor), Unserved> {
        let best_effort = !self.contract.category.is_guaranteed();
        let sustained = self.sustained(descriptor)?.map(|sustained| SustainedRate {
            rate: sustained.rate,
            burst_tolerance_ns: sustained.burst_tolerance_ns,
        });
        // Where no cell may come before its time, one bucket says all.
        let sustained = sustained.filter(|sustained| sustained.burst_tolerance_ns > 0);
        self.burst_ns(descriptor)?;
        let max_sdu = self.max_sdu(descriptor)?;
        let line = self.assumptions.line;
        let transmit = Transmit {
            rate: (!best_effort).then_some(descriptor.pace(line)),
            sustained,
            cdvt_ns: Terms::made_good_ns(self.cdvt_ns(descriptor)),
            burst: descriptor.burst_cells() as u16,
            weight: descriptor.min_pcr.map_or(1, CellRate::cell_s),
            peak: self.peak(descriptor).filter(|_| best_effort),
            abr: self.abr()?,
            max_sdu,
            interrupt_on_completion: false,
        };
        let late = Lateness {
            wake_up_ns: self.assumptions.wake_up_ns,
            ..Lateness::default()
        };
        // There is room for a burst as a whole.
        let stream = PduStream {
            dvt_ns: descriptor.burst_tolerance_ns(line),
            ..self.stream(descriptor, max_sdu)
        };
        // What a credit carries over is less than one more.
        let paced = PduStream {
            sustained: descriptor.pace(line),
            ..stream
        };
        let credit = u64::from(descriptor.sensitivity(&paced).pdus()) + 1;
        let pdus = match self.assumptions.transmit_pdus {
            Some(pdus) => u64::from(pdus.max(1)),
            None => stream.buffer_pdus(late).max(credit),
        };
        // No SDU straddles the end of the buffer: what is left there may be lost.
        let places = pdus.saturating_add(1);
        let place = u64::from(max_sdu).next_multiple_of(PDU_ALIGN);
        let octets = places.saturating_mul(place);
        Ok((transmit, RoomFor { pdus, octets }))
    }

    /// How ABR paces both directions; none for other categories.
    fn abr(&self) -> Result<Option<AbrTerms>, Unserved> {
        let contract = self.contract;
        let (ServiceCategory::Abr, Some(transmit), Some(receive)) =
            (contract.category, contract.transmit, contract.receive)
        else {
            return Ok(None);
        };
        let line = self.assumptions.line;
        let parameters = |way: TrafficDescriptor| {
            let parameters = way.abr_parameters(line);
            parameters.map_err(Unserved::AbrParameters)
        };
        let transmit = parameters(transmit)?;
        Ok(Some(AbrTerms {
            transmit,
            rm: parameters(receive)?.rm_cell_s(Some(&transmit)),
            kept: receive.min_pcr,
        }))
    }

    /// The second bucket of VBR; none for other categories.
    fn sustained(&self, descriptor: &TrafficDescriptor) -> Result<Option<Sustained>, Unserved> {
        let vbr = matches!(
            self.contract.category,
            ServiceCategory::RtVbr | ServiceCategory::NrtVbr
        );
        let line = self.assumptions.line;
        match (descriptor.scr, descriptor.mbs) {
            (None, None) if !vbr => Ok(None),
            _ if !vbr => Err(Unserved::SustainedRateOutsideVbr),
            (Some(rate), Some(_)) => {
                let peak = descriptor.peak().on(line);
                if rate > peak {
                    return Err(Unserved::SustainedAbovePeak {
                        scr: rate.cell_s(),
                        peak: peak.cell_s(),
                    });
                }
                Ok(Some(Sustained {
                    rate,
                    burst_tolerance_ns: descriptor.burst_tolerance_ns(line),
                    clp: ClpScope::AllCells,
                }))
            }
            _ => Err(Unserved::NoSustainedRate),
        }
    }

    /// The peak rate, unless it is whatever the line carries. The least that best effort would like
    /// is no peak of it.
    fn peak(&self, descriptor: &TrafficDescriptor) -> Option<CellRate> {
        let peak = match self.contract.category {
            ServiceCategory::Ubr | ServiceCategory::Abr => descriptor.pcr.or(descriptor.max_pcr),
            _ => Some(descriptor.peak()),
        };
        match peak {
            Some(Peak::Rate(rate)) => Some(rate),
            Some(Peak::Max) | None => None,
        }
    }

    /// How early the last cell of a burst is.
    fn burst_ns(&self, descriptor: &TrafficDescriptor) -> Result<u64, Unserved> {
        let cells = descriptor.burst_cells();
        if cells > 1 && self.contract.category != ServiceCategory::Cbr {
            return Err(Unserved::BurstOutsideCbr);
        }
        if cells > TrafficDescriptor::BURST_MAX {
            return Err(Unserved::LongBurst(cells));
        }
        let rate = descriptor.peak().on(self.assumptions.line);
        Ok(Bursts::early_ns(Increment::of(rate), cells))
    }

    fn cdvt_ns(&self, descriptor: &TrafficDescriptor) -> u64 {
        descriptor.cdvt_ns.unwrap_or(self.assumptions.cdvt_ns)
    }

    fn max_sdu(&self, descriptor: &TrafficDescriptor) -> Result<u16, Unserved> {
        let said = descriptor.max_sdu.map(|octets| octets.get());
        match (self.aal, said) {
            (Aal::Aal0, None) => Ok(aal0::SDU_LEN as u16),
            (Aal::Aal0, Some(octets)) if octets as usize != aal0::SDU_LEN => {
                Err(Unserved::CellSdu(octets))
            }
            (_, said) => {
                let octets = said.unwrap_or(u16::MAX.into());
                u16::try_from(octets).map_err(|_| Unserved::LongSdu(octets))
            }
        }
    }

    /// The largest PDUs, at the rate that the direction may keep up, with all that may come early.
    fn stream(&self, descriptor: &TrafficDescriptor, max_sdu: u16) -> PduStream {
        let line = self.assumptions.line;
        let (peak, sustained) = match self.contract.category {
            ServiceCategory::Ubr | ServiceCategory::Abr => {
                let peak = self.peak(descriptor).map_or(line, |peak| peak.min(line));
                (peak, peak)
            }
            _ => (descriptor.peak().on(line), descriptor.sustained(line)),
        };
        let tau_ns = descriptor.dvt_ns.unwrap_or(0);
        PduStream {
            peak,
            sustained,
            sdu: max_sdu.into(),
            cells: Bounds::new(self.aal, max_sdu).max_cells.into(),
            dvt_ns: tau_ns.max(descriptor.burst_tolerance_ns(line)),
        }
    }
}

/// Octets of buffer of the largest PDU.
pub(crate) fn pdu_octets(aal: Aal, max_sdu: u16) -> u64 {
    let cells = u64::from(Bounds::new(aal, max_sdu).max_cells);
    (cells * PAYLOAD_LEN as u64).next_multiple_of(PDU_ALIGN)
}
