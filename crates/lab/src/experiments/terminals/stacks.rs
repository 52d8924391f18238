use cellgate_core::terminal::Stack;
use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    Error, Experiment, HARDWARE_CELL_S, MILLISECONDS, PAPER, PairConfig, PairError, Parameter,
    Pc386Costs, Progress, Settings, config, measured, octet_s, spans, thousands,
};
use crate::machine::pc386::Shared;

/// One kernel under several stacks.
pub(in crate::experiments) struct Stacks;

const SIZES: [u16; 5] = [512, 2_048, 8_192, 16_384, 32_768];
/// The terminal's header of an SDU.
const PCI_LEN: usize = 24;

const PDU: Parameter = Parameter::number(
    "pdu_us",
    "a PDU beside its cells, us (ours: the paper's is lost)",
    Pc386Costs::PDU,
    (dec("0"), dec("100000")),
);
const BUS: Parameter = Parameter::number(
    "bus_us",
    "an octet of a packet over the bus, us (section 2.3: 64 Mbit/s)",
    Pc386Costs::BUS,
    (dec("0"), dec("100")),
);

const NAMES: &[&str] = &[
    Stack::Aal34.name(),
    Stack::Aal5.name(),
    Stack::Packet.name(),
];
const FIRST: Parameter = Parameter::choice(
    "first",
    "the stack of a VC that shares its PCs",
    Stack::Aal34.name(),
    NAMES,
);
const SECOND: Parameter =
    Parameter::choice("second", "that of the other VC", Stack::Aal5.name(), NAMES);

/// Octets of the file per second at a PDU size, of each stack.
struct Point {
    size: u16,
    rates: [Rational; 3],
}

/// Two VCs of the same PCs, with PDUs of 8,192 octets.
struct Both {
    stacks: [Stack; 2],
    /// Octets of the file per second, each VC alone, and together.
    alone: [Rational; 2],
    together: [Rational; 2],
}

impl Both {
    const PDU_LEN: u16 = 8_192;

    /// Their shares together, each of its rate alone.
    fn share(&self) -> Option<Rational> {
        let share = |vc: usize| self.together[vc].over(self.alone[vc]);
        Some((share(0)? + share(1)?).rounded(4))
    }
}

impl Point {
    fn size(&self) -> Rational {
        u64::from(self.size).into()
    }

    fn cells(&self, stack: Stack) -> Rational {
        stack.cells(usize::from(self.size) + PCI_LEN).into()
    }
}

impl Experiment for Stacks {
    fn name(&self) -> &'static str {
        "terminals-stacks"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, sections 4 and 8: other stacks on the same kernel"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[FIRST, SECOND, PDU, BUS, MILLISECONDS];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let costs = Pc386Costs {
            pdu: settings.number("pdu_us"),
            bus: settings.number("bus_us"),
            ..Pc386Costs::final_ones()
        };
        let of = |stack, size: u16| PairConfig {
            stack,
            window: 16 * u64::from(size),
            ..config(costs, PAPER, size)
        };
        let milliseconds = settings.whole("milliseconds");
        let alone = |stack, size| {
            let counts = measured(of(stack, size), milliseconds)?;
            Ok::<_, Error>(octet_s(&counts).rounded(1))
        };
        let mut points = Vec::new();
        for (at, size) in SIZES.into_iter().enumerate() {
            let mut rates = [Rational::ZERO; 3];
            for (rate, stack) in rates.iter_mut().zip(Stack::ALL) {
                *rate = alone(stack, size)?;
            }
            points.push(Point { size, rates });
            progress.step(at as u64 + 1, SIZES.len() as u64 + 1);
        }
        let stacks = ["first", "second"].map(|key| {
            let stack = Stack::parse(settings.choice(key));
            stack.unwrap_or(Stack::Aal34)
        });
        let both = Both {
            stacks,
            alone: [
                alone(stacks[0], Both::PDU_LEN)?,
                alone(stacks[1], Both::PDU_LEN)?,
            ],
            together: together(stacks.map(|stack| of(stack, Both::PDU_LEN)), milliseconds)?,
        };
        Ok(Outcome {
            tables: vec![table(&points), both_table(&both)],
            figures: vec![figure(&points)],
            checks: checks(&points, &both, costs),
            notes: vec![
                "The paper names the stacks and measures none beside the other. A board at packet \
                 level makes the cells; the PC moves a packet over the ISA bus by DMA."
                    .to_owned(),
            ],
        })
    }
}

/// Octets of the file per second of two VCs that share their PCs.
fn together(configs: [PairConfig; 2], milliseconds: u64) -> Result<[Rational; 2], Error> {
    let told = |error: PairError| Error::new(error.to_string());
    let (warm, span) = spans(milliseconds);
    let counts = Shared::new(configs).and_then(|mut shared| shared.run(warm, span));
    Ok(counts
        .map_err(told)?
        .map(|counts| octet_s(&counts).rounded(1)))
}

fn both_table(both: &Both) -> Table {
    let mut table = Table::new(
        "together",
        "Two VCs of the same PCs, PDUs of 8,192, 1,000 octets of the file per second",
        &[
            ("stack", ""),
            ("alone_1000_s", "alone"),
            ("together_1000_s", "together"),
        ],
    );
    for (vc, stack) in both.stacks.iter().enumerate() {
        table.row([
            Entry::text(stack.name()),
            Entry::number(both.alone[vc] / dec("1000"), 1),
            Entry::number(both.together[vc] / dec("1000"), 1),
        ]);
    }
    table
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "throughput",
        "1,000 octets of the file per second, by stack",
        &[
            ("pdu_octets", "PDU"),
            ("aal34_1000_s", Stack::Aal34.name()),
            ("aal5_1000_s", Stack::Aal5.name()),
            ("packet_1000_s", Stack::Packet.name()),
        ],
    );
    for point in points {
        let rate = |of: usize| Entry::number(point.rates[of] / dec("1000"), 1);
        table.row([
            Entry::number(u64::from(point.size), 0),
            rate(0),
            rate(1),
            rate(2),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let looks = [Look::Dotted, Look::Dashed, Look::Expected];
    let series = Stack::ALL.iter().zip(looks).enumerate();
    let series = series.map(|(of, (stack, look))| {
        let point = |p: &Point| (f64::from(p.size), thousands(p.rates[of]));
        Series::new(stack.name(), look, points.iter().map(point).collect())
    });
    let panel = Panel {
        x: Axis::log("PDU, octets", 256.0),
        y: Axis::linear("1,000 octets/s"),
        series: series.collect(),
        marks: Vec::new(),
    };
    Figure::single("throughput", "Stacks on one kernel", panel)
}

fn checks(points: &[Point], both: &Both, costs: Pc386Costs) -> Vec<Check> {
    let Some(long) = points.last() else {
        return Vec::new();
    };
    let second = dec("1000000");
    let [aal34, aal5, packet] = long.rates;
    let pdu_us = |stack| long.cells(stack) * costs.cell + costs.pdu;
    let line = Rational::from(HARDWARE_CELL_S) / long.cells(Stack::Packet) * long.size();
    let sdu = u64::from(long.size) + PCI_LEN as u64;
    let work_us = costs.bus * sdu.into() + costs.pdu;
    let processor = work_us.over(second).and_then(|s| long.size().over(s));
    let bound = processor.map_or(line, |processor| processor.min(line));
    let near = Tolerance::Percent(dec("2"));
    let ordered = points.iter().all(|p| p.rates.is_sorted());
    vec![
        Claim::derived("S", "AAL5 over AAL3/4, PDUs of 32,768", "")
            .reading("as many cells, 48 octets in place of 44")
            .number(
                (pdu_us(Stack::Aal34) / pdu_us(Stack::Aal5)).rounded(3),
                near,
                &Value::ratio(aal5.over(aal34), 3, "times"),
            ),
        Claim::derived("S", "packets, of what line and bus leave", "")
            .reading("the least of line and processor")
            .number(
                dec("100"),
                Tolerance::Percent(dec("5")),
                &Value::ratio(packet.over(bound).map(|share| share * dec("100")), 1, "%"),
            ),
        Claim::derived("S", "two VCs, each of what it has alone, together", "")
            .reading("a kernel's time is all there is")
            .number(
                dec("100"),
                Tolerance::Percent(dec("5")),
                &Value::ratio(both.share().map(|share| share * dec("100")), 1, "%"),
            ),
        Claim::shape(
            "S",
            "the less the PC does for a cell, the more of the file goes",
            "a packet level interface minimizes the overhead",
        )
        .holds(ordered, if ordered { "in order" } else { "not in order" }),
    ]
}
