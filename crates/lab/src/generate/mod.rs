//! From a seed to a plan.

mod aal34;
mod actions;
mod cells;
mod draw;
mod loopback;
mod oam;

use cellgate_core::adapter::{
    Aal, AttachmentIndex, ClpScope, Config, Excess, Marks, Notification, OpenRequest, PortConfig,
    PortIndex, Receive, Sustained, SustainedRate, Transmit,
};
use cellgate_core::contract::CellRate;
use cellgate_core::wire::{CellFormat, HeaderForm, VpiVci};

use crate::memory::RegionSizes;
use crate::plan::{Arrival, Plan, Step};
use actions::Actions;
use cells::Cellmaker;
pub(crate) use draw::Draw;

/// Commands that set the stage are over.
const OPENED_NS: u64 = 1_000_000;
/// From here on nothing arrives, and what is left over must go.
const QUIET_NS: u64 = 25_000_000;

/// A VC in the plan.
#[derive(Clone, Debug)]
struct Line {
    /// Of the command that opens it, and of the one that brought its present memory.
    ticket: u64,
    memory: u64,
    /// Of the command that attached its client.
    client: u64,
    request: OpenRequest,
    sizes: RegionSizes,
    from_ns: u64,
    until_ns: u64,
}

/// The plan of a seed; the same for ever, as long as this file does not change.
pub fn plan(seed: u64) -> Plan {
    let mut draw = Draw::new(seed);
    // Of their own: plans that were drawn before keep their other cells and actions.
    let mut oam = Draw::new(seed ^ 0x6f61_6d00_0000_0000);
    let mut namesakes = Draw::new(seed ^ 0x6e61_6d65_0000_0000);
    let mut config = config(&mut draw);
    config.leaves += namesakes.below(config.ports.len() as u64) as u16;
    if oam.percent(40) {
        // Whole steps, as budgets are, and one cell more.
        let budget = u32::from(config.ports[0].budget);
        config.overload_cells = oam.pick(&[1, 2 * budget, 3 * budget + 1, 500]);
    }
    let mut actions = Actions::new(&config);
    let clients = actions.attach_all(&mut draw, &config);
    let mut places = Vec::new();
    let lines: Vec<Line> = (0..draw.between(2, 5))
        .map(|_| {
            let mut request = contract(&mut draw, &config, &clients);
            // Other seeds keep their plans.
            if seed % 4 == 3 {
                aal34::turn(&mut draw, &mut request);
            }
            loopback::turn(&mut oam, &mut request);
            rename(&mut namesakes, &config, &places, &mut request);
            places.push((request.port, request.address));
            if let Some(receive) = &mut request.receive {
                receive.guaranteed = oam.percent(50);
            }
            let sizes = sizes(&mut draw, &request);
            actions.open(&request, sizes, clients[usize::from(request.attachment.0)])
        })
        .collect();
    let mut cellmaker = Cellmaker {
        config: &config,
        arrivals: Vec::new(),
    };
    let mut all = lines.clone();
    for line in &lines {
        all.extend(actions.life_of(&mut draw, &config, line, &clients));
    }
    for line in &all {
        cellmaker.source(&mut draw, line, QUIET_NS - 2_000_000);
    }
    cellmaker.oam_cells(&mut draw, &all, QUIET_NS - 2_000_000);
    cellmaker.oam_of_paths(&mut oam, &lines);
    cellmaker.oam_of_transmitters(&mut oam, &lines);
    cellmaker.strangers(&mut draw, &lines, OPENED_NS / 2, QUIET_NS - 2_000_000);
    let mut arrivals = cellmaker.arrivals;
    arrivals.sort_by_key(|arrival| arrival.at_ns);
    actions.host(&mut draw, &config, &lines);
    actions.loopbacks(&mut oam, &config, &lines);
    let mut actions = actions.finish(&clients, &all);
    actions.sort_by_key(|planned| planned.at_ns);
    let steps = steps(&mut draw);
    Plan {
        seed,
        config,
        cells: arrivals,
        actions,
        steps,
    }
}

/// The cells of one VC without HEC, in the order of time: PDUs whole and damaged, OAM cells, and
/// where `strangers` says so cells of nobody.
pub(crate) fn recording(
    draw: &mut Draw,
    request: &OpenRequest,
    until_ns: u64,
    strangers: bool,
) -> Vec<Arrival> {
    let config = Config {
        ports: vec![PortConfig {
            form: HeaderForm::Uni,
            format: CellFormat::NoHec,
            budget: 64,
            discard_unread: false,
            real_time: false,
            line_rate: CellRate::OC3,
        }],
        ..config(draw)
    };
    let line = Line {
        ticket: 0,
        memory: 0,
        client: 0,
        request: *request,
        sizes: sizes(draw, request),
        from_ns: 0,
        until_ns,
    };
    let mut cellmaker = Cellmaker {
        config: &config,
        arrivals: Vec::new(),
    };
    let lines = [line];
    cellmaker.source(draw, &lines[0], until_ns);
    if until_ns > OPENED_NS {
        cellmaker.oam_cells(draw, &lines, until_ns);
    }
    if strangers {
        cellmaker.strangers(draw, &lines, 0, until_ns);
    }
    let mut arrivals = cellmaker.arrivals;
    arrivals.sort_by_key(|arrival| arrival.at_ns);
    arrivals
}

/// A port of one of the budgets that are drawn has its cells taken first.
const fn is_real_time(budget: u16) -> bool {
    budget == 16
}

fn config(draw: &mut Draw) -> Config {
    let mut ports: Vec<_> = (0..draw.between(1, 3))
        .map(|_| PortConfig {
            form: HeaderForm::Uni,
            format: draw.pick(&[CellFormat::WithHec, CellFormat::NoHec]),
            budget: draw.pick(&[5, 16, 64, 100]),
            discard_unread: draw.percent(6),
            real_time: false,
            line_rate: CellRate::OC3,
        })
        .collect();
    const UNI: HeaderForm = HeaderForm::Uni;
    const NNI: HeaderForm = HeaderForm::Nni;
    let forms = draw.pick(&[[UNI; 3], [UNI, NNI, UNI], [NNI, UNI, NNI]]);
    for (port, form) in ports.iter_mut().zip(forms) {
        port.form = form;
        port.real_time = is_real_time(port.budget);
    }
    Config {
        vcs: draw.between(3, 8) as u16,
        leaves: draw.between(1, 3) as u16,
        attachments: draw.between(1, 3) as u16,
        ports,
        gap_max_ns: draw.pick(&[100_000, 500_000, 2_000_000]),
        clump_cells: draw.pick(&[1, 1, 4, 28]),
        overload_cells: 0,
    }
}

/// Whether cells on `port` have a GFC.
fn is_uni(config: &Config, port: PortIndex) -> bool {
    let port = config.ports.get(usize::from(port.0));
    port.is_some_and(|port| port.form == HeaderForm::Uni)
}

fn rate(draw: &mut Draw, of: &[u32]) -> Option<CellRate> {
    CellRate::new(draw.pick(of))
}

fn contract(draw: &mut Draw, config: &Config, clients: &[u64]) -> OpenRequest {
    let vpi = draw.pick(&[0, 0, 1, 17, 255]);
    // Few blocks of 16,384 addresses: most VCs find a leaf.
    let vci = draw.between(32, 40) as u16 + draw.pick(&[0, 0, 0, 0x4000]);
    let aal = draw.pick(&[Aal::Aal5, Aal::Aal5, Aal::Aal5, Aal::Aal5, Aal::Aal0]);
    let max_sdu = match aal {
        Aal::Aal0 => 52,
        Aal::Aal5 | Aal::Aal34(_) => draw.pick(&[40, 41, 88, 200, 424, 500, 1000, 1400]),
    };
    let kind = draw.below(10);
    OpenRequest {
        address: VpiVci::new(vpi, vci).unwrap_or_default(),
        port: PortIndex(draw.below(config.ports.len() as u64) as u8),
        aal,
        attachment: AttachmentIndex(draw.below(clients.len() as u64) as u16),
        receive: (kind != 0).then(|| Receive {
            // Blocks on every second VCI of AAL0.
            marks: if aal == Aal::Aal0 && vci.is_multiple_of(2) {
                Marks::Mssar
            } else {
                Marks::None
            },
            ..receive(draw, max_sdu)
        }),
        transmit: (kind == 0 || kind > 5).then(|| transmit(draw, max_sdu)),
    }
}

/// Often a line has the address of one before it, on another port.
fn rename(
    draw: &mut Draw,
    config: &Config,
    before: &[(PortIndex, VpiVci)],
    request: &mut OpenRequest,
) {
    let ports = config.ports.len() as u64;
    if ports > 1 && !before.is_empty() && draw.percent(30) {
        let (port, address) = draw.pick(before);
        let other = (u64::from(port.0) + draw.between(1, ports - 1)) % ports;
        (request.port, request.address) = (PortIndex(other as u8), address);
    }
}

fn receive(draw: &mut Draw, max_sdu: u16) -> Receive {
    let policed = draw.percent(75);
    let rate = if policed {
        rate(draw, &[2_000, 10_000, 20_000, 33_333, 70_001])
    } else {
        None
    };
    let reserve = draw.pick(&[0, 512, 1024, 2048]);
    let excess = match draw.below(100) {
        0..35 if policed => Excess::WhenIdle { reserve },
        35..60 => Excess::Tag { reserve },
        _ => Excess::Discard,
    };
    let is_vbr = draw.percent(45);
    Receive {
        marks: Marks::None,
        rate,
        guaranteed: false,
        sustained: rate
            .filter(|_| is_vbr)
            .and_then(|peak| sustained(draw, peak, max_sdu, reserve)),
        cdvt_ns: draw.pick(&[0, 10_000, 100_000, 1_000_000]),
        max_sdu,
        fixed_sdu: draw.percent(25),
        excess,
        notification: notification(draw),
        queue_threshold: draw.pick(&[0, 0, 1, 2, 3, 5]),
    }
}

/// VBR.1, or, by `excess`, VBR.2 or VBR.3: a rate of at most `peak` and a burst of some PDUs.
fn sustained(draw: &mut Draw, peak: CellRate, max_sdu: u16, reserve: u32) -> Option<Sustained> {
    let peak = u64::from(peak.cell_s());
    let scr = peak * draw.pick(&[10, 25, 50, 50, 80, 100]) / 100;
    let mbs = 1 + draw.pick(&[0, 0, 1, 2, 5]) * (u64::from(max_sdu) + 8).div_ceil(48);
    let spread_ns = (mbs - 1) * 1_000_000_000 * (peak - scr);
    Some(Sustained {
        rate: CellRate::new(scr as u32)?,
        burst_tolerance_ns: spread_ns.div_ceil(peak * scr),
        clp: draw.pick(&[ClpScope::AllCells, ClpScope::HighPriority { reserve }]),
    })
}

fn notification(draw: &mut Draw) -> Notification {
    match draw.below(8) {
        0 => Notification::EveryCell,
        1 => Notification::FirstCell,
        2 => Notification::FirstAndLastCell,
        3 => Notification::Polled,
        4 | 5 => Notification::Silent {
            threshold: draw.pick(&[1, 2, 3, 8, 1000]),
            longest_delay_ns: draw.pick(&[100_000, 1_000_000, 5_000_000, u64::MAX]),
        },
        _ => Notification::LastCell,
    }
}

fn transmit(draw: &mut Draw, max_sdu: u16) -> Transmit {
    let rate = match draw.percent(60) {
        true => rate(draw, &[5_000, 20_000, 33_333, 50_000]),
        false => None,
    };
    let cdvt_ns = draw.pick(&[0, 50_000, 300_000]);
    let weight = draw.between(1, 1000) as u32;
    // Two of five best-effort senders: the others are to send as fast as they can.
    let peak = [5_000, 33_333].get(weight as usize % 5);
    let peak = peak.and_then(|cell_s| CellRate::new(*cell_s));
    let vbr = rate.and_then(|scr| bursts(weight, scr, max_sdu));
    Transmit {
        rate: vbr.map(|(peak, _)| peak).or(rate),
        abr: None,
        peak: peak.filter(|_| rate.is_none()),
        cdvt_ns,
        weight,
        max_sdu,
        burst: 1,
        sustained: vbr.map(|(_, sustained)| sustained),
        interrupt_on_completion: draw.percent(50),
    }
}

/// Of three of four guaranteed senders the peak rate of bursts, and what they sustain: as much as
/// the others, so that what is handed over leaves in time.
fn bursts(weight: u32, scr: CellRate, max_sdu: u16) -> Option<(CellRate, SustainedRate)> {
    let times = [2, 5, 20].get(weight as usize % 4)?;
    let pdus = [1, 2, 6][weight as usize / 4 % 3];
    let (sustained, peak) = (u64::from(scr.cell_s()), u64::from(scr.cell_s()) * times);
    let mbs = 1 + pdus * (u64::from(max_sdu) + 8).div_ceil(48);
    let spread_ns = (mbs - 1) * 1_000_000_000 * (peak - sustained);
    let of_burst = SustainedRate {
        rate: scr,
        burst_tolerance_ns: spread_ns.div_ceil(peak * sustained),
    };
    Some((CellRate::new(peak as u32)?, of_burst))
}

/// Memory that holds the largest PDU, and sometimes little more.
fn sizes(draw: &mut Draw, request: &OpenRequest) -> RegionSizes {
    let max_sdu = request.receive.map_or(0, |receive| receive.max_sdu);
    let least: u32 = if max_sdu > 900 { 4096 } else { 2048 };
    let transmit_slots = draw.pick(&[2, 4, 8]);
    let room = request
        .transmit
        .map_or(0, |transmit| u32::from(transmit.max_sdu).max(64));
    let reserves = matches!(
        request.receive.map(|receive| receive.excess),
        Some(Excess::WhenIdle { .. } | Excess::Tag { .. })
    );
    RegionSizes {
        receive_buffer: draw.pick(&[least, least, 4096, 8192, 32_768]).max(least),
        // Where there is a reserve, it is mostly to be met before the queue is full.
        receive_slots: if reserves && draw.percent(85) {
            64
        } else {
            draw.pick(&[2, 4, 16, 64, 64])
        },
        transmit_slots,
        transmit_len: (transmit_slots * room).next_multiple_of(4096),
        stable: draw.percent(70),
    }
}

fn steps(draw: &mut Draw) -> Vec<Step> {
    let usual_ns = draw.pick(&[30_000, 60_000, 150_000]);
    let is_regular = draw.percent(50);
    // On a grid of 10 us, as most cell times and tolerances are, bounds are met exactly.
    let grid_ns = draw.pick(&[1, 1, 10_000]);
    // Seldom a port takes nothing for so long that replies pile up.
    let clogged_ns = draw.pick(&[0, 0, 0, 8_000_000]);
    let clogged_from_ns = draw.between(OPENED_NS, QUIET_NS - clogged_ns);
    let mut steps = Vec::new();
    let mut now_ns = 0;
    while now_ns < QUIET_NS {
        let gap_ns = match draw.below(60) {
            0 => draw.between(usual_ns, 40 * usual_ns),
            _ if is_regular => usual_ns,
            _ => draw.between(1, 2 * usual_ns),
        };
        let poll_ns = (now_ns + gap_ns).next_multiple_of(grid_ns);
        let late_ns = if draw.percent(5) {
            draw.below(5 * usual_ns)
        } else {
            draw.below(5_000)
        };
        now_ns = (poll_ns + late_ns) / grid_ns * grid_ns;
        let clogged = now_ns.checked_sub(clogged_from_ns);
        steps.push(Step {
            poll_ns,
            now_ns,
            transmit_space: if clogged.is_some_and(|since_ns| since_ns < clogged_ns) {
                0
            } else {
                draw.pick(&[0, 1, 8, 64, 64, 64])
            },
        });
    }
    // Longer than a modification waits, and long enough for all that is left to be sent.
    for _ in 0..230 {
        let poll_ns = now_ns + 1_000_000;
        now_ns = poll_ns + 100 / grid_ns;
        steps.push(Step {
            poll_ns,
            now_ns,
            transmit_space: 64,
        });
    }
    steps
}
