//! I15, of best effort: what nobody has reserved is divided by weight, and applications hear of
//! it.

use cellgate_core::adapter::PortIndex;
use cellgate_core::contract::TrafficContract;
use cellgate_core::server::{ConnectionInfo, Direction};

use super::application::Application;
use super::daemon::Served;
use super::setup::interface_name;

/// A best-effort connection in one direction.
struct Part {
    number: u32,
    weight: u64,
    cell_s: u64,
}

/// A contract's part of a direction, if it is best effort: none if it has a bound of its own.
fn part_of(info: &ConnectionInfo, direction: Direction) -> Option<Option<Part>> {
    let contract = info.contract.parse::<TrafficContract>().ok()?;
    let (descriptor, share) = match direction {
        Direction::Transmit => (contract.transmit, info.transmit),
        Direction::Receive => (contract.receive, info.receive),
    };
    let descriptor = descriptor.filter(|_| !info.guaranteed)?;
    let is_bound = descriptor.pcr.is_some() || descriptor.max_pcr.is_some();
    Some((!is_bound).then(|| Part {
        number: info.number,
        weight: descriptor.min_pcr.map_or(1, |rate| rate.cell_s().into()),
        cell_s: share.map_or(0, |rate| rate.cell_s().into()),
    }))
}

/// What is wrong with the parts of `rest` cells/s, if anything.
fn misdivided(rest: u64, parts: &[Part]) -> Option<String> {
    let count = parts.len() as u64;
    if count > rest {
        return Some(format!(
            "{count} connections of best effort share {rest} cells/s"
        ));
    }
    let sum: u64 = parts.iter().map(|part| part.cell_s).sum();
    if sum != rest && count > 0 {
        return Some(format!("best effort has {sum} of {rest} cells/s"));
    }
    let weights: u128 = parts.iter().map(|part| u128::from(part.weight)).sum();
    let wrong = parts.iter().find(|part| {
        // Rounded, and what lifts others from nothing comes from the largest.
        let due = u128::from(rest) * u128::from(part.weight);
        let has = u128::from(part.cell_s) * weights;
        due.abs_diff(has) > u128::from(count) * weights
    });
    wrong.map(|part| {
        let Part {
            number,
            weight,
            cell_s,
        } = part;
        format!(
            "connection {number} of weight {weight} of {weights} has {cell_s} of {rest} cells/s"
        )
    })
}

impl Served {
    /// Whether what is left of a line is divided wrong among best effort. What is wrong, if
    /// anything.
    pub(super) fn shared_wrong(&self, list: &[ConnectionInfo], lines: &[u64]) -> Option<String> {
        for (port, line) in lines.iter().enumerate() {
            let name = interface_name(port);
            for direction in [Direction::Transmit, Direction::Receive] {
                let on_port = list
                    .iter()
                    .filter(|info| info.address.interface.as_ref() == Some(&name));
                let guaranteed = on_port.clone().filter(|info| info.guaranteed);
                let taken: u64 = guaranteed
                    .filter_map(|info| match direction {
                        Direction::Transmit => info.transmit,
                        Direction::Receive => info.receive,
                    })
                    .map(|rate| u64::from(rate.cell_s()))
                    .sum();
                let parts = on_port.filter_map(|info| part_of(info, direction));
                let Some(parts) = parts.collect::<Option<Vec<Part>>>() else {
                    continue;
                };
                if let Some(text) = misdivided(line.saturating_sub(taken), &parts) {
                    return Some(format!("port {port}, {direction:?}: {text}"));
                }
            }
        }
        None
    }

    /// Whether an application goes by another share than there is, when nothing happens any more.
    /// What is wrong, if anything.
    pub(super) fn shares_unheard(&self, applications: &[Application]) -> Option<String> {
        let server = self.server.as_ref()?;
        for info in server.connections().filter(|info| !info.guaranteed) {
            let address = &info.address;
            let mut vcs = self.process.vcs.iter();
            let found = vcs.find(|(_, kept)| {
                let port = interface_name(usize::from(kept.request.port.0));
                kept.request.address == address.vc && address.interface == Some(port)
            });
            let Some((vc, _)) = found else {
                continue;
            };
            let uses = |n: &&usize| {
                let held = applications[**n].held.as_ref();
                held.is_some_and(|held| held.vc == *vc && held.in_use)
            };
            let Some(application) = self.clients.values().find(uses) else {
                continue;
            };
            let heard = applications[*application].share;
            for (heard, due) in heard.into_iter().zip([info.transmit, info.receive]) {
                if heard.is_some() && heard != due {
                    let name = &applications[*application].spec.name;
                    return Some(format!("application {name} has heard {heard:?} of {due:?}"));
                }
            }
        }
        None
    }

    /// Whether an address that is refused as taken is nobody's.
    pub(super) fn is_free(&self, address: &cellgate_core::server::Address) -> bool {
        let port = |port: PortIndex| interface_name(usize::from(port.0));
        let mut vcs = self.process.vcs.values();
        let is_open = vcs.any(|kept| {
            kept.request.address == address.vc && address.interface == Some(port(kept.request.port))
        });
        let server = self.server.as_ref();
        let is_listed =
            server.is_some_and(|server| server.connections().any(|info| info.address == *address));
        // While there is no adapter, what it was asked to open waits for the next one.
        let is_there = self.is_adapter_up && self.known_adapter == self.adapter_life;
        let is_quiet = self.asked.is_empty() && self.process.waiting() == 0;
        is_there && is_quiet && !is_open && !is_listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(of: &[(u64, u64)]) -> Vec<Part> {
        let parts = (0..).zip(of);
        let part = |(number, &(weight, cell_s))| Part {
            number,
            weight,
            cell_s,
        };
        parts.map(part).collect()
    }

    #[test]
    fn best_effort_has_all_that_is_left_by_weight() {
        let right = [
            (0, vec![]),
            (7, vec![]),
            (10, vec![(1, 10)]),
            (10, vec![(1, 3), (1, 3), (1, 4)]),
            (1_000, vec![(9, 900), (1, 100)]),
            // One is lifted from nothing.
            (10, vec![(1_000, 9), (1, 1)]),
        ];
        for (rest, of) in right {
            assert_eq!(misdivided(rest, &parts(&of)), None, "{of:?}");
        }
        let wrong = [
            (1, vec![(1, 1), (1, 0)]),
            (10, vec![(1, 9)]),
            (10, vec![(1, 11)]),
            (1_000, vec![(9, 500), (1, 500)]),
        ];
        for (rest, of) in wrong {
            assert!(misdivided(rest, &parts(&of)).is_some(), "{of:?}");
        }
    }
}
