//! What of a server's state somebody should do something about.

use cellgate::{InterfaceState, Link};
use serde::Serialize;

use crate::Stats;

/// Something is wrong, or may become so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alarm {
    /// What is: one of `contract_at_risk`, `interface_down`, `adapter_gone`, `adapter_replaced`,
    /// `adapter_shared`, `configuration_refused`, `note`.
    pub kind: &'static str,
    /// Of what: an address, an interface's or an adapter's name.
    pub subject: String,
    /// What has happened.
    pub text: String,
    /// What to do.
    pub advice: String,
}

/// The alarms of a server, the gravest first.
pub fn alarms(stats: &Stats) -> Vec<Alarm> {
    let mut all = Vec::new();
    for info in stats.connections.iter().filter(|info| info.at_risk()) {
        let reason = info.risk.as_ref().map_or("", |risk| &risk.reason);
        all.push(Alarm {
            kind: "contract_at_risk",
            subject: info.address.to_string(),
            text: format!("Its contract may not be kept: {reason}."),
            advice: "Give the adapter a CPU of its own, close what takes its time, or ask for a \
                     smaller contract. `cellgate doctor` names what is wrong with the machine."
                .to_owned(),
        });
    }
    for info in &stats.interfaces {
        let advice = match (&info.state, &info.spec.link) {
            (InterfaceState::Up, _) => continue,
            (InterfaceState::CannotSend { .. }, _) => {
                "Look at the route and the firewall of this host: the kernel refuses datagrams."
            }
            (InterfaceState::NoLink { .. }, _) | (_, Link::Memory(_)) => {
                "Add the other end: `cellgate itf add`, here or at the server it is joined to."
            }
            (_, Link::Udp(_)) => {
                "See that the peer runs, that its addresses, port and label are this end's, and \
                 that nothing between filters UDP."
            }
        };
        all.push(Alarm {
            kind: "interface_down",
            subject: info.spec.name.clone(),
            text: format!("It carries nothing: {}.", info.state),
            advice: advice.to_owned(),
        });
    }
    for info in &stats.adapters {
        let subject = info.name.clone().unwrap_or_else(|| "adapter".to_owned());
        if info.seen_ns.is_none() {
            all.push(Alarm {
                kind: "adapter_gone",
                subject: subject.clone(),
                text: "It has not answered yet.".to_owned(),
                advice: "Wait: the daemon starts another one. If none comes, its log says why."
                    .to_owned(),
            });
        }
        if info.replaced > 0 {
            let times = info.replaced;
            all.push(Alarm {
                kind: "adapter_replaced",
                subject: subject.clone(),
                text: format!(
                    "It has died and was replaced, {times} times since the daemon began."
                ),
                advice: "The daemon's log says of what. Whatever was in the queues was lost, and \
                         counters began anew."
                    .to_owned(),
            });
        }
        if let Some(shared) = &info.shared {
            let (cpu, others) = (shared.cpu, shared.others);
            all.push(Alarm {
                kind: "adapter_shared",
                subject,
                text: format!("It shares CPU {cpu} with {others} other adapters."),
                advice: "Each is promised its part alone. End daemons that nobody needs, or give \
                         each adapter a CPU (`cpu =`)."
                    .to_owned(),
            });
        }
    }
    all.extend(stats.notes.iter().map(|note| {
        let (kind, advice) = match note.starts_with("missing: ") {
            true => (
                "configuration_refused",
                "It is asked for again. Change the configuration, or make room; `cellgate config \
                 check` reads it, SIGHUP has the daemon read it again.",
            ),
            false => (
                "note",
                "`cellgate doctor` says what that costs, and what to do.",
            ),
        };
        Alarm {
            kind,
            subject: "daemon".to_owned(),
            text: note.clone(),
            advice: advice.to_owned(),
        }
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::stats;

    #[test]
    fn what_is_wrong_is_told_with_what_to_do() {
        let mut stats = stats();
        let kinds = |stats: &Stats| -> Vec<&str> {
            let all = alarms(stats);
            for alarm in &all {
                assert!(
                    alarm.text.ends_with('.') || alarm.subject == "daemon",
                    "{alarm:?}"
                );
                assert!(alarm.advice.ends_with('.'), "{alarm:?}");
            }
            all.iter().map(|alarm| alarm.kind).collect()
        };
        stats.adapters.retain(|info| info.seen_ns.is_some());
        assert_eq!(kinds(&stats), Vec::<&str>::new());
        stats.interfaces[0].state = InterfaceState::Down;
        stats.adapters[0].replaced = 1;
        stats.adapters[1].shared = Some(cellgate::SharedCpu::default());
        stats.notes.push("no real-time class".to_owned());
        stats.notes.push("missing: interface x: no".to_owned());
        stats.connections[0].risk = Some(cellgate::RiskInfo {
            reason: "a gap".to_owned(),
            seen_ns: 1,
            now: true,
        });
        assert_eq!(
            kinds(&stats),
            [
                "contract_at_risk",
                "interface_down",
                "adapter_replaced",
                "adapter_shared",
                "note",
                "configuration_refused"
            ]
        );
        stats.adapters[0].seen_ns = None;
        assert!(kinds(&stats).contains(&"adapter_gone"));
    }
}
