use cellgate_core::aal::aal34;
use cellgate_core::contract::{
    Aal, CellRate, Excess, Increment, Jitter, PduStream, Peak, Police, ServiceCategory,
    TrafficContract, TrafficDescriptor,
};
use cellgate_core::server::{Prospect, ReceiveBound, TransmitBound};
use cellgate_report::output::table;
use serde::Serialize;

use super::Mistake;
use super::assumed::{Assumed, Told};
use super::facts::{Facts, Use, Way};
use super::trial::Trial;

/// Octets of an AAL0 SDU: a cell without its HEC.
const AAL0_SDU: u32 = 52;
/// Octets of the largest SDU of AAL3/4 and AAL5 (I.363.3, I.363.5).
const SDU_MAX: u32 = 65_535;

/// A contract and what follows from it. The names of the fields are those of the JSON.
#[derive(Serialize)]
pub(super) struct Implied {
    contract: String,
    libatm: Option<String>,
    category: ServiceCategory,
    aal: Aal,
    police: Police,
    excess: Excess,
    line_cell_s: u32,
    wake_up_ns: u64,
    transmit: Option<Transmit>,
    receive: Option<Receive>,
    #[serde(flatten)]
    facts: Facts,
    /// Why no server of these settings opens it, whatever machine it is on.
    refused: Option<String>,
    assumed: Told,
    #[serde(skip)]
    assumed_text: String,
}

/// What both directions have.
#[derive(Serialize)]
struct Rates {
    peak_cell_s: u32,
    sustained_cell_s: u32,
    minimum_cell_s: Option<u32>,
    max_sdu_octets: u32,
    pdu_cells: u32,
    peak_sdu_bit_s: u64,
    sustained_sdu_bit_s: u64,
    cell_time_ns: u64,
    pdu_time_ns: u64,
    burst_tolerance_ns: Option<u64>,
}

#[derive(Serialize)]
struct Transmit {
    #[serde(flatten)]
    rates: Rates,
    /// For each sensitivity to jitter; none for best effort and for AAL0.
    credits: Vec<Credit>,
    /// The sensitivity that applies: that of `jitter=`, or the one that `dvt=` chooses.
    jitter: Option<Jitter>,
    /// As a server makes it; none: it opens no such connection.
    buffer_pdus: Option<u64>,
    buffer_octets: Option<u64>,
    /// None: the rate is not guaranteed.
    bound: Option<TransmitBound>,
}

#[derive(Serialize)]
struct Receive {
    #[serde(flatten)]
    rates: Rates,
    /// By the peak rate.
    policing_limit_ns: Option<u64>,
    /// By the sustained rate.
    policing_sustained_limit_ns: Option<u64>,
    /// As a server makes it; none: it opens no such connection.
    buffer_pdus: Option<u64>,
    buffer_octets: Option<u64>,
    /// From a PDU's last cell to its reader at most; stalls apart.
    delay_ns: Option<u64>,
    /// None: what is received is not guaranteed.
    bound: Option<ReceiveBound>,
}

/// A credit of whole PDUs of the largest size, and the interval that brings it.
#[derive(Serialize)]
struct Credit {
    jitter: Jitter,
    pdus: u32,
    interval_ns: u64,
    octets: u64,
}

impl Implied {
    /// `text` is where a mistake is shown that only the whole contract reveals.
    pub(super) fn of(
        contract: &TrafficContract,
        assumed: &Assumed,
        trial: Option<&mut Trial>,
        text: &str,
    ) -> anyhow::Result<Result<Self, Mistake>> {
        let directions = [contract.transmit, contract.receive];
        for descriptor in directions.into_iter().flatten() {
            if let Err(mistake) = check_sdu(contract, &descriptor, text) {
                return Ok(Err(mistake));
            }
        }
        let prospect = assumed.prospect(contract).ok();
        let in_context = |descriptor| Direction {
            contract,
            descriptor,
            line: assumed.line(),
            prospect,
        };
        let refused = assumed.refused(contract);
        let mut cells = directions.into_iter().flatten();
        let cells = cells.next().map_or(0, |one| in_context(one).stream().cells);
        let way = Way::of(contract, cells.into(), assumed.line());
        Ok(Ok(Self {
            facts: Facts::of(contract, Use::AsItIs, way, assumed, trial)?,
            contract: contract.to_string(),
            libatm: contract.libatm_text(),
            category: contract.category,
            aal: contract.aal.unwrap_or(Aal::Aal5),
            police: contract.policing(),
            excess: contract.excess,
            line_cell_s: assumed.line().cell_s(),
            wake_up_ns: assumed.wake_up_ns(),
            transmit: contract.transmit.map(|d| in_context(d).transmit()),
            receive: contract.receive.map(|d| in_context(d).receive()),
            refused: refused.map(|refused| refused.to_string()),
            assumed: assumed.told(),
            assumed_text: assumed.text(),
        }))
    }

    /// The canonical form, an empty line, a table with a column for each direction, what is
    /// assumed, and why a server refuses it, if one does.
    pub(super) fn to_text(&self) -> String {
        let mut rows = vec![["", "transmit", "receive"].map(str::to_string)];
        let rates = |of: fn(&Rates) -> Option<u64>| {
            [
                self.transmit
                    .as_ref()
                    .and_then(|transmit| of(&transmit.rates)),
                self.receive.as_ref().and_then(|receive| of(&receive.rates)),
            ]
        };
        let mut row = |label: &str, values: [Option<u64>; 2]| {
            if values != [None, None] {
                let [transmit, receive] = values.map(shown);
                rows.push([label.to_string(), transmit, receive]);
            }
        };
        row("peak rate, cells/s", rates(|r| Some(r.peak_cell_s.into())));
        row(
            "sustained rate, cells/s",
            rates(|r| Some(r.sustained_cell_s.into())),
        );
        row(
            "minimum rate, cells/s",
            rates(|r| r.minimum_cell_s.map(u64::from)),
        );
        row(
            "largest SDU, octets",
            rates(|r| Some(r.max_sdu_octets.into())),
        );
        row("cells of its PDU", rates(|r| Some(r.pdu_cells.into())));
        row(
            "peak rate, bit/s of such SDUs",
            rates(|r| Some(r.peak_sdu_bit_s)),
        );
        row(
            "sustained rate, bit/s of such SDUs",
            rates(|r| Some(r.sustained_sdu_bit_s)),
        );
        row("T of a cell, ns", rates(|r| Some(r.cell_time_ns)));
        row("T of the PDU, ns", rates(|r| Some(r.pdu_time_ns)));
        row("burst tolerance, ns", rates(|r| r.burst_tolerance_ns));
        let credits = self.transmit.as_ref().map(|transmit| &transmit.credits);
        for credit in credits.into_iter().flatten() {
            let word = credit.jitter.word();
            row(
                &format!("interval at jitter={word}, ns"),
                [Some(credit.interval_ns), None],
            );
            row(
                &format!("credit at jitter={word}, octets"),
                [Some(credit.octets), None],
            );
        }
        let (transmit, receive) = (self.transmit.as_ref(), self.receive.as_ref());
        let applies = transmit.and_then(|transmit| transmit.jitter);
        let pdus = applies.map(|jitter| jitter.pdus().into());
        row("PDUs of its interval", [pdus, None]);
        let of_receive = |of: fn(&Receive) -> Option<u64>| [None, receive.and_then(of)];
        row("policing limit, ns", of_receive(|r| r.policing_limit_ns));
        row(
            "policing limit of the sustained rate, ns",
            of_receive(|r| r.policing_sustained_limit_ns),
        );
        let both = |t: fn(&Transmit) -> Option<u64>, r: fn(&Receive) -> Option<u64>| {
            [transmit.and_then(t), receive.and_then(r)]
        };
        row("buffer, PDUs", both(|t| t.buffer_pdus, |r| r.buffer_pdus));
        row(
            "buffer, octets",
            both(|t| t.buffer_octets, |r| r.buffer_octets),
        );
        let sends = transmit.and_then(|transmit| transmit.bound.as_ref());
        let reads = receive.and_then(|receive| receive.bound.as_ref());
        let bounds = |t: fn(&TransmitBound) -> Option<u64>, r: fn(&ReceiveBound) -> Option<u64>| {
            [sends.and_then(t), reads.and_then(r)]
        };
        row(
            "delay at most, ns",
            bounds(|t| Some(t.delay_ns), |r| Some(r.delay_ns)),
        );
        row(
            "of it: its cells at their rate",
            bounds(|t| Some(t.pacing_ns), |_| None),
        );
        row(
            "of it: cells of others",
            bounds(|t| Some(t.others_ns), |_| None),
        );
        row(
            "of it: the adapter's rest",
            bounds(|t| Some(t.rest_ns), |r| Some(r.rest_ns)),
        );
        row(
            "of it: the adapter's stall",
            bounds(|t| Some(t.stall_ns), |r| Some(r.stall_ns)),
        );
        row(
            "of it: the reader's wake-up",
            bounds(|_| None, |r| Some(r.wake_up_ns)),
        );
        row(
            "jitter at most, ns",
            bounds(|t| Some(t.jitter_ns), |r| Some(r.jitter_ns)),
        );
        row(
            "behind a full buffer, ns more",
            bounds(|t| Some(t.queue_ns), |_| None),
        );
        let refused = self.refused.as_ref();
        let refused = refused.map(|why| format!("\na server refuses it: {why}\n"));
        let (contract, refused) = (&self.contract, refused.unwrap_or_default());
        let (table, assumed) = (table(&rows), &self.assumed_text);
        let facts = self.facts.to_text("", "largest");
        format!("{contract}\n\n{table}\n{facts}\n{assumed}{refused}")
    }
}

fn shown(value: Option<u64>) -> String {
    value.map_or("-".to_string(), |value| value.to_string())
}

/// One direction of a contract.
struct Direction<'a> {
    contract: &'a TrafficContract,
    descriptor: TrafficDescriptor,
    line: CellRate,
    /// What a server makes of the contract; none: it opens no such connection.
    prospect: Option<Prospect>,
}

impl Direction<'_> {
    fn transmit(&self) -> Transmit {
        let paced = PduStream {
            sustained: self.descriptor.pace(self.line),
            ..self.stream()
        };
        let credit = |jitter: Jitter| {
            let credit = paced.credit(jitter);
            Credit {
                jitter,
                pdus: jitter.pdus(),
                interval_ns: credit.interval_ns(),
                octets: credit.octets(),
            }
        };
        let jitters = [Jitter::Low, Jitter::Default, Jitter::High];
        let credits = match self.is_promised() && !self.is_aal0() {
            true => jitters.map(credit).into(),
            false => Vec::new(),
        };
        let applies = self.descriptor.sensitivity(&paced);
        let buffers = self.prospect.map(|prospect| prospect.buffers);
        Transmit {
            rates: self.rates(),
            jitter: (!credits.is_empty()).then_some(applies),
            credits,
            buffer_pdus: buffers.map(|buffers| buffers.transmit_pdus),
            buffer_octets: buffers.map(|buffers| buffers.transmit_octets),
            bound: self.prospect.and_then(|prospect| prospect.bound.transmit),
        }
    }

    fn receive(&self) -> Receive {
        let [peak, sustained] = self.prospect.map_or([None, None], |one| one.policing_ns);
        let buffers = self.prospect.map(|prospect| prospect.buffers);
        let bound = self.prospect.and_then(|prospect| prospect.bound.receive);
        Receive {
            rates: self.rates(),
            policing_limit_ns: peak,
            policing_sustained_limit_ns: sustained,
            buffer_pdus: buffers.map(|buffers| buffers.receive_pdus),
            buffer_octets: buffers.map(|buffers| buffers.receive_octets),
            delay_ns: bound.map(|bound| bound.without_stall_ns()),
            bound,
        }
    }

    fn rates(&self) -> Rates {
        let stream = self.stream();
        let (sdu, cells) = (stream.sdu, stream.cells);
        let sdu_bit_s = |rate: CellRate| rate.cell_s() as u64 * 8 * sdu as u64 / cells as u64;
        let sustained = Increment::of(stream.sustained);
        let tolerance_ns = self.descriptor.burst_tolerance_ns(self.line);
        Rates {
            peak_cell_s: stream.peak.cell_s(),
            sustained_cell_s: stream.sustained.cell_s(),
            minimum_cell_s: self.descriptor.min_pcr.map(CellRate::cell_s),
            max_sdu_octets: sdu,
            pdu_cells: cells,
            peak_sdu_bit_s: sdu_bit_s(stream.peak),
            sustained_sdu_bit_s: sdu_bit_s(stream.sustained),
            cell_time_ns: sustained.times_ns(1),
            pdu_time_ns: sustained.times_ns(cells.into()),
            burst_tolerance_ns: self.descriptor.mbs.map(|_| tolerance_ns),
        }
    }

    fn stream(&self) -> PduStream {
        let stream = self.descriptor.pdus(self.line, SDU_MAX);
        match self.contract.aal {
            Some(Aal::Aal0) => PduStream {
                sdu: AAL0_SDU,
                cells: 1,
                ..stream
            },
            Some(Aal::Aal34) => PduStream {
                // Checked to be at most SDU_MAX.
                cells: aal34::cells(stream.sdu as u16).into(),
                ..stream
            },
            Some(Aal::Aal5) | None => stream,
        }
    }

    fn is_aal0(&self) -> bool {
        self.contract.aal == Some(Aal::Aal0)
    }

    /// Whether a rate is promised: best effort that names none has no credit.
    fn is_promised(&self) -> bool {
        !self.is_best_effort() || matches!(self.descriptor.peak(), Peak::Rate(_))
    }

    fn is_best_effort(&self) -> bool {
        let category = self.contract.category;
        matches!(category, ServiceCategory::Ubr | ServiceCategory::Abr)
    }
}

/// libatm takes any SDU size; the AAL does not.
fn check_sdu(
    contract: &TrafficContract,
    descriptor: &TrafficDescriptor,
    text: &str,
) -> Result<(), Mistake> {
    let sdu_max = match contract.aal {
        Some(Aal::Aal0) => AAL0_SDU,
        _ => SDU_MAX,
    };
    match descriptor.max_sdu {
        Some(sdu) if sdu.get() > sdu_max => {
            let message = format!("an SDU has at most {sdu_max} octets with this AAL");
            Err(Mistake::at(place_of_sdu(text, sdu.get()), message))
        }
        _ => Ok(()),
    }
}

/// Where `text` gives an SDU size the value `octets`; else where it gives one at all.
fn place_of_sdu(text: &str, octets: u32) -> usize {
    const PARAMETER: &str = "sdu=";
    let lower = text.to_ascii_lowercase();
    let places = || {
        lower
            .match_indices(PARAMETER)
            .map(|(at, _)| at + PARAMETER.len())
    };
    let digits = |at: usize| text[at..].split(',').next().unwrap_or_default().trim();
    places()
        .find(|at| digits(*at).parse() == Ok(octets))
        .or_else(|| places().last())
        .unwrap_or(0)
}
