//! Contracts: of senders that keep them, of applications, and rare ones.

use cellgate_core::wire::PAYLOAD_LEN;

use super::{CDVT, LINE};
use crate::generate::Draw;
use crate::world::scenario::{Call, CallSpec, Scenario, Traffic};

/// The parts of a contract's text.
#[derive(Clone, Debug)]
pub(super) struct Clause {
    pub(super) aal: &'static str,
    pub(super) category: &'static str,
    /// Kept on average.
    pub(super) cell_s: u64,
    pub(super) max_sdu: u16,
    pub(super) cdvt: &'static str,
    /// `excess=` or `police=`, with a comma.
    pub(super) beyond: &'static str,
}

impl Clause {
    /// The text.
    pub(super) fn text(&self) -> String {
        let Self {
            aal,
            category,
            cell_s,
            cdvt,
            beyond,
            ..
        } = self;
        let (octets, max_sdu) = match *aal {
            "aal0" => (48, 52),
            _ => (self.max_sdu, self.max_sdu),
        };
        let terms = match *category {
            "ubr" => String::new(),
            "vbr" => {
                let mbs = 40 + octets / 20;
                let peak = (2 * cell_s).min(LINE);
                format!("pcr={peak}cps,scr={cell_s}cps,mbs={mbs},")
            }
            _ => format!("pcr={cell_s}cps,"),
        };
        // Best effort has no rate to exceed.
        let beyond = if *category == "ubr" { "" } else { beyond };
        format!("{category},{aal}:{beyond}{terms}max_sdu={max_sdu},cdvt={cdvt}")
    }
}

/// What becomes of what exceeds a contract on an AAL.
pub(super) fn beyond(draw: &mut Draw, aal: &str) -> &'static str {
    match (draw.below(12), aal) {
        (0 | 1, _) => "excess=tag,",
        (2..5, _) => "excess=when-idle,",
        (5, _) => "police=buffer,",
        (6, "aal0") => "police=cell,",
        _ => "",
    }
}

/// Cells per second: mostly few enough for all, at times more than there are.
fn rate(draw: &mut Draw) -> u64 {
    match draw.below(10) {
        0 => draw.between(LINE / 2, LINE + 1_000),
        1 | 2 => draw.between(LINE / 8, LINE / 2),
        _ => draw.between(2_000, LINE / 8),
    }
}

/// A contract of an application.
pub(super) fn contract(draw: &mut Draw, max_sdu: u16) -> String {
    let rate = rate(draw);
    let jitter = draw.pick(&["", "", ",jitter=low"]);
    match draw.below(8) {
        0 => format!("ubr,aal5:max_sdu={max_sdu}"),
        1 => format!("ubr,aal5:min_pcr={rate}cps,max_sdu={max_sdu}"),
        2 => format!(
            "vbr,aal5:pcr={}cps,scr={rate}cps,mbs={},max_sdu={max_sdu},cdvt={CDVT}{jitter}",
            2 * rate,
            40 + u64::from(max_sdu) / 24,
        ),
        _ => format!("cbr,aal5:pcr={rate}cps,max_sdu={max_sdu},cdvt={CDVT}{jitter}"),
    }
}

/// What no server should open.
pub(super) fn bad_contract(draw: &mut Draw) -> String {
    let bad = [
        "",
        "nonsense",
        "abr,aal5:pcr=1000cps,max_sdu=100,tx:none",
        "cbr,aal5:pcr=0cps,max_sdu=100",
        "vbr,aal5:pcr=1000cps,max_sdu=100",
        "cbr,aal5:pcr=1000cps,max_sdu=70000",
        "cbr,aal5,police=cell:pcr=1000cps,max_sdu=100",
        "cbr,aal5:pcr=4000000000cps,max_sdu=100",
    ];
    draw.pick(&bad).into()
}

/// A contract on another AAL, or of a reader that takes more when it is idle.
fn otherwise(text: &str, is_aal34: bool, takes_more: bool) -> String {
    let text = match is_aal34 {
        true => text.replace(",aal5", ",aal34"),
        false => text.into(),
    };
    // Best effort has no rate to exceed.
    match takes_more && !text.starts_with("ubr") {
        true => text.replacen(':', ":excess=when-idle,", 1),
        false => text,
    }
}

/// Some connections are of AAL3/4, and some readers are lent time.
pub(super) fn other_contracts(draw: &mut Draw, scenario: &mut Scenario) {
    let heal_ns = scenario.heal_ns;
    for n in 0..scenario.connections.len() {
        let (is_aal34, takes_more) = (draw.percent(20), draw.percent(20));
        rewrite(scenario, n, |text| otherwise(text, is_aal34, takes_more));
        let spec = &scenario.connections[n];
        let applications = scenario.applications.iter_mut();
        for application in applications.filter(|one| one.connection == spec.name) {
            // A loan is refused to the sender, mostly.
            let likely = if application.host == spec.to { 80 } else { 10 };
            if !takes_more || !draw.percent(likely) {
                continue;
            }
            for _ in 0..draw.between(1, 6) {
                let call = Call::Lend {
                    pdus: draw.pick(&[0, 1, 5, 1_000]),
                    for_ns: draw.pick(&[100_000, 1_000_000, 5_000_000, 10_000_001]),
                };
                let at_ns = draw.below(heal_ns);
                application.calls.push(CallSpec { at_ns, call });
            }
            application.calls.sort_by_key(|call| call.at_ns);
        }
    }
}

/// Makes other contracts of a connection's, and of those that applications ask for.
fn rewrite(scenario: &mut Scenario, n: usize, other: impl Fn(&str) -> String) {
    let spec = &mut scenario.connections[n];
    spec.contract = other(&spec.contract);
    let applications = scenario.applications.iter_mut();
    let applications = applications.filter(|one| one.connection == spec.name);
    for call in applications.flat_map(|one| &mut one.calls) {
        if let Call::OpenWith(text) | Call::Modify(text) = &mut call.call {
            *text = other(text);
        }
    }
}

/// What makes a contract a rare one.
struct Rare {
    /// Of AAL5 before: SDUs of so many octets are cells then.
    of_aal0: Option<u16>,
    /// `excess=` or `police=`, with a comma.
    beyond: &'static str,
}

impl Rare {
    fn contract(&self, text: &str) -> String {
        let text = match self.of_aal0 {
            Some(max_sdu) => text
                .replace(",aal5:", ",aal0:")
                .replace(&format!("max_sdu={max_sdu}"), "max_sdu=52"),
            None => text.into(),
        };
        // Best effort has no rate to exceed.
        match text.starts_with("ubr") || text.contains("excess=") {
            true => text,
            false => text.replacen(':', &format!(":{}", self.beyond), 1),
        }
    }
}

/// Some connections are of AAL0, and what exceeds others is tagged, or their buffer alone polices
/// them, or each cell is policed; some sources send in bursts.
pub(super) fn rare_contracts(draw: &mut Draw, scenario: &mut Scenario) {
    for n in 0..scenario.sources.len() {
        let source = &mut scenario.sources[n];
        let is_cells = draw.percent(12);
        let beyond = draw.pick(&["", "", "", "", "", "excess=tag,", "police=buffer,", "cell"]);
        let is_bursty = draw.percent(15);
        let [on_ns, off_ns] = [(); 2].map(|()| draw.between(100_000, 3_000_000));
        match source.traffic {
            Traffic::Paced { cell_s } if is_bursty => {
                source.traffic = Traffic::OnOff {
                    cell_s,
                    on_ns,
                    off_ns,
                };
            }
            _ => {}
        }
        let mut all = scenario.connections.iter();
        let Some(number) = all.position(|spec| spec.name == source.connection) else {
            continue;
        };
        let spec = &scenario.connections[number];
        let longest = source.sdus.iter().max().copied();
        let of_aal0 = longest.filter(|_| is_cells && spec.contract.contains(",aal5:"));
        if of_aal0.is_some() {
            source.sdus = vec![PAYLOAD_LEN as u16];
        }
        let beyond = match (beyond, of_aal0) {
            ("cell", Some(_)) => "police=cell,",
            ("cell", None) => "",
            _ => beyond,
        };
        let rare = Rare { of_aal0, beyond };
        rewrite(scenario, number, |text| rare.contract(text));
    }
}
