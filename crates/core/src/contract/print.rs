use core::fmt;

use super::{Cutoff, Excess, Part, Peak, TrafficContract, TrafficDescriptor};

/// The canonical text: lower case, the parameters in one order, those that both directions share
/// before `tx:` and `rx:`, a unit on times only. Parsing it in
/// [`Strictness::Extended`](super::Strictness::Extended) gives the same contract.
impl fmt::Display for TrafficContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.category.word())?;
        if let Some(aal) = self.aal {
            write!(f, ",{}", aal.word())?;
        }
        let mut out = Separated { f, items: 0 };
        let transmit = self.transmit.map(parameters);
        let receive = self.receive.map(parameters);
        if let (Some(transmit), Some(receive)) = (transmit, receive) {
            for (a, b) in transmit.iter().zip(&receive) {
                if a == b {
                    out.parameter(*a)?;
                }
            }
        }
        self.write_own(&mut out)?;
        write_direction(&mut out, "tx:", transmit, receive)?;
        write_direction(&mut out, "rx:", receive, transmit)
    }
}

impl TrafficContract {
    /// The canonical text as libatm's qos2text gives it; none where that has none: a contract
    /// without a direction, or with something that libatm cannot say.
    pub fn libatm_text(&self) -> Option<String> {
        let text = self.to_string();
        let sayable = Self::parse(&text, super::Strictness::Strict).ok()? == *self;
        let directed = self.transmit.is_some() || self.receive.is_some();
        (sayable && directed).then_some(text)
    }

    fn write_own(&self, out: &mut Separated<'_, '_>) -> fmt::Result {
        if let Some(police) = self.police {
            out.item(format_args!("police={}", police.word()))?;
        }
        if self.excess != Excess::Discard {
            out.item(format_args!("excess={}", self.excess.word()))?;
        }
        if let Some(mids) = self.mids {
            out.item(format_args!("mids={mids}"))?;
        }
        if let Some(ns) = self.reassembly_ns {
            out.item(format_args!("reassembly={}", Nanoseconds(ns)))?;
        }
        Ok(())
    }
}

/// The parameters of `this` direction that it does not share with the other.
fn write_direction(
    out: &mut Separated<'_, '_>,
    prefix: &str,
    this: Option<Parameters>,
    other: Option<Parameters>,
) -> fmt::Result {
    let Some(this) = this else {
        return out.item(format_args!("{prefix}none"));
    };
    let mut prefix = prefix;
    for (i, parameter) in this.iter().enumerate() {
        let shared = other.is_some_and(|other| other[i] == *parameter);
        if let (Some(parameter), false) = (parameter, shared) {
            out.item(format_args!("{prefix}{parameter}"))?;
            prefix = "";
        }
    }
    Ok(())
}

/// Items after a colon, with commas between them.
struct Separated<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    items: usize,
}

impl Separated<'_, '_> {
    fn item(&mut self, item: fmt::Arguments<'_>) -> fmt::Result {
        self.f.write_str(if self.items == 0 { ":" } else { "," })?;
        self.items += 1;
        self.f.write_fmt(item)
    }

    fn parameter(&mut self, parameter: Option<Parameter>) -> fmt::Result {
        parameter.map_or(Ok(()), |parameter| self.item(format_args!("{parameter}")))
    }
}

/// In canonical order; none where nothing is said.
type Parameters = [Option<Parameter>; 20];

fn parameters(descriptor: TrafficDescriptor) -> Parameters {
    let peak = |name, peak: Option<Peak>| {
        let value = peak.map(|peak| match peak {
            Peak::Rate(rate) => Value::Number(rate.cell_s()),
            Peak::Max => Value::Max,
        });
        value.map(|value| Parameter { name, value })
    };
    let number = |name, number: Option<u32>| {
        let value = number.map(Value::Number);
        value.map(|value| Parameter { name, value })
    };
    let time = |name, ns: Option<u64>| {
        let value = ns.map(Value::Time);
        value.map(|value| Parameter { name, value })
    };
    let part = |name, part: Option<Part>| {
        let value = part.map(Value::Part);
        value.map(|value| Parameter { name, value })
    };
    let abr = descriptor.abr;
    let cdf = abr.cdf.map(|cutoff| Parameter {
        name: "cdf",
        value: match cutoff {
            Cutoff::Never => Value::Number(0),
            Cutoff::Part(part) => Value::Part(part),
        },
    });
    [
        peak("max_pcr", descriptor.max_pcr),
        peak("pcr", descriptor.pcr),
        number("min_pcr", descriptor.min_pcr.map(|rate| rate.cell_s())),
        number("max_sdu", descriptor.max_sdu.map(|octets| octets.get())),
        descriptor.fixed.then_some(Parameter {
            name: "fixed",
            value: Value::None,
        }),
        number(
            if descriptor.high_priority {
                "scr0"
            } else {
                "scr"
            },
            descriptor.scr.map(|rate| rate.cell_s()),
        ),
        number("mbs", descriptor.mbs.map(|cells| cells.get())),
        time("cdvt", descriptor.cdvt_ns),
        time("dvt", descriptor.dvt_ns),
        number("burst", descriptor.burst.map(|cells| cells.get())),
        descriptor.jitter.map(|jitter| Parameter {
            name: "jitter",
            value: Value::Word(jitter.word()),
        }),
        number("icr", abr.icr.map(|rate| rate.cell_s())),
        part("rif", abr.rif),
        part("rdf", abr.rdf),
        cdf,
        number("nrm", abr.nrm.map(u32::from)),
        time("trm", abr.trm_ns),
        time("adtf", abr.adtf_ns),
        number("tbe", abr.tbe),
        time("frtt", abr.frtt_ns),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Parameter {
    name: &'static str,
    value: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    /// The name says all.
    None,
    Number(u32),
    Word(&'static str),
    Part(Part),
    Max,
    /// Nanoseconds.
    Time(u64),
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.value {
            Value::None => f.write_str(name),
            Value::Number(number) => write!(f, "{name}={number}"),
            Value::Word(word) => write!(f, "{name}={word}"),
            Value::Part(part) => write!(f, "{name}={part}"),
            Value::Max => write!(f, "{name}=max"),
            Value::Time(ns) => write!(f, "{name}={}", Nanoseconds(ns)),
        }
    }
}

/// A time in the largest unit in which it is a whole number.
struct Nanoseconds(u64);

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0s"),
            ns if ns % 1_000_000_000 == 0 => write!(f, "{}s", ns / 1_000_000_000),
            ns if ns % 1_000_000 == 0 => write!(f, "{}ms", ns / 1_000_000),
            ns if ns % 1_000 == 0 => write!(f, "{}us", ns / 1_000),
            ns => write!(f, "{ns}ns"),
        }
    }
}
