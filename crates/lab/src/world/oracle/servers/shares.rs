//! I15, of best effort: what nobody has reserved is divided by weight, and applications hear of
//! it.

use cellgate_core::contract::TrafficContract;
use cellgate_core::server::{ConnectionInfo, Direction};

use super::{View, Wrong};

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

impl View<'_> {
    /// Whether what is left of a line is divided wrong among best effort. What is wrong, if
    /// anything.
    pub(super) fn shared_wrong(&self, list: &[ConnectionInfo]) -> Option<String> {
        for ((port, line), interface) in self.lines.iter().enumerate().zip(self.interfaces) {
            let name = &interface.name;
            for direction in [Direction::Transmit, Direction::Receive] {
                let on_port = list
                    .iter()
                    .filter(|info| info.address.interface.as_ref() == Some(name));
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

    /// I15: no application goes by another share than there is, when nothing happens any more.
    pub(super) fn shares_are_heard(&self) -> Result<(), Wrong> {
        let connections = self
            .server
            .into_iter()
            .flat_map(|server| server.connections());
        for info in connections.filter(|info| !info.guaranteed) {
            let vc = self.vc_at(&info.address).map(|(vc, _)| *vc);
            let Some(user) = vc.and_then(|vc| self.user_of(vc)) else {
                continue;
            };
            for (heard, due) in user.share.into_iter().zip([info.transmit, info.receive]) {
                if heard.is_some() && heard != due {
                    let name = user.name;
                    let text = format!("application {name} has heard {heard:?} of {due:?}");
                    return Err(("I15", text));
                }
            }
        }
        Ok(())
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
