//! From what an application asks for to what is asked of admission and of the adapter.

use super::chain::Room;
use super::{
    AdmissionConfig, Buffers, DelayBounds, Demand, Direction, Idle, Open, Precedence, ReceiveBound,
    Refused, ServerAdapter, ServerConfig, Shortage, Surroundings, TransmitBound,
};
use crate::aal::aal34;
use crate::adapter::{
    Aal, Assumptions, AttachmentIndex, Notification, OpenRequest, PortIndex, Terms,
};
use crate::contract::{
    CellRate, Credit, PduStream, Peak, ServiceCategory, TrafficContract, TrafficDescriptor,
    aal5_cells,
};
use crate::keeper::{NewRegion, ReceiveInto};
use crate::queue::layout::PDU_ALIGN;
use crate::queue::{AttachmentGeometry, AttachmentSizes, ConnectionGeometry, ConnectionSizes};
use crate::wire::{PAYLOAD_LEN, VpiVci};

/// What the rest of an interface gives a best-effort connection, in cells/s; none: the direction
/// is not there, or guaranteed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Share {
    pub(super) transmit: Option<CellRate>,
    pub(super) receive: Option<CellRate>,
}

/// A connection as it is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) contract: TrafficContract,
    pub(super) terms: Terms,
    pub(super) sizes: ConnectionSizes,
    pub(super) demand: Demand,
    line: CellRate,
    /// [`ServerAdapter::gap_max_ns`].
    gap_max_ns: u64,
    /// [`ServerAdapter::late_ns`], if the adapter rests while it is open.
    rest_late_ns: Option<u64>,
    /// [`ServerAssumptions::wake_up_ns`](super::ServerAssumptions::wake_up_ns).
    wake_up_ns: u64,
    /// The adapter does not rest while it is open.
    pub(super) keeps_awake: bool,
}

/// What a plan depends on beside the contract.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances<'a> {
    pub(super) config: &'a ServerConfig,
    pub(super) adapter: &'a ServerAdapter,
    pub(super) admission: &'a AdmissionConfig,
    pub(super) open: &'a Open,
    /// Of the interface.
    pub(super) line: CellRate,
    pub(super) worker: bool,
    /// Where its PDUs are put together, if that is not memory of its own.
    pub(super) room: Option<Room<'a>>,
}

/// An adapter that always sleeps is late by more than a contract allows.
fn too_exact(cdvt_ns: u64, least_ns: u64) -> Refused {
    let us = |ns: u64| ns.div_ceil(1_000);
    Refused::Unsupported(format!(
        "cdvt={}us: an adapter with idle = \"sleep\" is late by more; cdvt={}us would do, or \
         idle = \"adaptive\"",
        us(cdvt_ns),
        us(least_ns)
    ))
}

impl Circumstances<'_> {
    pub(super) fn plan(&self, contract: &TrafficContract) -> Result<Plan, Refused> {
        let (assume, adapter) = (&self.config.assumptions, self.adapter);
        let assumptions = Assumptions {
            line: self.line,
            cdvt_ns: assume.cdvt_ns,
            interleaving: assume.interleaving,
            notification: self.open.notification.unwrap_or(Notification::LastCell),
            marks: self.open.marks,
            transmit_pdus: self.open.transmit_pdus,
            receive_pdus: self.open.receive_pdus.unwrap_or(0),
            wake_up_ns: assume.wake_up_ns,
            gap_max_ns: adapter.gap_max_ns,
            clump_cells: adapter.clump_cells,
        };
        let unserved = |why: crate::adapter::Unserved| Refused::Unsupported(why.to_string());
        let mut terms = Terms::of(contract, &assumptions).map_err(unserved)?;
        states_its_rates(contract)?;
        let mut keeps_awake = false;
        if let Some(transmit) = &mut terms.transmit {
            let said = contract.transmit.and_then(|descriptor| descriptor.cdvt_ns);
            let cdvt_ns = said.unwrap_or(assume.cdvt_ns);
            keeps_awake = adapter.is_kept_awake_by(transmit, cdvt_ns);
            if keeps_awake && adapter.idle == Idle::Sleep {
                return Err(too_exact(cdvt_ns, adapter.least_cdvt_ns()));
            }
            transmit.interrupt_on_completion = self.open.completions;
        }
        let mut sizes = terms.sizes().map_err(unserved)?;
        if let Some(room) = &self.room {
            room.hold(&terms, &mut sizes)?;
        }
        let mut plan = Plan {
            contract: *contract,
            terms,
            sizes,
            demand: Demand::default(),
            line: self.line,
            gap_max_ns: adapter.gap_max_ns,
            rest_late_ns: (adapter.idle.rests() && !keeps_awake).then_some(adapter.late_ns),
            wake_up_ns: assume.wake_up_ns,
            keeps_awake,
        };
        plan.demand = self.demand(&plan)?;
        self.set_threshold(&mut plan)?;
        Ok(plan)
    }

    /// The fill at which the adapter tells of the receive queue.
    fn set_threshold(&self, plan: &mut Plan) -> Result<(), Refused> {
        let Some(threshold) = self.open.queue_threshold else {
            return Ok(());
        };
        let unserved = |text: String| Refused::Unsupported(format!("queue-threshold: {text}"));
        let largest = plan.terms.largest_pdus(&plan.sizes);
        let Some(receive) = &mut plan.terms.receive else {
            return Err(unserved("the connection receives nothing".to_owned()));
        };
        let (pdus, slots) = (threshold.pdus(largest), plan.sizes.receive_slots);
        if pdus > slots {
            let text = format!("{pdus} PDUs are more than the {slots} of the receive queue");
            return Err(unserved(text));
        }
        receive.queue_threshold = pdus;
        Ok(())
    }

    /// The plan with the memory that the connection has, if that is large enough.
    pub(super) fn keep_memory(&self, plan: Plan, has: ConnectionSizes) -> Result<Plan, Refused> {
        let needs = plan.sizes;
        let fits = needs.receive_slots <= has.receive_slots
            && needs.receive_len <= has.receive_len
            && needs.transmit_slots <= has.transmit_slots
            && needs.transmit_len <= has.transmit_len;
        // What an AAL3/4 VC may hold changes only with its memory.
        if !fits || plan.terms.aal.interleaving().is_some() {
            return Ok(plan);
        }
        let mut plan = Plan { sizes: has, ..plan };
        plan.demand = self.demand(&plan)?;
        self.set_threshold(&mut plan)?;
        Ok(plan)
    }

    fn demand(&self, plan: &Plan) -> Result<Demand, Refused> {
        let mut demand = Demand {
            memory: memory(plan, self.config.attachment)?,
            connections: 1,
            ..Demand::default()
        };
        for direction in [Direction::Transmit, Direction::Receive] {
            let Some(max_sdu) = plan.max_sdu(direction) else {
                continue;
            };
            let bandwidth = match direction {
                Direction::Transmit => &mut demand.transmit,
                Direction::Receive => &mut demand.receive,
            };
            bandwidth.best_effort = u64::from(!plan.is_guaranteed());
            let Some(rate) = plan.guaranteed(direction).or(plan.floor(direction)) else {
                continue;
            };
            // Nobody can promise a rate above the line; a peak beside SCR is not promised.
            let promised = plan.descriptor(direction).filter(|_| plan.is_guaranteed());
            let stated = promised.map(|d| (d.peak(), d.scr));
            let cell_s = match stated {
                Some((Peak::Rate(peak), None)) if peak > self.line => peak.cell_s().into(),
                _ => u64::from(rate.cell_s()),
            };
            bandwidth.guaranteed = cell_s;
            let largest = plan.pdu_cells(max_sdu);
            let floor = self.admission.sdu_floor.unwrap_or(max_sdu).min(max_sdu);
            let reserved = plan.pdu_cells(floor);
            let (adapter, worker) = (&self.admission.adapter_law, &self.admission.worker_law);
            demand.adapter_ppm += adapter.reserve_ppm(direction, cell_s, reserved);
            demand.adapter_expected_ppm += adapter.expected_ppm(direction, cell_s, largest);
            if self.worker {
                demand.worker_ppm += worker.reserve_ppm(direction, cell_s, reserved);
                demand.worker_expected_ppm += worker.expected_ppm(direction, cell_s, largest);
            }
        }
        Ok(demand)
    }

    /// A contract like `contract`, at the highest rate for which `fits` holds of its plan. First
    /// only the direction of the shortage is lowered, then both. `fits` holds of every rate below
    /// one of which it holds.
    pub(super) fn offer(
        &self,
        contract: &TrafficContract,
        shortage: &Shortage,
        fits: impl Fn(Plan) -> bool,
    ) -> Option<TrafficContract> {
        use super::Resource::{ReceiveBandwidth, TransmitBandwidth};
        if !contract.category.is_guaranteed() && floors(contract) == [None, None] {
            return None;
        }
        let fits = |contract: &TrafficContract| self.plan(contract).is_ok_and(&fits);
        let both = (true, true);
        let first = match shortage.resource {
            TransmitBandwidth => (true, false),
            ReceiveBandwidth => (false, true),
            _ => both,
        };
        [first, both].into_iter().find_map(|ways| {
            let top = top_cell_s(contract, ways, self.line);
            let at = |cell_s| scaled(contract, ways, self.line, cell_s, top);
            // What was asked for can be more than the line, and the line itself fit.
            let (mut good, mut bad) = (0, top.saturating_add(1));
            while bad - good > 1 {
                let middle = good + (bad - good) / 2;
                if fits(&at(middle)) {
                    good = middle;
                } else {
                    bad = middle;
                }
            }
            let offer = at(good.max(1));
            (good > 0 && acceptable(&offer, self.line)).then_some(offer)
        })
    }
}

/// What is promised is a rate of at least a cell/s, and the least that will do is at most the peak.
/// (As in Linux; VBR states its rate as SCR.)
fn states_its_rates(contract: &TrafficContract) -> Result<(), Refused> {
    for descriptor in [contract.transmit, contract.receive].iter().flatten() {
        let rates = (descriptor.pcr, descriptor.max_pcr, descriptor.min_pcr);
        if contract.category == ServiceCategory::Cbr && rates == (None, None, None) {
            let text = "a guaranteed connection states its rate: pcr=, at least one cell/s";
            return Err(Refused::Unsupported(text.to_owned()));
        }
        let least = descriptor.min_pcr.map_or(0, CellRate::cell_s);
        if let Peak::Rate(peak) = descriptor.peak()
            && least > peak.cell_s()
        {
            let peak = peak.cell_s();
            let text = format!("min_pcr={least} is more than the peak rate of {peak} cells/s");
            return Err(Refused::Unsupported(text));
        }
    }
    Ok(())
}

/// The least rates of ABR, in both directions.
fn floors(contract: &TrafficContract) -> [Option<CellRate>; 2] {
    let of_abr = contract.category == ServiceCategory::Abr;
    let floor = |way: Option<TrafficDescriptor>| way.filter(|_| of_abr)?.min_pcr;
    [floor(contract.transmit), floor(contract.receive)]
}

/// The highest rate that is promised among the directions to be lowered: the peak, of ABR the
/// floor.
fn top_cell_s(contract: &TrafficContract, ways: (bool, bool), line: CellRate) -> u32 {
    let peak = |way: bool, descriptor: Option<TrafficDescriptor>| {
        let descriptor = descriptor.filter(|_| way);
        let of_abr = contract.category == ServiceCategory::Abr;
        descriptor.map_or(0, |descriptor| {
            match descriptor.min_pcr.filter(|_| of_abr) {
                Some(floor) => floor.min(line).cell_s(),
                None if of_abr => 0,
                None => descriptor.peak().on(line).cell_s(),
            }
        })
    };
    peak(ways.0, contract.transmit).max(peak(ways.1, contract.receive))
}

/// The contract with the rates of some directions at `cell_s` of `top`.
fn scaled(
    contract: &TrafficContract,
    ways: (bool, bool),
    line: CellRate,
    cell_s: u32,
    top: u32,
) -> TrafficContract {
    let scale = |rate: CellRate| {
        // At most the rate.
        let scaled = u64::from(rate.cell_s()) * u64::from(cell_s) / u64::from(top.max(1));
        CellRate::new((scaled as u32).max(1)).unwrap_or(rate)
    };
    let lower = |way: bool, descriptor: Option<TrafficDescriptor>| {
        descriptor.map(|descriptor| match way {
            false => descriptor,
            true if contract.category == ServiceCategory::Abr => TrafficDescriptor {
                min_pcr: descriptor.min_pcr.map(|floor| scale(floor.min(line))),
                ..descriptor
            },
            true => TrafficDescriptor {
                pcr: Some(Peak::Rate(scale(descriptor.peak().on(line)))),
                scr: descriptor.scr.map(scale),
                ..descriptor
            },
        })
    };
    TrafficContract {
        transmit: lower(ways.0, contract.transmit),
        receive: lower(ways.1, contract.receive),
        ..*contract
    }
}

/// Whether the peak rates are at least what will do.
fn acceptable(contract: &TrafficContract, line: CellRate) -> bool {
    let ways = [contract.transmit, contract.receive];
    let of_abr = contract.category == ServiceCategory::Abr;
    ways.iter().flatten().all(|descriptor| {
        let least = descriptor.min_pcr;
        least.is_none_or(|least| of_abr || descriptor.peak().on(line) >= least)
    })
}

/// Octets of a connection's memory: its files, those of an attachment, and what the adapter keeps
/// to itself.
fn memory(plan: &Plan, attachment: AttachmentSizes) -> Result<u64, Refused> {
    let unsupported = |error: crate::queue::GeometryError| Refused::Unsupported(error.to_string());
    let attachment = AttachmentGeometry::new(attachment).map_err(unsupported)?;
    let connection = ConnectionGeometry::new(plan.sizes).map_err(unsupported)?;
    let files = [
        attachment.from_adapter_len(),
        attachment.from_client_len(),
        connection.from_adapter_len(),
        connection.from_client_len(),
    ];
    let staging = match (plan.terms.transmit, plan.terms.aal) {
        (None, _) => 0,
        (_, Aal::Aal34(_)) => usize::from(aal34::cells(u16::MAX)) * PAYLOAD_LEN,
        _ => aal5_cells(u16::MAX.into()) as usize * PAYLOAD_LEN,
    };
    let nowhere = (VpiVci::default(), PortIndex(0), AttachmentIndex(0));
    let request = plan.terms.request(nowhere.0, nowhere.1, nowhere.2);
    let limits = request.aal34_limits(plan.sizes.receive_len, plan.sizes.receive_slots);
    let reassembler = limits.as_ref().map_or(0, aal34::Reassembler::memory_len);
    Ok((files.iter().sum::<usize>() + staging + reassembler) as u64)
}

impl Plan {
    /// The memory that it needs, new.
    pub(super) fn region(&self) -> NewRegion {
        NewRegion {
            sizes: self.sizes,
            receive_into: ReceiveInto::Own,
        }
    }

    pub(super) fn is_guaranteed(&self) -> bool {
        self.contract.category.is_guaranteed()
    }

    /// Cells that it may send before another connection's.
    pub(super) fn precedence(&self) -> Precedence {
        let transmit = self.terms.transmit.as_ref();
        transmit.map_or_else(Precedence::default, Precedence::of)
    }

    /// The memory for PDUs.
    pub(super) fn buffers(&self) -> Buffers {
        Buffers {
            receive_pdus: self.terms.pdus.receive,
            receive_octets: self.sizes.receive_len.into(),
            transmit_pdus: self.terms.pdus.transmit,
            transmit_octets: self.sizes.transmit_len.into(),
        }
    }

    /// How long PDUs take at most, where others may send so much before them.
    pub(super) fn bound(&self, others: Precedence) -> DelayBounds {
        let around = Surroundings {
            line: self.line,
            others,
            rest_late_ns: self.rest_late_ns,
            gap_max_ns: self.gap_max_ns,
            wake_up_ns: self.wake_up_ns,
        };
        let cells = self.terms.transmit_cells();
        let transmit = self.terms.transmit.as_ref().and_then(|transmit| {
            let room = u64::from(transmit.max_sdu).next_multiple_of(PDU_ALIGN as u64);
            let waiting = u64::from(self.sizes.transmit_len) / room.max(1);
            TransmitBound::of(transmit, cells, waiting, &around)
        });
        let receive = self.terms.receive.as_ref();
        DelayBounds {
            transmit,
            receive: receive.and_then(|receive| ReceiveBound::of(receive, &around)),
        }
    }

    pub(super) fn sends(&self) -> bool {
        self.terms.transmit.is_some()
    }

    fn descriptor(&self, direction: Direction) -> Option<TrafficDescriptor> {
        match direction {
            Direction::Transmit => self.contract.transmit,
            Direction::Receive => self.contract.receive,
        }
    }

    pub(super) fn max_sdu(&self, direction: Direction) -> Option<u16> {
        match direction {
            Direction::Transmit => self.terms.transmit.map(|transmit| transmit.max_sdu),
            Direction::Receive => self.terms.receive.map(|receive| receive.max_sdu),
        }
    }

    /// What the adapter lets come early, at its port and by its own stalls.
    pub(super) fn receive_early_ns(&self) -> u64 {
        let receive = self.terms.receive;
        receive.map_or(0, |receive| receive.cdvt_ns.saturating_add(self.gap_max_ns))
    }

    pub(super) fn pdu_cells(&self, sdu: u16) -> u32 {
        match self.terms.aal {
            Aal::Aal0 => 1,
            Aal::Aal5 => aal5_cells(sdu.into()),
            Aal::Aal34(_) => aal34::cells(sdu).into(),
        }
    }

    /// Cells/s that a direction keeps up; none: it is not there, or best effort.
    pub(super) fn guaranteed(&self, direction: Direction) -> Option<CellRate> {
        let descriptor = self.descriptor(direction).filter(|_| self.is_guaranteed());
        descriptor.map(|descriptor| descriptor.sustained(self.line))
    }

    /// The least rate of a direction of ABR, in cells/s, which is reserved.
    pub(super) fn floor(&self, direction: Direction) -> Option<CellRate> {
        let of_abr = self.contract.category == ServiceCategory::Abr;
        self.descriptor(direction).filter(|_| of_abr)?.min_pcr
    }

    /// What a direction of best effort has, which gets `cell_s` cells/s of the rest: its floor
    /// beside.
    pub(super) fn share(&self, direction: Direction, cell_s: u64) -> Option<CellRate> {
        let floor = self.floor(direction).map_or(0, CellRate::cell_s);
        let sum = cell_s.saturating_add(floor.into());
        CellRate::new(u32::try_from(sum).unwrap_or(u32::MAX))
    }

    /// What a direction of best effort claims of the rest.
    pub(super) fn claim(&self, direction: Direction) -> Option<super::share::Claim> {
        let descriptor = self
            .descriptor(direction)
            .filter(|_| !self.is_guaranteed())?;
        let most = match direction {
            Direction::Transmit => self.terms.transmit.and_then(|transmit| transmit.peak),
            Direction::Receive => self.terms.receive.and_then(|receive| receive.rate),
        };
        Some(super::share::Claim {
            weight: descriptor.min_pcr.map_or(1, CellRate::cell_s),
            most: most.map(|rate| {
                let floor = self.floor(direction).map_or(0, CellRate::cell_s);
                rate.cell_s().saturating_sub(floor).into()
            }),
        })
    }

    /// The adapter's request. Best effort is policed by the peak rate of its contract, if that has
    /// one, and never by its share: what its sender was allowed to send is still on its way when
    /// the share shrinks.
    pub(super) fn request(
        &self,
        address: VpiVci,
        port: PortIndex,
        attachment: AttachmentIndex,
    ) -> OpenRequest {
        self.terms.request(address, port, attachment)
    }

    /// The pace of a direction: of what is guaranteed, or of a share. A writer of VBR has the pace
    /// of its bursts: its shaper holds back what its sustained rate and burst tolerance do not let
    /// leave.
    pub(super) fn credit(&self, direction: Direction, share: Option<CellRate>) -> Option<Credit> {
        let sdu = self.max_sdu(direction)?;
        let sent = self
            .terms
            .transmit
            .filter(|_| direction == Direction::Transmit);
        let sent = sent.and_then(|transmit| transmit.rate);
        let rate = sent.or(self.guaranteed(direction)).or(share)?;
        let stream = PduStream {
            peak: rate,
            sustained: rate,
            sdu: sdu.into(),
            cells: self.pdu_cells(sdu),
            dvt_ns: 0,
        };
        let descriptor = match direction {
            Direction::Transmit => self.contract.transmit?,
            Direction::Receive => self.contract.receive?,
        };
        Some(stream.credit(descriptor.sensitivity(&stream)))
    }
}
