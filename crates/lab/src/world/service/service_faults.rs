//! What else is drawn for a scenario with servers: hosts as others are, what happens to lines,
//! clocks and wake-ups that no server asks for, other AALs, leases, guests, and applications that
//! write where they should not.

use cellgate_core::wire::PAYLOAD_LEN;

use super::scenario::{Call, CallSpec};
use crate::generate::Draw;
use crate::world::draw::clock;
use crate::world::draw::faults::{MOVED, cell_fault, guests, waking, writes};
use crate::world::scenario::{Scenario, Traffic};

/// Cells of a line among which faults strike.
const CELLS: u64 = 2_000;

/// VCs of somebody else, at most.
const GUESTS: u64 = 40;

/// Draws it all; `hosts` have servers.
pub(super) fn draw(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
    for host in &mut scenario.hosts {
        host.clock_ns = clock(draw);
        host.clump_cells = draw.pick(&[1, 1, 4, 28]);
        host.spare_vcs = draw.pick(&[0, 0, 2, 8]);
        host.reassembly_timeout_ns = draw.pick(&[0, 0, 0, 1_000_000, 8_000_000]);
    }
    moved_cells(draw, scenario);
    waking(draw, scenario, hosts);
    guests(draw, scenario, hosts, GUESTS);
    other_contracts(draw, scenario);
    let names = scenario.connections.iter().map(|spec| spec.name.clone());
    let names: Vec<String> = names.collect();
    writes(draw, scenario, &names);
    rare_contracts(draw, scenario);
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
fn other_contracts(draw: &mut Draw, scenario: &mut Scenario) {
    let heal_ns = scenario.heal_ns;
    for spec in &mut scenario.connections {
        let (is_aal34, takes_more) = (draw.percent(20), draw.percent(20));
        spec.contract = otherwise(&spec.contract, is_aal34, takes_more);
        let applications = scenario.applications.iter_mut();
        for application in applications.filter(|one| one.connection == spec.name) {
            for call in &mut application.calls {
                if let Call::OpenWith(text) | Call::Modify(text) = &mut call.call {
                    *text = otherwise(text, is_aal34, takes_more);
                }
            }
            // Who sends is refused, mostly.
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
fn rare_contracts(draw: &mut Draw, scenario: &mut Scenario) {
    for source in &mut scenario.sources {
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
        let mut all = scenario.connections.iter_mut();
        let Some(spec) = all.find(|spec| spec.name == source.connection) else {
            continue;
        };
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
        spec.contract = rare.contract(&spec.contract);
        let applications = scenario.applications.iter_mut();
        for application in applications.filter(|one| one.connection == spec.name) {
            for call in &mut application.calls {
                if let Call::OpenWith(text) | Call::Modify(text) = &mut call.call {
                    *text = rare.contract(text);
                }
            }
        }
    }
}

/// Cells of nobody's, cells that wait, cells that overtake others.
fn moved_cells(draw: &mut Draw, scenario: &mut Scenario) {
    for class in MOVED {
        if !draw.percent(15) {
            continue;
        }
        for _ in 0..draw.between(1, 8) {
            cell_fault(draw, scenario, class, 50, CELLS);
        }
    }
}
