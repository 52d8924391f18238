//! The text form of a contract, read as libatm's text2qos reads it.
//!
//! libatm's grammar is what its parser accepts, which is more than its manual says: numbers as of
//! strtoul (white space and signs before them), a list that may be empty before `rx:`, an optional
//! comma after `tx:none`. All of that is kept, because a text that a program of the linux-atm suite
//! takes must mean the same here. What is not kept, but in [`Strictness::Strict`], is that numbers
//! wrap: libatm reads `4.3Gbps` as 13,106 cells/s.

use core::num::NonZeroU32;
use core::ops::RangeInclusive;
use core::str::FromStr;

use super::ContractErrorKind as Kind;
use super::meant::meant;
use super::scan::{RawRate, Scanner};
use super::{
    Aal, AbrParameters, CellRate, ContractError, Cutoff, Excess, Jitter, Part, Peak, Police,
    ServiceCategory, TrafficContract, TrafficDescriptor,
};

/// Which texts are contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Those that libatm 2.5.1 takes, and no other. Numbers wrap as its do.
    Strict,
    /// Those, and the words that libatm does not have. A number means what is written, or is an
    /// error where it does not fit.
    Extended,
}

impl TrafficContract {
    /// Reads `class_and_aal[:common][,tx:list][,rx:list]`, letters in either case:
    ///
    /// - `ubr`, `cbr`, `abr` and `aal0`, `aal5`, joined by commas; the last of each kind counts.
    /// - Lists of `max_pcr= pcr= min_pcr= max_sdu= sdu=`, or `tx:none`, `rx:none`.
    /// - A rate is a decimal number, perhaps a fraction, perhaps one of `kKmMgG`, then `cps` or
    ///   `bps`; or `max`. Bit/s become cells/s of 384 bits, rounded down, up for `min_pcr`.
    ///
    /// [`Strictness::Extended`] adds:
    ///
    /// - `bit/s` and `b/s` for `bps`, and blanks before a unit: `8Mbit/s`, `8 Mb/s`.
    /// - `vbr` and `rt-vbr` (the same), `nrt-vbr`; `aal34`.
    /// - In every list: `scr=` and `scr0=` (a rate, rounded down), `mbs=` and `burst=` (cells),
    ///   `cdvt=` and `dvt=` (times, as `250us`), `fixed`, `jitter=low|default|high`.
    /// - In every list of `abr`: `icr=` (a rate), `rif=`, `rdf=`, `cdf=` (parts, as `1/16`), `nrm=`
    ///   and `tbe=` (cells), `trm=`, `adtf=` and `frtt=` (times).
    /// - In the common list: `police=frame|cell|buffer`, `excess=discard|tag|when-idle`; `mids=`
    ///   and `reassembly=` (a time) of AAL3/4.
    pub fn parse(text: &str, strictness: Strictness) -> Result<Self, ContractError> {
        let mut parser = Parser {
            scan: Scanner::new(text),
            extended: strictness == Strictness::Extended,
            words: match strictness {
                Strictness::Strict => &LIBATM,
                Strictness::Extended => &OURS,
            },
        };
        parser.contract().map_err(|error| ContractError {
            meant: match strictness {
                Strictness::Strict => None,
                Strictness::Extended => meant(text, error.at, error.kind),
            },
            ..error
        })
    }
}

/// Reads in [`Strictness::Extended`].
impl FromStr for TrafficContract {
    type Err = ContractError;

    fn from_str(text: &str) -> Result<Self, ContractError> {
        Self::parse(text, Strictness::Extended)
    }
}

struct Parser<'a> {
    scan: Scanner<'a>,
    extended: bool,
    words: &'static Expected,
}

/// What mistakes tell: the words that can stand at a place.
struct Expected {
    categories: &'static str,
    categories_and_aals: &'static str,
    in_common: &'static str,
    in_transmit: &'static str,
    in_receive: &'static str,
}

const LIBATM: Expected = Expected {
    categories: "ubr, cbr or abr",
    categories_and_aals: "ubr, cbr, abr; aal0, aal5",
    in_common: "pcr=, max_pcr=, min_pcr=, max_sdu=, sdu=, tx: or rx:",
    in_transmit: "pcr=, max_pcr=, min_pcr=, max_sdu=, sdu= or rx:",
    in_receive: "pcr=, max_pcr=, min_pcr=, max_sdu= or sdu=",
};

const OURS: Expected = Expected {
    categories: "cbr, vbr, rt-vbr, nrt-vbr, ubr or abr",
    categories_and_aals: "cbr, vbr, rt-vbr, nrt-vbr, ubr, abr; aal0, aal34, aal5",
    in_common: "pcr=, max_pcr=, min_pcr=, scr=, scr0=, mbs=, burst=, max_sdu=, sdu=, fixed, \
                cdvt=, dvt=, jitter=, police=, excess=, mids=, reassembly=, tx: or rx:",
    in_transmit: "pcr=, max_pcr=, min_pcr=, scr=, scr0=, mbs=, burst=, max_sdu=, sdu=, fixed, \
                  cdvt=, dvt=, jitter= or rx:",
    in_receive: "pcr=, max_pcr=, min_pcr=, scr=, scr0=, mbs=, burst=, max_sdu=, sdu=, fixed, \
                 cdvt=, dvt= or jitter=",
};

/// Behind `abr`.
const OF_ABR: Expected = Expected {
    in_common: "pcr=, max_pcr=, min_pcr=, icr=, rif=, rdf=, cdf=, nrm=, trm=, adtf=, tbe=, \
                frtt=, scr=, scr0=, mbs=, burst=, max_sdu=, sdu=, fixed, cdvt=, dvt=, jitter=, \
                police=, excess=, mids=, reassembly=, tx: or rx:",
    in_transmit: "pcr=, max_pcr=, min_pcr=, icr=, rif=, rdf=, cdf=, nrm=, trm=, adtf=, tbe=, \
                  frtt=, scr=, scr0=, mbs=, burst=, max_sdu=, sdu=, fixed, cdvt=, dvt=, jitter= \
                  or rx:",
    in_receive: "pcr=, max_pcr=, min_pcr=, icr=, rif=, rdf=, cdf=, nrm=, trm=, adtf=, tbe=, \
                 frtt=, scr=, scr0=, mbs=, burst=, max_sdu=, sdu=, fixed, cdvt=, dvt= or jitter=",
    ..OURS
};

impl Expected {
    fn parameters(&self, list: List) -> &'static str {
        match list {
            List::Common => self.in_common,
            List::Transmit => self.in_transmit,
            List::Receive => self.in_receive,
        }
    }
}

/// The lists that a parameter is written to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Common,
    Transmit,
    Receive,
}

/// The parameters of libatm, in the order of [`Parser::parameter`], then ours.
pub(super) const PARAMETERS: [&str; 26] = [
    "max_pcr=",
    "pcr=",
    "min_pcr=",
    "max_sdu=",
    "sdu=",
    "scr=",
    "mbs=",
    "cdvt=",
    "dvt=",
    "burst=",
    "fixed",
    "jitter=",
    "scr0=",
    "icr=",
    "rif=",
    "rdf=",
    "cdf=",
    "nrm=",
    "trm=",
    "adtf=",
    "tbe=",
    "frtt=",
    "police=",
    "excess=",
    "mids=",
    "reassembly=",
];
const PARAMETERS_OF_LIBATM: usize = 5;
/// The rest belong to AAL3/4.
const PARAMETERS_OF_ANY_AAL: usize = 24;
/// The rest belong to the whole contract.
const PARAMETERS_OF_A_DIRECTION: usize = 22;
/// The rest of those belong to ABR.
const PARAMETERS_OF_ANY_CATEGORY: usize = 13;

impl Parser<'_> {
    fn contract(&mut self) -> Result<TrafficContract, ContractError> {
        let mut contract = self.category_and_aal()?;
        if self.extended && contract.category == ServiceCategory::Abr {
            self.words = &OF_ABR;
        }
        let mut transmit = TrafficDescriptor::default();
        let mut receive = TrafficDescriptor::default();
        let (mut transmits, mut receives) = (true, true);
        if !self.scan.at_end() {
            let mut lists = Lists {
                contract: &mut contract,
                transmit: &mut transmit,
                receive: &mut receive,
            };
            self.list(&mut lists, List::Common)?;
            (transmits, receives) = self.directions(&mut lists)?;
        }
        contract.transmit = transmits.then_some(transmit);
        contract.receive = receives.then_some(receive);
        Ok(contract)
    }

    fn category_and_aal(&mut self) -> Result<TrafficContract, ContractError> {
        const WORDS: [&str; 9] = [
            "ubr", "cbr", "abr", "aal0", "aal5", "vbr", "rt-vbr", "nrt-vbr", "aal34",
        ];
        let expected = Kind::ExpectedCategory(self.words.categories_and_aals);
        let mut category = None;
        let mut aal = None;
        loop {
            let start = self.scan.at();
            match self.scan.take_word(&WORDS) {
                Some(0) => category = Some(ServiceCategory::Ubr),
                Some(1) => category = Some(ServiceCategory::Cbr),
                Some(2) => category = Some(ServiceCategory::Abr),
                Some(3) => aal = Some(Aal::Aal0),
                Some(4) => aal = Some(Aal::Aal5),
                Some(8) if self.extended => aal = Some(Aal::Aal34),
                Some(8) => return self.scan.error_at(start, expected),
                Some(_) if !self.extended => return self.scan.error_at(start, Kind::VbrInStrict),
                Some(5 | 6) => category = Some(ServiceCategory::RtVbr),
                Some(_) => category = Some(ServiceCategory::NrtVbr),
                None => return self.scan.error(expected),
            }
            if !self.scan.take(b',') {
                break;
            }
        }
        let Some(category) = category else {
            return self.scan.error(Kind::NoCategory(self.words.categories));
        };
        Ok(TrafficContract {
            aal,
            ..TrafficContract::new(category)
        })
    }

    /// What follows the common list: whether the contract transmits and receives at all.
    fn directions(&mut self, lists: &mut Lists<'_>) -> Result<(bool, bool), ContractError> {
        let mut transmits = true;
        if self.scan.at_end() {
            return Ok((true, true));
        }
        let mut before_receive = Kind::UnknownParameter(self.words.in_transmit);
        if self.scan.take_word(&["tx"]).is_some() {
            if self.scan.take_word(&[":none"]).is_some() {
                transmits = false;
                before_receive = Kind::ExpectedReceive;
                self.scan.take(b',');
            } else {
                self.list(lists, List::Transmit)?;
            }
        } else if !self.scan.starts_with("rx") {
            return self
                .scan
                .error(Kind::UnknownParameter(self.words.in_common));
        }
        if self.scan.at_end() {
            return Ok((transmits, true));
        }
        if self.scan.take_word(&["rx"]).is_none() {
            return self.scan.error(before_receive);
        }
        let receives = self.scan.take_word(&[":none"]).is_none();
        if receives {
            self.list(lists, List::Receive)?;
        }
        if self.scan.starts_with("tx:") {
            return self.scan.error(Kind::TransmitAfterReceive);
        }
        if !self.scan.at_end() {
            let after_comma = self.scan.last() == Some(b',');
            return self.scan.error(if after_comma {
                Kind::UnknownParameter(self.words.in_receive)
            } else {
                Kind::ExpectedComma
            });
        }
        Ok((transmits, receives))
    }

    /// A colon and parameters, up to the end or to something that is no parameter.
    fn list(&mut self, lists: &mut Lists<'_>, list: List) -> Result<(), ContractError> {
        if !self.scan.take(b':') {
            return self.scan.error(Kind::ExpectedColon);
        }
        let known = if self.extended {
            PARAMETERS.len()
        } else {
            PARAMETERS_OF_LIBATM
        };
        loop {
            if self.scan.at_end() {
                return self
                    .scan
                    .error(Kind::ExpectedParameter(self.words.parameters(list)));
            }
            let start = self.scan.at();
            let Some(parameter) = self.scan.take_word(&PARAMETERS[..known]) else {
                return Ok(());
            };
            if parameter >= PARAMETERS_OF_A_DIRECTION {
                if list != List::Common {
                    return self.scan.error_at(start, Kind::NotInDirection);
                }
                let of_aal34 = parameter >= PARAMETERS_OF_ANY_AAL;
                if of_aal34 && lists.contract.aal != Some(Aal::Aal34) {
                    return self.scan.error_at(start, Kind::NotAal34);
                }
                self.contract_parameter(lists.contract, parameter)?;
            } else {
                let of_abr = parameter >= PARAMETERS_OF_ANY_CATEGORY;
                if of_abr && lists.contract.category != ServiceCategory::Abr {
                    return self.scan.error_at(start, Kind::NotAbr);
                }
                let set = match of_abr {
                    true => self.abr_parameter(parameter)?,
                    false => self.parameter(parameter)?,
                };
                lists.each(list, set);
            }
            if self.scan.at_end() {
                return Ok(());
            }
            if !self.scan.take(b',') {
                return self.scan.error(Kind::ExpectedComma);
            }
        }
    }

    fn contract_parameter(
        &mut self,
        contract: &mut TrafficContract,
        parameter: usize,
    ) -> Result<(), ContractError> {
        const POLICE: [Police; 3] = [Police::Frame, Police::Cell, Police::Buffer];
        const EXCESS: [Excess; 3] = [Excess::Discard, Excess::Tag, Excess::WhenIdle];
        match parameter {
            22 => {
                let word = self.choice(POLICE.map(Police::word), "frame, cell, buffer")?;
                contract.police = Some(POLICE[word]);
            }
            23 => {
                let word = self.choice(EXCESS.map(Excess::word), "discard, tag, when-idle")?;
                contract.excess = EXCESS[word];
            }
            24 => {
                let start = self.scan.at();
                let mids = self.scan.cells().ok();
                let mids = mids.filter(|mids| mids.get() <= TrafficContract::MIDS_MAX);
                match mids {
                    Some(_) => contract.mids = mids,
                    None => return self.scan.error_at(start, Kind::MidsRange),
                }
            }
            _ => contract.reassembly_ns = Some(self.scan.time_ns()?),
        }
        Ok(())
    }

    fn choice(&mut self, words: [&str; 3], all: &'static str) -> Result<usize, ContractError> {
        match self.scan.take_word(&words) {
            Some(word) => Ok(word),
            None => self.scan.error(Kind::ExpectedWord(all)),
        }
    }

    fn parameter(&mut self, parameter: usize) -> Result<Set, ContractError> {
        Ok(match parameter {
            0 => Set::MaxPcr(self.rate(false)?.peak()),
            1 => Set::Pcr(self.rate(false)?.peak()),
            2 => Set::MinPcr(CellRate::new(self.finite_rate(true)?)),
            3 | 4 => Set::MaxSdu(NonZeroU32::new(self.sdu()?)),
            5 | 12 => {
                let start = self.scan.at();
                match CellRate::new(self.finite_rate(false)?) {
                    Some(rate) => Set::Scr {
                        rate,
                        high_priority: parameter == 12,
                    },
                    None => return self.scan.error_at(start, Kind::NoRate),
                }
            }
            6 => Set::Mbs(self.scan.cells()?),
            7 => Set::Cdvt(self.scan.time_ns()?),
            8 => Set::Dvt(self.scan.time_ns()?),
            9 => Set::Burst(self.scan.cells()?),
            10 => Set::Fixed,
            _ => {
                const JITTER: [Jitter; 3] = [Jitter::Low, Jitter::Default, Jitter::High];
                let word = self.choice(JITTER.map(Jitter::word), "low, default, high")?;
                Set::Jitter(JITTER[word])
            }
        })
    }

    /// A parameter of ABR, within the range that TM 4.0 gives it.
    fn abr_parameter(&mut self, parameter: usize) -> Result<Set, ContractError> {
        const TRM_NS: RangeInclusive<u64> = 781_250..=AbrParameters::TRM_NS;
        const ADTF_NS: RangeInclusive<u64> = 10_000_000..=10_230_000_000;
        const FRTT_NS: RangeInclusive<u64> = 0..=16_700_000_000;
        let start = self.scan.at();
        let cutoff = |part: Option<Part>| match part {
            None => Some(Cutoff::Never),
            Some(part) => (part.of() <= 64).then_some(Cutoff::Part(part)),
        };
        let out = |kind| ContractError {
            at: start,
            kind,
            meant: None,
        };
        Ok(match parameter {
            13 => Set::Icr(CellRate::new(self.finite_rate(false)?).ok_or(out(Kind::NoRate))?),
            14 => Set::Rif(self.scan.part()?.ok_or(out(Kind::ExpectedPart))?),
            15 => Set::Rdf(self.scan.part()?.ok_or(out(Kind::ExpectedPart))?),
            16 => Set::Cdf(cutoff(self.scan.part()?).ok_or(out(Kind::CutoffRange))?),
            17 => {
                let cells = self.scan.cells()?.get();
                let known = cells.is_power_of_two() && (2..=256).contains(&cells);
                match known {
                    true => Set::Nrm(cells as u16),
                    false => return Err(out(Kind::NrmRange)),
                }
            }
            20 => {
                let cells = self.scan.cells_or_none()?;
                match cells <= AbrParameters::TBE {
                    true => Set::Tbe(cells),
                    false => return Err(out(Kind::TbeRange)),
                }
            }
            _ => {
                let ns = self.scan.time_ns()?;
                match parameter {
                    18 if TRM_NS.contains(&ns) => Set::Trm(ns),
                    19 if ADTF_NS.contains(&ns) => Set::Adtf(ns),
                    21 if FRTT_NS.contains(&ns) => Set::Frtt(ns),
                    18 => return Err(out(Kind::TrmRange)),
                    19 => return Err(out(Kind::AdtfRange)),
                    _ => return Err(out(Kind::FrttRange)),
                }
            }
        })
    }

    fn rate(&mut self, up: bool) -> Result<RawRate, ContractError> {
        match self.extended {
            true => self.scan.rate(up),
            false => self.scan.libatm_rate(up),
        }
    }

    fn finite_rate(&mut self, up: bool) -> Result<u32, ContractError> {
        let start = self.scan.at();
        match self.rate(up)? {
            RawRate::Cells(cell_s) => Ok(cell_s),
            RawRate::Max => self.scan.error_at(start, Kind::MaxRate),
        }
    }

    fn sdu(&mut self) -> Result<u32, ContractError> {
        match self.extended {
            true => self.scan.sdu(),
            false => self.scan.libatm_sdu(),
        }
    }
}

/// One parameter of a direction, read.
#[derive(Clone, Copy)]
enum Set {
    MaxPcr(Option<Peak>),
    Pcr(Option<Peak>),
    MinPcr(Option<CellRate>),
    MaxSdu(Option<NonZeroU32>),
    Scr { rate: CellRate, high_priority: bool },
    Mbs(NonZeroU32),
    Cdvt(u64),
    Dvt(u64),
    Burst(NonZeroU32),
    Fixed,
    Jitter(Jitter),
    Icr(CellRate),
    Rif(Part),
    Rdf(Part),
    Cdf(Cutoff),
    Nrm(u16),
    Trm(u64),
    Adtf(u64),
    Tbe(u32),
    Frtt(u64),
}

/// Where parameters go.
struct Lists<'a> {
    contract: &'a mut TrafficContract,
    transmit: &'a mut TrafficDescriptor,
    receive: &'a mut TrafficDescriptor,
}

impl Lists<'_> {
    fn each(&mut self, list: List, set: Set) {
        if list != List::Receive {
            set.apply(self.transmit);
        }
        if list != List::Transmit {
            set.apply(self.receive);
        }
    }
}

impl Set {
    fn apply(self, descriptor: &mut TrafficDescriptor) {
        match self {
            Self::MaxPcr(peak) => descriptor.max_pcr = peak,
            Self::Pcr(peak) => descriptor.pcr = peak,
            Self::MinPcr(rate) => descriptor.min_pcr = rate,
            Self::MaxSdu(octets) => descriptor.max_sdu = octets,
            Self::Scr {
                rate,
                high_priority,
            } => (descriptor.scr, descriptor.high_priority) = (Some(rate), high_priority),
            Self::Mbs(cells) => descriptor.mbs = Some(cells),
            Self::Cdvt(ns) => descriptor.cdvt_ns = Some(ns),
            Self::Dvt(ns) => descriptor.dvt_ns = Some(ns),
            Self::Burst(cells) => descriptor.burst = Some(cells),
            Self::Fixed => descriptor.fixed = true,
            Self::Jitter(jitter) => descriptor.jitter = Some(jitter),
            Self::Icr(rate) => descriptor.abr.icr = Some(rate),
            Self::Rif(part) => descriptor.abr.rif = Some(part),
            Self::Rdf(part) => descriptor.abr.rdf = Some(part),
            Self::Cdf(cutoff) => descriptor.abr.cdf = Some(cutoff),
            Self::Nrm(cells) => descriptor.abr.nrm = Some(cells),
            Self::Trm(ns) => descriptor.abr.trm_ns = Some(ns),
            Self::Adtf(ns) => descriptor.abr.adtf_ns = Some(ns),
            Self::Tbe(cells) => descriptor.abr.tbe = Some(cells),
            Self::Frtt(ns) => descriptor.abr.frtt_ns = Some(ns),
        }
    }
}
