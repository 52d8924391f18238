//! One end of a VC of ABR by the letter of TM 4.0, sections 5.10.4 and 5.10.5: the cells that its
//! adapter has sent and received, one by one, and what must follow from them.
//!
//! It shares no arithmetic with the core: rates are in 2^-40 cells/s, a decrease is not rounded,
//! and RM cells are read octet by octet.

use cellgate_core::adapter::{AbrStats, OpenRequest};
use cellgate_core::contract::AbrParameters;

use super::bits::remainder10;

/// A law, and how it was broken.
pub(crate) type Wrong = (&'static str, String);

/// Bits behind the point of a rate.
const POINT: u32 = 40;
/// By so much two that round otherwise may differ, after any number of decreases: 1/256 cell/s.
const ROUNDED: u128 = 1 << (POINT - 8);
const NS_PER_S: u128 = 1_000_000_000;
/// Out-of-rate RM cells are so far apart (TCR, 10 cells/s), and rates below that have some.
const TCR: u32 = 10;
const PROBES_NS: u64 = NS_PER_S as u64 / TCR as u64;
/// Notices of a destination's own are so far apart (rule 5).
const NOTICES_NS: u64 = 100_000_000;
/// Cells that a step may send early because a floor of its own sends them.
const SLACK: u128 = 2;
/// Cells by which what is sent may be behind MCR, beside what bursts and some steps cost.
const BEHIND: u128 = 4;
const LATE: u64 = 8;

/// An RM cell's payload: what rules speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rm {
    /// ID, and the octet of DIR, BN, CI, NI and RA, as they came.
    flags: u8,
    /// ER, CCR, MCR, QL, SN.
    fields: [u8; 14],
}

const DIR: u8 = 0x80;
const BN: u8 = 0x40;
const CI: u8 = 0x20;
const NI: u8 = 0x10;

impl Rm {
    fn er(&self) -> u16 {
        u16::from_be_bytes([self.fields[0], self.fields[1]])
    }

    fn ccr(&self) -> u16 {
        u16::from_be_bytes([self.fields[2], self.fields[3]])
    }

    fn mcr(&self) -> u16 {
        u16::from_be_bytes([self.fields[4], self.fields[5]])
    }

    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What a cell is to ABR.
enum Kind {
    Data { marked: bool, last: bool },
    Rm(Rm),
    WrongCrc,
    OtherProtocol,
    Other,
}

fn kind(cell: &[u8; 53]) -> Kind {
    match cell[3] >> 1 & 7 {
        pti @ 0..=3 => Kind::Data {
            marked: pti & 2 != 0,
            last: pti & 1 != 0,
        },
        6 if remainder10(&cell[5..]) != 0 => Kind::WrongCrc,
        6 if cell[5] != 1 => Kind::OtherProtocol,
        6 => {
            let mut fields = [0; 14];
            fields.copy_from_slice(&cell[7..21]);
            Kind::Rm(Rm {
                flags: cell[6],
                fields,
            })
        }
        _ => Kind::Other,
    }
}

/// What the form of an RM cell says: nz * 2^e * (1 + m / 512).
fn rate_of(code: u16) -> u128 {
    match code >> 14 & 1 {
        0 => 0,
        _ => u128::from(512 + (code & 511)) << (POINT - 9 + u32::from(code >> 9 & 31)),
    }
}

/// The largest rate of that form that is not above one; none below a cell/s.
fn code_of(rate: u128) -> u16 {
    match rate >> POINT {
        0 => 0,
        whole if whole >> 32 > 0 => 0x7fff,
        whole => {
            let e = whole.ilog2();
            let m = rate >> (POINT + e - 9) & 511;
            0x4000 | (e as u16) << 9 | m as u16
        }
    }
}

const fn cells_s(rate: u32) -> u128 {
    (rate as u128) << POINT
}

/// An end of a VC.
#[derive(Clone, Debug)]
pub(crate) struct AbrEnd {
    told: AbrParameters,
    cdvt_ns: u64,
    /// A cell waits for the adapter's next step, or for the one on the line.
    turn_ns: u64,
    acr: u128,
    /// When the last in-rate forward RM cell left, in-rate cells since, and whether a backward RM
    /// cell is among them.
    forward: Option<u64>,
    cells: u32,
    turned: bool,
    /// In-rate forward RM cells that have had no answer, and all that may have one yet.
    unanswered: u64,
    expected: u64,
    probe: Option<u64>,
    /// In the middle of a PDU that leaves.
    is_inside: bool,
    /// When the next cell is due by ACR, in 2^-16 ns.
    due: i128,
    /// Cells of MCR that were not sent though cells waited, times 10^9; and since when they wait at
    /// a rate below TCR.
    behind: u128,
    slow_since: Option<u64>,
    /// Data waited at the last step.
    waited: bool,
    /// The forward RM cell that waits to go back, and EFCI of the last cell of data; none: it is
    /// not known, for cells were thrown away.
    waiting: Option<Rm>,
    marked: Option<bool>,
    noticed: Option<u64>,
    counts: Counts,
}

/// RM cells, as the adapter is to have counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    forward_sent: u64,
    backward_sent: u64,
    forward_received: u64,
    backward_received: u64,
    replaced: u64,
    crc_error: u64,
    wrong_protocol: u64,
    unasked: u64,
}

impl AbrEnd {
    /// That of a VC that an adapter opens, where a cell has its turn so often; none: it has no ABR.
    pub(crate) fn new(request: &OpenRequest, turn_ns: u64) -> Option<Self> {
        let transmit = request.transmit?;
        let told = transmit.abr?.transmit;
        Some(Self {
            told,
            cdvt_ns: transmit.cdvt_ns,
            turn_ns,
            acr: cells_s(told.icr.cell_s()),
            forward: None,
            cells: 0,
            turned: false,
            unanswered: 0,
            expected: 0,
            probe: None,
            is_inside: false,
            due: 0,
            behind: 0,
            slow_since: None,
            waited: false,
            waiting: None,
            marked: Some(false),
            noticed: None,
            counts: Counts::default(),
        })
    }

    fn pcr(&self) -> u128 {
        cells_s(self.told.pcr.cell_s())
    }

    fn mcr(&self) -> u128 {
        self.told.mcr.map_or(0, |mcr| cells_s(mcr.cell_s()))
    }

    fn icr(&self) -> u128 {
        cells_s(self.told.icr.cell_s())
    }

    /// Rule 1.
    fn set(&mut self, now: u64, acr: u128) {
        let acr = acr.min(self.pcr()).max(self.mcr());
        let (now, before) = (i128::from(now) << 16, self.acr);
        // What was sent stays sent: for so long, or for so many cells if that is less.
        if acr > before && self.due > now {
            let owed = (self.due - now) as u128;
            self.due = now + (owed.saturating_mul(before >> 20) / (acr >> 20).max(1)) as i128;
        }
        self.acr = acr;
    }

    /// Rule 3a: whether the next in-rate cell is a forward RM cell.
    fn is_forward_due(&self, now: u64) -> bool {
        let Some(last) = self.forward else {
            return true;
        };
        let by_time = self.cells >= 2 && now - last >= self.told.trm_ns;
        self.cells + 1 >= u32::from(self.told.nrm) || by_time
    }

    /// A cell leaves. `loses`: its VC has thrown PDUs away for want of room.
    pub(crate) fn sends(&mut self, now: u64, cell: &[u8; 53], loses: bool) -> Result<(), Wrong> {
        let low = cell[3] & 1 == 1;
        match kind(cell) {
            Kind::Rm(rm) if !rm.is(DIR) && low => self.probes(now, &rm),
            Kind::Rm(rm) if !rm.is(DIR) => {
                self.is_in_rate(now)?;
                self.sends_forward(now, &rm)
            }
            Kind::Rm(rm) => self.sends_backward(now, &rm, low, loses),
            Kind::Data { last, .. } => {
                self.is_in_rate(now)?;
                self.is_other(now)?;
                if self.waiting.is_some() && !self.turned {
                    return wrong("A4", "a cell of data goes before a backward RM cell");
                }
                self.is_inside = !last;
                Ok(())
            }
            Kind::WrongCrc | Kind::OtherProtocol => wrong("A4", "an RM cell leaves that is none"),
            Kind::Other => Ok(()),
        }
    }

    /// A1: an in-rate cell leaves no earlier than ACR lets it, but for the tolerance.
    fn is_in_rate(&mut self, now: u64) -> Result<(), Wrong> {
        let gap = |cells: u128| -> i128 {
            let each = ((NS_PER_S << 16) << POINT).checked_div(self.acr);
            each.map_or(i128::MAX >> 8, |each| (each * cells) as i128)
        };
        let at = i128::from(now) << 16;
        let early = self.due - at - (i128::from(self.cdvt_ns) << 16) - gap(SLACK);
        if early > 0 {
            let (rate, early) = (self.acr >> POINT, early >> 16);
            return Err((
                "A1",
                format!("a cell leaves {early} ns early at {rate} cells/s"),
            ));
        }
        self.due = self.due.max(at) + gap(1);
        self.behind = self.behind.saturating_sub(NS_PER_S);
        Ok(())
    }

    /// A3: no other cell leaves where a forward RM cell is due.
    fn is_other(&mut self, now: u64) -> Result<(), Wrong> {
        if self.is_forward_due(now) {
            let (cells, nrm) = (self.cells, self.told.nrm);
            let text = format!("another cell leaves than a forward RM cell, {cells} of {nrm}");
            return Err(("A3", text));
        }
        self.cells += 1;
        Ok(())
    }

    fn sends_forward(&mut self, now: u64, rm: &Rm) -> Result<(), Wrong> {
        self.counts.forward_sent += 1;
        if !self.is_forward_due(now) {
            let cells = self.cells;
            return Err((
                "A3",
                format!("a forward RM cell leaves behind {cells} cells"),
            ));
        }
        // Rule 5, then rule 6.
        let unused = self
            .forward
            .is_some_and(|last| now - last > self.told.adtf_ns);
        if unused && self.acr > self.icr() {
            self.set(now, self.icr());
        }
        let missing = u64::from(self.told.tbe.div_ceil(u32::from(self.told.nrm)));
        if let Some(cdf) = self.told.cdf
            && self.unanswered >= missing
        {
            self.set(now, self.acr - self.acr / u128::from(cdf.of()));
        }
        (self.forward, self.cells, self.turned) = (Some(now), 0, false);
        self.unanswered += 1;
        self.expected += 1;
        // Rule 7.
        let most = code_of(self.acr + ROUNDED);
        let least = code_of(self.acr.saturating_sub(ROUNDED));
        let (ccr, er, mcr) = (rm.ccr(), code_of(self.pcr()), code_of(self.mcr()));
        if ccr < least || ccr > most {
            let (told, due) = (rate_of(ccr) >> POINT, self.acr >> POINT);
            return Err((
                "A2",
                format!("an RM cell tells {told} cells/s, ACR is {due}"),
            ));
        }
        match rm.flags == 0 && rm.er() == er && rm.mcr() == mcr {
            true => Ok(()),
            false => Err(("A4", format!("a forward RM cell has {rm:02x?}"))),
        }
    }

    /// An out-of-rate forward RM cell (rule 11).
    fn probes(&mut self, now: u64, rm: &Rm) -> Result<(), Wrong> {
        self.counts.forward_sent += 1;
        let early = self.probe.is_some_and(|last| {
            // One may wait for the line from step to step.
            now + 4 * self.turn_ns < last + PROBES_NS
        });
        self.probe = Some(now);
        self.expected += 1;
        match early || rm.flags != 0 {
            true => wrong("A3", "out-of-rate RM cells leave faster than TCR"),
            false => Ok(()),
        }
    }

    /// A4: what goes back is the forward RM cell that came last, once; or a notice. Of low priority
    /// it is out of rate.
    fn sends_backward(&mut self, now: u64, rm: &Rm, low: bool, loses: bool) -> Result<(), Wrong> {
        self.counts.backward_sent += 1;
        if !low {
            self.is_in_rate(now)?;
            self.is_other(now)?;
            if self.turned && self.is_inside {
                return wrong("A4", "a second backward RM cell goes before data");
            }
            self.turned = true;
        }
        if rm.is(BN) {
            let soon = |last: u64| now + 4 * self.turn_ns < last + NOTICES_NS;
            let early = self.noticed.is_some_and(soon);
            self.noticed = Some(now);
            return match early || !loses || !rm.is(CI) {
                true => wrong("A4", "a notice leaves for nothing"),
                false => Ok(()),
            };
        }
        let Some(came) = self.waiting.take() else {
            return wrong("A4", "an RM cell goes back that nobody has sent");
        };
        let is_same = came.fields == rm.fields && (came.flags | DIR | CI) == rm.flags | CI;
        let marked = self.marked.replace(false);
        let congested = came.is(CI) || marked == Some(true);
        // Who throws PDUs away tells it, too.
        let is_told = match loses || marked.is_none() {
            true => rm.is(CI) || !congested,
            false => rm.is(CI) == congested,
        };
        match is_same && is_told {
            true => Ok(()),
            false => {
                let text = format!("{rm:02x?} goes back, {came:02x?} came, EFCI {marked:?}");
                Err(("A4", text))
            }
        }
    }

    /// A cell is taken.
    pub(crate) fn takes(&mut self, now: u64, cell: &[u8; 53]) {
        match kind(cell) {
            Kind::Data { marked, .. } => self.marked = Some(marked),
            Kind::WrongCrc => self.counts.crc_error += 1,
            Kind::OtherProtocol => self.counts.wrong_protocol += 1,
            Kind::Rm(rm) if !rm.is(DIR) => {
                self.counts.forward_received += 1;
                self.counts.replaced += u64::from(self.waiting.replace(rm).is_some());
            }
            Kind::Rm(rm) => self.is_answered(now, &rm),
            Kind::Other => {}
        }
    }

    /// Of the cells of data that came nobody knows which were looked at: some were thrown away.
    pub(crate) fn forgets_marks(&mut self) {
        self.marked = None;
    }

    /// Rules 8 and 9.
    fn is_answered(&mut self, now: u64, rm: &Rm) {
        self.counts.backward_received += 1;
        let answers = rm.is(BN) || self.expected > 0;
        self.counts.unasked += u64::from(!answers);
        if !rm.is(BN) {
            self.expected = self.expected.saturating_sub(1);
            if answers {
                self.unanswered = 0;
            }
        }
        let er = rate_of(rm.er());
        let acr = match (rm.is(CI), rm.is(NI)) {
            (true, _) => self.acr - self.acr / u128::from(self.told.rdf.of()),
            (false, false) if answers => self.acr + self.pcr() / u128::from(self.told.rif.of()),
            _ => self.acr,
        };
        let acr = acr.min(self.pcr()).max(self.mcr());
        self.set(now, acr.min(er));
    }

    /// A2, A3, after a step: who waits has MCR, and is probed below TCR. `waits`: data does, and
    /// the line takes it; `passed` nanoseconds have passed since the last step, whatever its clock
    /// says; bursts of all that the line carries hold each other up for `bursts_ns`.
    pub(crate) fn looks(
        &mut self,
        now: u64,
        passed: u64,
        waits: bool,
        bursts_ns: u64,
    ) -> Result<(), Wrong> {
        if !waits {
            (self.behind, self.slow_since, self.waited) = (0, None, false);
            return Ok(());
        }
        let mcr = self.mcr() >> POINT;
        // Since when data waits that did not at the last step nobody knows.
        if std::mem::replace(&mut self.waited, true) {
            self.behind += u128::from(passed) * mcr;
        }
        let late = u128::from(bursts_ns + LATE * self.turn_ns) * mcr;
        if self.behind > BEHIND * NS_PER_S + late {
            let cells = self.behind / NS_PER_S;
            let text = format!("{cells} cells of MCR were not sent though some wait");
            return Err(("A2", text));
        }
        if self.acr >= cells_s(TCR) {
            self.slow_since = None;
            return Ok(());
        }
        let since = *self.slow_since.get_or_insert(now);
        let since = since.max(self.probe.unwrap_or(0));
        match now > since + PROBES_NS + LATE * self.turn_ns {
            true => wrong("A3", "a slow source waits and is not probed"),
            false => Ok(()),
        }
    }

    /// It is closed, and this was counted: all of it must be so.
    pub(crate) fn ends(&self, stats: &AbrStats) -> Result<(), Wrong> {
        let told = Counts {
            forward_sent: stats.forward_sent,
            backward_sent: stats.backward_sent,
            forward_received: stats.forward_received,
            backward_received: stats.backward_received,
            replaced: stats.replaced,
            crc_error: stats.crc_error,
            wrong_protocol: stats.wrong_protocol,
            unasked: stats.unasked,
        };
        if told != self.counts {
            return Err((
                "A4",
                format!("{told:?} are told, {:?} are right", self.counts),
            ));
        }
        let least = self.acr.saturating_sub(ROUNDED) >> POINT;
        let most = (self.acr + ROUNDED) >> POINT;
        let allowed = u128::from(stats.allowed_cell_s);
        if allowed < least || allowed > most {
            return Err(("A2", format!("{allowed} cells/s are told, ACR is {most}")));
        }
        if self.waiting.is_some() {
            return wrong("A4", "a forward RM cell was never turned round");
        }
        Ok(())
    }
}

fn wrong(law: &'static str, text: &str) -> Result<(), Wrong> {
    Err((law, text.to_owned()))
}
