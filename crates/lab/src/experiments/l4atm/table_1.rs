//! Throughput of L4ATM and of Linux (Table 1).

use cellgate_core::contract::CellRate;
use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    dec,
};

use super::units::{DECIMAL, READINGS, after_seconds, mbps, percent, rate, writer};
use crate::experiments::{Error, Experiment, Parameter, Progress, Settings};
use crate::machine::p90::{
    Cpu, Host, HostThread, Level, Order, ReceiveHost, Received, Waking, Wire, Writer,
};
use crate::world::Ps;

/// `l4atm-table-1`.
pub(in crate::experiments) struct Table1;

const SDU: u32 = 8_192;
const PARAMETERS: &[Parameter] = &[
    Parameter::whole(
        "driver_us",
        "time that the driver takes of a received packet, calibrated, us",
        229,
        (1, 484),
    ),
    Parameter::whole(
        "reader_us",
        "time that protocol and application take after that, calibrated, us",
        592,
        (1, 10_000),
    ),
    Parameter::whole("seconds", "virtual seconds of each rate, s", 20, (1, 3_600)),
];

impl Experiment for Table1 {
    fn name(&self) -> &'static str {
        "l4atm-table-1"
    }

    fn source(&self) -> &'static str {
        "L4ATM, Table 1"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let receive = Receive::new(settings);
        let time = settings.whole("seconds");
        let transmit = greedy(time);
        progress.step(1, 2);
        let rows = receive.at_line_rate();
        let outcome = Outcome {
            tables: vec![table(&rows, transmit)],
            figures: vec![receive.figure()],
            checks: checks(&rows, transmit),
            notes: notes(),
        };
        progress.step(2, 2);
        Ok(outcome)
    }
}

fn notes() -> Vec<String> {
    [
        "Calibrated: what a packet of 8 KB takes of the driver and of all that follows, so that \
         both averages of Table 1 come out; both systems have the same costs. What differs is \
         which goes first, and with it where packets are lost.",
        "Sending is the machine's: 133 * 10^6 bit/s (section 3.1) take the whole CPU, and the line \
         would carry 135.4. Table 1 has 130.6. What sending costs Linux is not printed, so its row \
         has no figure of ours; nor have the spreads, for the model's times do not vary.",
    ]
    .map(str::to_owned)
    .into()
}

/// The receive path in the two orders.
struct Receive {
    host: ReceiveHost,
    time: Ps,
}

/// What each order delivered.
struct Rows {
    linux: Received,
    l4atm: Received,
    time: Ps,
}

impl Receive {
    fn new(settings: &Settings) -> Self {
        let micros = |key| Ps::from_ns(settings.whole(key) * 1_000);
        Self {
            host: ReceiveHost {
                order: Order::DriverFirst,
                driver: micros("driver_us"),
                reader: micros("reader_us"),
                board_pdus: 32,
                queue_pdus: 32,
            },
            time: after_seconds(settings.whole("seconds")),
        }
    }

    fn rows(&self, period: Ps) -> Rows {
        let run = |order| ReceiveHost { order, ..self.host }.run(period, self.time);
        Rows {
            linux: run(Order::DriverFirst),
            l4atm: run(Order::ReaderFirst),
            time: self.time,
        }
    }

    fn at_line_rate(&self) -> Rows {
        self.rows(Wire::time(SDU))
    }

    /// Both orders over what is offered.
    fn figure(&self) -> Figure {
        let (mut linux, mut l4atm) = (Vec::new(), Vec::new());
        for offered in (10_u64..=135).step_by(5) {
            let bits = u64::from(SDU) * 8;
            let rows = self.rows(Ps::new(bits * 1_000_000 / offered));
            let x = offered as f64;
            linux.push((x, rows.mbps(&rows.linux).to_f64()));
            l4atm.push((x, rows.mbps(&rows.l4atm).to_f64()));
        }
        let most = mbps(aal5_max(), DECIMAL).to_f64();
        let panel = Panel {
            x: Axis::linear("offered, Mbit/s of 8 KB packets"),
            y: Axis::linear("read, Mbit/s"),
            series: vec![
                Series::new("driver first (Linux)", Look::Dashed, linux),
                Series::new("reader first (L4ATM)", Look::Line, l4atm),
                Series::new("Table 1", Look::Printed, vec![(most, 58.3), (most, 79.8)]),
            ],
            marks: Vec::new(),
        };
        let title = "Reading under overload: who goes first decides what the work is for";
        Figure::single("l4atm-table-1", title, panel)
    }
}

impl Rows {
    /// 10^6 bit/s of SDU.
    fn mbps(&self, received: &Received) -> Rational {
        let bits = i128::from(received.delivered) * i128::from(SDU) * 8;
        Rational::new(bits * 1_000_000, self.time.ps().into())
    }
}

/// Bit/s of a writer that nothing paces, as its peer sees it.
fn greedy(time_s: u64) -> u64 {
    let mut cpu = Cpu::new(Host::new(Host::CLOCK_STEP_NS));
    let thread = Writer::new(SDU, None, Waking::AsksTheClock);
    let id = cpu.start(Level::RealTime, HostThread::Writer(thread));
    cpu.run(after_seconds(time_s));
    writer(cpu.activity(id)).received.bit_s()
}

/// The most that AAL5 carries on the line, bit/s.
fn aal5_max() -> u64 {
    CellRate::OC3.sdu_bit_s(SDU)
}

fn table(rows: &Rows, transmit: u64) -> Table {
    let mut table = Table::new(
        "l4atm-table-1",
        "Throughput of 8 KB packets, 10^6 bit/s",
        &[
            ("path", "path"),
            ("paper_mbit_s", "paper, avg"),
            ("paper_most_mbit_s", "max"),
            ("paper_least_mbit_s", "min"),
            ("ours_mbit_s", "ours"),
            ("lost_before_work_pdus", "lost at board, packets"),
            ("lost_after_work_pdus", "lost at socket, packets"),
        ],
    );
    let printed = |numbers: [&'static str; 3]| numbers.map(|one| Entry::number(dec(one), 1));
    let received = |received: &Received| {
        [
            Entry::number(rows.mbps(received), 1),
            Entry::number(received.lost_at_board, 0),
            Entry::number(received.lost_at_queue, 0),
        ]
    };
    let sent = |bit_s: u64| {
        [
            Entry::number(mbps(bit_s, DECIMAL), 1),
            Entry::Empty,
            Entry::Empty,
        ]
    };
    let none = || [Entry::Empty, Entry::Empty, Entry::Empty];
    for (name, paper, ours) in [
        (
            "L4ATM RX",
            printed(["79.8", "84.2", "74.2"]),
            received(&rows.l4atm),
        ),
        (
            "L4ATM TX",
            printed(["130.6", "130.6", "130.6"]),
            sent(transmit),
        ),
        (
            "Linux RX",
            printed(["58.3", "62.8", "52.4"]),
            received(&rows.linux),
        ),
        ("Linux TX", printed(["129.5", "130.6", "126.4"]), none()),
        ("AAL5 on the line", none(), sent(aal5_max())),
    ] {
        let ([avg, most, least], [rate, before, after]) = (paper, ours);
        table.row([Entry::text(name), avg, most, least, rate, before, after]);
    }
    table
}

fn checks(rows: &Rows, transmit: u64) -> Vec<Check> {
    let (linux, l4atm) = (rows.mbps(&rows.linux), rows.mbps(&rows.l4atm));
    let more = |l4atm: Rational, linux| percent((l4atm - linux).over(linux));
    let [(decimal, _), (binary, _)] = READINGS;
    let printed = |unit| dec("130.6") * Rational::from(unit) / Rational::from(aal5_max());
    let near = |number: &str| Tolerance::Absolute(dec(number));
    let lost = format!(
        "{} after work by Linux, {} by L4ATM",
        rows.linux.lost_at_queue, rows.l4atm.lost_at_queue
    );
    vec![
        Claim::calibrated("L12", "L4ATM RX", "79.8 (74.2 to 84.2)").number(
            dec("79.8"),
            Tolerance::Percent(dec("1")),
            &rate(l4atm),
        ),
        Claim::calibrated("L12", "Linux RX", "58.3 (52.4 to 62.8)").number(
            dec("58.3"),
            Tolerance::Percent(dec("1")),
            &rate(linux),
        ),
        Claim::calibrated("L12", "L4ATM reads more, on the model", "36.8 %").number(
            dec("36.8"),
            near("0.1"),
            &more(l4atm, linux),
        ),
        Claim::shape(
            "L12",
            "only Linux loses packets after it worked for them",
            "",
        )
        .holds(
            rows.linux.lost_at_queue > 0 && rows.l4atm.lost_at_queue == 0,
            &lost,
        ),
        Claim::derived(
            "L12",
            "TX of what AAL5 can have, printed",
            "close to the maximum",
        )
        .reading(decimal)
        .number(dec("96.5"), near("0.05"), &percent(printed(1_000_000))),
        Claim::derived("L12", "TX of what AAL5 can have, printed: impossible", "")
            .reading(binary)
            .number(dec("101.2"), near("0.05"), &percent(printed(1 << 20))),
        Claim::derived("L12", "TX of what AAL5 can have, on the model", "96.5 %").number(
            dec("96.5"),
            Tolerance::AtLeast,
            &percent(Rational::new(transmit.into(), aal5_max().into())),
        ),
        Claim::calibrated("L12", "L4ATM TX, on the model, whose t_max is 133", "130.6").number(
            dec("130.6"),
            Tolerance::Percent(dec("2")),
            &rate(mbps(transmit, DECIMAL)),
        ),
        Claim::lost(
            "L12",
            "Linux TX, of L4ATM's, printed",
            "129.5 (126.4 to 130.6)",
            &percent(dec("129.5") / dec("130.6")),
        ),
    ]
}
