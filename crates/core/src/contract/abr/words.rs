//! What a contract's text says of ABR, and what it means.

use serde::{Deserialize, Serialize};

use super::{AbrParameters, Part};
use crate::contract::{CellRate, Peak, TrafficDescriptor};

/// The words of ABR in one direction of a contract. None: TM 4.0's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbrWords {
    /// Initial cell rate (`icr=`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icr: Option<CellRate>,
    /// Rate increase factor (`rif=`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rif: Option<Part>,
    /// Rate decrease factor (`rdf=`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdf: Option<Part>,
    /// Cutoff decrease factor (`cdf=`); some of none: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdf: Option<Cutoff>,
    /// Cells to a forward RM cell (`nrm=`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nrm: Option<u16>,
    /// The longest time between forward RM cells (`trm=`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trm_ns: Option<u64>,
    /// How long a rate may stay unused (`adtf=`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adtf_ns: Option<u64>,
    /// Cells before the network answers (`tbe=`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tbe: Option<u32>,
    /// Fixed round-trip time of the network (`frtt=`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frtt_ns: Option<u64>,
}

/// The cutoff decrease factor: a part, or 0, which cuts nothing off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cutoff {
    /// 0.
    Never,
    /// A part of the rate.
    Part(Part),
}

/// Why words of ABR are no parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AbrWrong {
    /// The floor is above the ceiling.
    #[error("abr: min_pcr={mcr} is more than the peak rate of {pcr} cells/s; lower min_pcr=")]
    MinimumAbovePeak {
        /// Cells/s.
        mcr: u32,
        /// Cells/s.
        pcr: u32,
    },
    /// The source would begin above its ceiling, or below its floor.
    #[error("abr: icr={icr} is not between min_pcr and the peak rate, {mcr} to {pcr} cells/s")]
    InitialOutside {
        /// Cells/s.
        icr: u32,
        /// Cells/s.
        mcr: u32,
        /// Cells/s.
        pcr: u32,
    },
}

impl AbrWords {
    /// Whether nothing is said.
    pub fn is_silent(&self) -> bool {
        *self == Self::default()
    }
}

impl TrafficDescriptor {
    /// The parameters of a source of this direction on a link of `line` cells/s. A peak above the
    /// line is the line's.
    pub fn abr_parameters(&self, line: CellRate) -> Result<AbrParameters, AbrWrong> {
        let words = &self.abr;
        let peak = self.pcr.or(self.max_pcr).unwrap_or(Peak::Max);
        let floor = self.min_pcr.map_or(0, CellRate::cell_s);
        if let Peak::Rate(peak) = peak
            && floor > peak.cell_s()
        {
            return Err(AbrWrong::MinimumAbovePeak {
                mcr: floor,
                pcr: peak.cell_s(),
            });
        }
        // A floor above the line is for admission to refuse.
        let pcr = self
            .min_pcr
            .map_or(peak.on(line), |mcr| mcr.max(peak.on(line)));
        let icr = words.icr.unwrap_or(pcr);
        let above = matches!(peak, Peak::Rate(peak) if icr > peak);
        if above || icr.cell_s() < floor {
            return Err(AbrWrong::InitialOutside {
                icr: icr.cell_s(),
                mcr: floor,
                pcr: pcr.cell_s(),
            });
        }
        let tbe = words.tbe.unwrap_or(AbrParameters::TBE);
        let frtt_ns = words.frtt_ns.unwrap_or(0);
        let usual = AbrParameters::new(pcr);
        Ok(AbrParameters {
            mcr: self.min_pcr,
            icr: AbrParameters::icr_for(icr.min(pcr), self.min_pcr, tbe, frtt_ns),
            rif: words.rif.unwrap_or(usual.rif),
            rdf: words.rdf.unwrap_or(usual.rdf),
            cdf: match words.cdf {
                None => usual.cdf,
                Some(Cutoff::Never) => None,
                Some(Cutoff::Part(part)) => Some(part),
            },
            nrm: words.nrm.unwrap_or(usual.nrm),
            trm_ns: words.trm_ns.unwrap_or(usual.trm_ns),
            adtf_ns: words.adtf_ns.unwrap_or(usual.adtf_ns),
            tbe,
            ..usual
        })
    }
}
