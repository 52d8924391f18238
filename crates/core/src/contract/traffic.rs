use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{AbrWords, CellRate};

/// The service categories of TM 4.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceCategory {
    /// Constant bit rate.
    Cbr,
    /// Variable bit rate, real-time.
    RtVbr,
    /// Variable bit rate, not real-time.
    NrtVbr,
    /// Unspecified bit rate: best effort.
    Ubr,
    /// Available bit rate. Its minimum cell rate is `min_pcr`.
    Abr,
}

impl ServiceCategory {
    /// Its word in a contract's text.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cbr => "cbr",
            Self::RtVbr => "vbr",
            Self::NrtVbr => "nrt-vbr",
            Self::Ubr => "ubr",
            Self::Abr => "abr",
        }
    }

    /// Whether it is promised a rate as a whole (CBR and VBR). Of ABR the least rate is.
    pub const fn is_guaranteed(self) -> bool {
        !matches!(self, Self::Ubr | Self::Abr)
    }

    /// Whether its delay is bounded (CBR and rt-VBR).
    pub const fn is_real_time(self) -> bool {
        matches!(self, Self::Cbr | Self::RtVbr)
    }
}

/// The AALs a contract's text can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aal {
    /// Cells as they are.
    Aal0,
    /// I.363.3. libatm has no word for it.
    Aal34,
    /// I.363.5.
    Aal5,
}

impl Aal {
    /// Its word in a contract's text.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Aal0 => "aal0",
            Self::Aal34 => "aal34",
            Self::Aal5 => "aal5",
        }
    }
}

/// A peak cell rate as a contract states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peak {
    /// So many cells/s.
    Rate(CellRate),
    /// Whatever the link carries.
    Max,
}

impl Peak {
    /// The rate on a link of `line` cells/s.
    pub const fn on(self, line: CellRate) -> CellRate {
        match self {
            Self::Rate(rate) if rate.cell_s() < line.cell_s() => rate,
            _ => line,
        }
    }
}

/// What is promised of one direction. None: nothing is said.
///
/// As in libatm, a text can give at most 2^31 - 1 cells/s and SDUs of at most 2^31 - 1 octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TrafficDescriptor {
    /// The most that the sender would like (`max_pcr=`). Not the same as `pcr`: see [`peak`].
    ///
    /// [`peak`]: Self::peak
    pub max_pcr: Option<Peak>,
    /// The peak cell rate (`pcr=`).
    pub pcr: Option<Peak>,
    /// The least that will do (`min_pcr=`).
    pub min_pcr: Option<CellRate>,
    /// Octets of the largest SDU (`max_sdu=` or `sdu=`).
    pub max_sdu: Option<NonZeroU32>,
    /// Every SDU has `max_sdu` octets (`fixed`): what has no room is refused at its first cell
    /// (paper 000, section 5.3).
    #[serde(default)]
    pub fixed: bool,
    /// The sustainable cell rate (`scr=`, or `scr0=`).
    pub scr: Option<CellRate>,
    /// It is of cells of CLP 0 alone (`scr0=`; VBR.2, or VBR.3 with tagging). Without it VBR is
    /// VBR.1, or VBR.3 with tagging.
    #[serde(default)]
    pub high_priority: bool,
    /// The maximum burst size in cells, at `pcr` (`mbs=`).
    pub mbs: Option<NonZeroU32>,
    /// Cell delay variation tolerance (`cdvt=`).
    pub cdvt_ns: Option<u64>,
    /// Delay variation tolerance of PDUs, L4ATM's tau (`dvt=`; paper 003, section 2.3).
    pub dvt_ns: Option<u64>,
    /// Sensitivity to jitter (`jitter=`); none: as the tolerance says.
    #[serde(default)]
    pub jitter: Option<Jitter>,
    /// Cells that leave back to back, a burst every so many cell times (`burst=`; paper 002,
    /// section 5). A cell at a time if it is not given.
    pub burst: Option<NonZeroU32>,
    /// The words of ABR.
    #[serde(default, skip_serializing_if = "AbrWords::is_silent")]
    pub abr: AbrWords,
}

impl TrafficDescriptor {
    /// Cells of the longest burst.
    pub const BURST_MAX: u32 = 4_096;

    /// Cells that leave back to back.
    pub const fn burst_cells(&self) -> u32 {
        match self.burst {
            Some(cells) => cells.get(),
            None => 1,
        }
    }

    /// The peak rate that counts: `pcr`, else `max_pcr` unless that is `max`, else `min_pcr`, else
    /// the link's. (The rule by which Linux' drivers choose.)
    pub const fn peak(&self) -> Peak {
        match (self.pcr, self.max_pcr, self.min_pcr) {
            (Some(peak), _, _) | (None, Some(peak @ Peak::Rate(_)), _) => peak,
            (None, _, Some(rate)) => Peak::Rate(rate),
            (None, _, None) => Peak::Max,
        }
    }

    /// The rate that the direction may keep up on a link of `line` cells/s: `scr`, else the peak.
    pub fn sustained(&self, line: CellRate) -> CellRate {
        let peak = self.peak().on(line);
        self.scr.map_or(peak, |scr| scr.min(peak))
    }

    /// The rate at which a sender of the direction lets cells go on a link of `line` cells/s: the
    /// peak where bursts are tolerated, else the sustained rate.
    pub fn pace(&self, line: CellRate) -> CellRate {
        match self.burst_tolerance_ns(line) {
            0 => self.sustained(line),
            _ => self.peak().on(line),
        }
    }

    /// Burst tolerance in nanoseconds, rounded up: (MBS - 1)(1/SCR - 1/PCR) (TM 4.0). A burst of
    /// `mbs` cells at the peak rate conforms to GCRA(1/SCR, this). 0 if SCR or MBS is not given.
    pub fn burst_tolerance_ns(&self, line: CellRate) -> u64 {
        let (Some(scr), Some(mbs)) = (self.scr, self.mbs) else {
            return 0;
        };
        let peak = self.peak().on(line).cell_s() as u128;
        let scr = scr.cell_s() as u128;
        // Below 2^32 * 2^30 * 2^32.
        let spread = (mbs.get() - 1) as u128 * 1_000_000_000 * peak.saturating_sub(scr);
        u64::try_from(spread.div_ceil(peak * scr)).unwrap_or(u64::MAX)
    }
}

/// How a client feels about jitter: how many PDUs make up one of its credit intervals
/// (paper 003, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Sensitive to jitter: 2 PDUs.
    Low,
    /// 10 PDUs.
    #[default]
    Default,
    /// Not sensitive to jitter: 50 PDUs.
    High,
}

impl Jitter {
    /// PDUs in one interval.
    pub const fn pdus(self) -> u32 {
        match self {
            Self::Low => 2,
            Self::Default => 10,
            Self::High => 50,
        }
    }

    /// Its word in a contract's text.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Default => "default",
            Self::High => "high",
        }
    }
}

/// How received traffic is measured against its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Police {
    /// By PDU ([`FrameGcra`](super::FrameGcra)).
    Frame,
    /// By cell ([`Gcra`](super::Gcra)).
    Cell,
    /// By buffer space and drain rate (paper 000).
    Buffer,
}

impl Police {
    /// Its word in a contract's text.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Cell => "cell",
            Self::Buffer => "buffer",
        }
    }
}

/// What becomes of traffic beyond the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excess {
    /// It is discarded.
    #[default]
    Discard,
    /// It is marked (CLP 1) and goes first when space runs out.
    Tag,
    /// It is delivered while the host has nothing better to do.
    WhenIdle,
}

impl Excess {
    /// Its word in a contract's text.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Discard => "discard",
            Self::Tag => "tag",
            Self::WhenIdle => "when-idle",
        }
    }
}

/// What the two ends of a connection promise each other.
///
/// Its text form is libatm's and, beyond that, ours: see [`parse`](Self::parse).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TrafficContract {
    pub category: ServiceCategory,
    /// The AAL; none: nothing is said (AAL5 then).
    pub aal: Option<Aal>,
    /// What is sent; none: nothing.
    pub transmit: Option<TrafficDescriptor>,
    /// What is received; none: nothing.
    pub receive: Option<TrafficDescriptor>,
    /// How it is policed; none: as suits the AAL, see [`policing`](Self::policing).
    pub police: Option<Police>,
    /// What becomes of more than was promised.
    pub excess: Excess,
    /// PDUs of AAL3/4 that are received at once, each with a MID of its own (`mids=`).
    #[serde(default)]
    pub mids: Option<NonZeroU32>,
    /// How long a PDU of AAL3/4 may take from its first cell to its last (`reassembly=`).
    #[serde(default)]
    pub reassembly_ns: Option<u64>,
}

impl TrafficContract {
    /// The most PDUs of AAL3/4 that are received at once.
    pub const MIDS_MAX: u32 = 64;

    /// A contract of this category that says nothing else.
    pub const fn new(category: ServiceCategory) -> Self {
        const SILENT: TrafficDescriptor = TrafficDescriptor {
            max_pcr: None,
            pcr: None,
            min_pcr: None,
            max_sdu: None,
            fixed: false,
            scr: None,
            high_priority: false,
            mbs: None,
            cdvt_ns: None,
            dvt_ns: None,
            jitter: None,
            burst: None,
            abr: AbrWords {
                icr: None,
                rif: None,
                rdf: None,
                cdf: None,
                nrm: None,
                trm_ns: None,
                adtf_ns: None,
                tbe: None,
                frtt_ns: None,
            },
        };
        Self {
            category,
            aal: None,
            transmit: Some(SILENT),
            receive: Some(SILENT),
            police: None,
            excess: Excess::Discard,
            mids: None,
            reassembly_ns: None,
        }
    }

    /// How it is policed: as it says, else by frame, or by cell for AAL0, which has no frames.
    pub const fn policing(&self) -> Police {
        match (self.police, self.aal) {
            (Some(police), _) => police,
            (None, Some(Aal::Aal0)) => Police::Cell,
            (None, _) => Police::Frame,
        }
    }
}
