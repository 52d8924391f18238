use cellgate_core::line::LineSpec;
use cellgate_core::terminal::Stack;
use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    Error, Experiment, HARDWARE_CELL_S, MILLISECONDS, PAPER, PairConfig, Parameter, Pc386Costs,
    Progress, Settings, config, measured, octet_s, spans, thousands,
};
use crate::machine::pc386::{TcpConfig, tcp_octets};
use crate::world::Ps;

/// The file transfer and TCP/IP by packet size.
pub(in crate::experiments) struct Figure11;

/// Octets of payload in a PDU, and of an IP packet; the last is IP's over ATM (RFC 2225).
const SIZES: [u16; 6] = [256, 512, 1_024, 2_048, 4_096, 9_180];

/// What "linear up to a certain length" may mean: packets on their way, and the line's delay.
#[derive(Clone, Copy)]
struct Reading {
    name: &'static str,
    law: &'static str,
    packets: u16,
    delay_ms: u64,
}

/// Both; ours: the paper's window and line are lost.
const READINGS: [Reading; 2] = [
    Reading {
        name: "one packet on its way",
        law: "S / (a + b S)",
        packets: 1,
        delay_ms: 0,
    },
    Reading {
        name: "8 packets, a line of 20 ms",
        law: "min(W S / RTT, 1 / b)",
        packets: 8,
        delay_ms: 20,
    },
];

const TCP: Parameter = Parameter::number(
    "tcp_us",
    "a packet of TCP/IP beside its cells and a copy, us (calibrated)",
    Pc386Costs::TCP,
    (dec("0"), dec("1000000")),
);
const XTP: Parameter = Parameter::number(
    "xtp_us",
    "the same of XTP, us (calibrated)",
    Pc386Costs::XTP,
    (dec("0"), dec("1000000")),
);
const COPY: Parameter = Parameter::number(
    "copy_us",
    "an octet copied from one layer to the next, us (calibrated)",
    Pc386Costs::COPY,
    (dec("0"), dec("100")),
);

/// Octets per second at a packet size, in each reading.
struct Point {
    size: u16,
    ft: [Rational; 2],
    tcp: [Rational; 2],
}

impl Point {
    fn size(&self) -> Rational {
        u64::from(self.size).into()
    }
}

impl Experiment for Figure11 {
    fn name(&self) -> &'static str {
        "terminals-figure-11"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, Figure 11 (sections 6.5 and 6.6): packet size, TCP/IP"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[TCP, XTP, COPY, MILLISECONDS];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let costs = Pc386Costs {
            copy: settings.number("copy_us"),
            ..Pc386Costs::final_ones()
        };
        let milliseconds = settings.whole("milliseconds");
        let mut points = Vec::new();
        for (at, size) in SIZES.into_iter().enumerate() {
            let mut point = Point {
                size,
                ft: [Rational::ZERO; 2],
                tcp: [Rational::ZERO; 2],
            };
            for (of, reading) in READINGS.into_iter().enumerate() {
                point.ft[of] = ft(costs, reading, size, milliseconds)?;
                let tcp = TcpConfig {
                    costs,
                    packet: settings.number("tcp_us"),
                    line_cell_s: HARDWARE_CELL_S,
                    delay: Ps::from_ns(reading.delay_ms * 1_000_000),
                    mtu: size,
                    window_segments: reading.packets,
                };
                point.tcp[of] = tcp_octet_s(tcp, milliseconds)?;
            }
            points.push(point);
            progress.step(at as u64 + 1, SIZES.len() as u64);
        }
        let xtp = xtp(costs, settings.number("xtp_us"));
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks: checks(&points, xtp),
            notes: vec![
                "TCP/IP is smoltcp's: framing, acknowledgements and window are real, and as many \
                 packets are on their way as the file transfer's. A packet costs a copy of its \
                 octets (the constant of Figure 8) and, beside its cells, what makes 220,000 \
                 octets/s come out. XTP is a cost of a packet alone: no XTP runs here."
                    .to_owned(),
            ],
        })
    }
}

fn ft(
    costs: Pc386Costs,
    reading: Reading,
    size: u16,
    milliseconds: u64,
) -> Result<Rational, Error> {
    let config = PairConfig {
        window: u64::from(reading.packets) * u64::from(size),
        line: LineSpec {
            delay_ns: reading.delay_ms * 1_000_000,
            ..LineSpec::default()
        },
        ..config(costs, PAPER, size)
    };
    Ok(octet_s(&measured(config, milliseconds)?).rounded(1))
}

fn tcp_octet_s(config: TcpConfig, milliseconds: u64) -> Result<Rational, Error> {
    let (warm, span) = spans(milliseconds);
    let octets = tcp_octets(config, warm, span).map_err(|error| Error::new(error.to_string()))?;
    Ok((Rational::from(octets) * dec("1000") / Rational::from(milliseconds)).rounded(1))
}

/// With the longest packet.
fn xtp(costs: Pc386Costs, packet_us: Rational) -> Rational {
    let size = u64::from(SIZES[SIZES.len() - 1]);
    let cells = Rational::from(Stack::Aal34.cells(size as usize));
    let us = cells * costs.cell + Rational::from(size) * costs.copy + packet_us;
    let octet_s = (Rational::from(size) * dec("1000000")).over(us);
    octet_s.unwrap_or(Rational::ZERO).rounded(1)
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "throughput",
        "1,000 octets per second; one packet on its way, and 8 on a line of 20 ms",
        &[
            ("packet_octets", "packet"),
            ("ft_1_1000_s", "FT, 1"),
            ("tcp_1_1000_s", "TCP, 1"),
            ("ft_8_1000_s", "FT, 8"),
            ("tcp_8_1000_s", "TCP, 8"),
        ],
    );
    for point in points {
        let rate = |rate: Rational| Entry::number(rate / dec("1000"), 1);
        table.row([
            Entry::number(u64::from(point.size), 0),
            rate(point.ft[0]),
            rate(point.tcp[0]),
            rate(point.ft[1]),
            rate(point.tcp[1]),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let panel = |(of, reading): (usize, &Reading)| {
        let curve = |name: &str, look, rate: &dyn Fn(&Point) -> Rational| {
            let point = |p: &Point| (f64::from(p.size), thousands(rate(p)));
            let name = format!("{name}, {}", reading.name);
            Series::new(&name, look, points.iter().map(point).collect())
        };
        Panel {
            x: Axis::linear("packet, octets"),
            y: Axis::linear("1,000 octets/s"),
            series: vec![
                curve("file transfer", Look::Dotted, &|p| p.ft[of]),
                curve("TCP/IP", Look::Dashed, &|p| p.tcp[of]),
            ],
            marks: Vec::new(),
        }
    };
    Figure::stacked(
        "throughput",
        "Packet size",
        READINGS.iter().enumerate().map(panel).collect(),
    )
}

fn checks(points: &[Point], xtp: Rational) -> Vec<Check> {
    let most = |of: &dyn Fn(&Point) -> Rational| {
        let all = points.iter().map(of);
        all.max().unwrap_or(Rational::ZERO)
    };
    let (ft, tcp) = (most(&|p| p.ft[1]), most(&|p| p.tcp[1]));
    let value = |rate: Rational| Value::new(rate / dec("1000"), 1, "x 1000 octets/s");
    let mut checks = vec![
        Claim::calibrated("T8", "file transfer", "up to 410 Kbytes/sec")
            .prints(dec("410"))
            .number(dec("410"), Tolerance::Percent(dec("5")), &value(ft)),
        Claim::calibrated("T8", "TCP/IP", "up to 220 Kbytes/sec")
            .prints(dec("220"))
            .number(dec("220"), Tolerance::Percent(dec("2")), &value(tcp)),
        Claim::calibrated("T8", "XTP, a cost alone", "90 Kbytes/sec")
            .prints(dec("90"))
            .number(dec("90"), Tolerance::Percent(dec("2")), &value(xtp)),
        Claim::calibrated("T8", "TCP/IP over file transfer", "220 of 410").number(
            dec("0.537"),
            Tolerance::Absolute(dec("0.03")),
            &Value::ratio(tcp.over(ft), 3, "times"),
        ),
        Claim::calibrated("T8", "XTP over file transfer", "90 of 410").number(
            dec("0.220"),
            Tolerance::Absolute(dec("0.01")),
            &Value::ratio(xtp.over(ft), 3, "times"),
        ),
        Claim::shape("T8", "file transfer, long packets", "over 300 Kbytes/sec").number(
            dec("300"),
            Tolerance::AtLeast,
            &value(ft),
        ),
    ];
    for (of, reading) in READINGS.iter().enumerate() {
        let above = points.iter().all(|p| p.ft[of] > p.tcp[of]);
        checks.push(
            Claim::shape("T10", "file transfer beside TCP/IP", "much more efficient")
                .reading(reading.name)
                .holds(
                    above,
                    if above {
                        "above everywhere"
                    } else {
                        "below somewhere"
                    },
                ),
        );
    }
    checks.extend(one_packet(points));
    checks.extend(window(points));
    checks
}

fn linear(what: &str, reading: &str) -> Claim {
    let paper = "almost linearly related until a certain length";
    Claim::shape("T10", what, paper).reading(reading)
}

/// a and b of the shortest and the longest packet; those between have to lie on the law.
fn one_packet(points: &[Point]) -> Option<Check> {
    let span = |p: &Point| p.size().over(p.ft[0]);
    let (first, last) = (points.first()?, points.last()?);
    let law = span(first).zip(span(last)).map(|(short, long)| {
        let b = ((long - short) / (last.size() - first.size())).rounded(12);
        ((short - b * first.size()).rounded(12), b)
    });
    let furthest = law.and_then(|(a, b)| {
        let off = |p: &Point| {
            let rate = p.size().over((a + b * p.size()).rounded(12))?;
            let share = p.ft[0].over(rate.rounded(1))?;
            Some((share - Rational::ONE).abs() * dec("100"))
        };
        points
            .iter()
            .filter_map(off)
            .map(|off| off.rounded(3))
            .max()
    });
    let knee = law.and_then(|(a, b)| a.over(b));
    let knee = knee.map_or("nowhere".to_owned(), |knee| knee.fixed(0));
    Some(
        linear(
            "file transfer by packet size",
            &format!("{}, a / b at {knee} octets", READINGS[0].law),
        )
        .number(
            dec("5"),
            Tolerance::AtMost,
            &Value::ratio(furthest, 1, "% off"),
        ),
    )
}

/// Twice the packet, twice the rate; and where the processor is the limit, no more.
fn window(points: &[Point]) -> Vec<Check> {
    let over = |long: usize, short: usize| points[long].ft[1].over(points[short].ft[1]);
    let last = points.len() - 1;
    let claim = |what: &str| linear(what, READINGS[1].law);
    let near = Tolerance::Percent(dec("5"));
    vec![
        claim("512 octets over 256").number(dec("2"), near, &Value::ratio(over(1, 0), 2, "times")),
        claim("9,180 octets over 4,096").number(
            dec("1"),
            near,
            &Value::ratio(over(last, last - 1), 2, "times"),
        ),
    ]
}
