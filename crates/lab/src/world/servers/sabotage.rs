//! What the bugs of [`ServerBug`] make of commands and messages.

use cellgate_core::contract::{CellRate, Credit, Jitter};
use cellgate_core::keeper::{Answer, Ask, ReceiveInto};
use cellgate_core::server::{
    AdapterAnswer, AdapterAsk, Confirm, Demand, FromServer, Indication, Opened, Refused, Request,
    SlotClocks,
};

use super::ServerBug;
use super::application::Application;
use super::process::Process;

/// What a bug makes of a command; its answer, if the adapter does not hear of it.
pub(super) fn sabotage(
    bug: ServerBug,
    process: &Process,
    ask: &mut AdapterAsk,
) -> Option<AdapterAnswer> {
    let AdapterAsk::Keeper(ask, record) = ask else {
        return None;
    };
    match (bug, ask, record) {
        (ServerBug::VcNotClosed, Ask::Close { .. }, _)
        | (ServerBug::AttachmentNotRemoved, Ask::Detach { .. }, _) => {
            return Some(AdapterAnswer::Keeper(Answer::Done));
        }
        (
            ServerBug::ModifyForgotten,
            Ask::Modify {
                vc, region: None, ..
            },
            _,
        ) => {
            let kept = process.vcs.get(vc)?;
            return Some(AdapterAnswer::Keeper(Answer::Opened {
                vc: *vc,
                sizes: kept.sizes,
                receive_into: ReceiveInto::Own,
                files_generation: kept.files.generation,
            }));
        }
        (ServerBug::RateTooHigh, Ask::Open { request, .. }, _) => {
            let higher = |rate: CellRate| CellRate::new(rate.cell_s() + rate.cell_s() / 20 + 1);
            if let Some(transmit) = &mut request.transmit {
                transmit.rate = transmit.rate.and_then(higher);
            }
        }
        (bug, Ask::Open { .. } | Ask::Modify { .. }, Some(record)) => match bug {
            ServerBug::DemandNotKept => record.demand = Demand::default(),
            ServerBug::AccountNotKept => record.slots = SlotClocks::default(),
            ServerBug::RequestNotKept => record.done = None,
            ServerBug::ReopenedNotKept => record.reopened = false,
            _ => {}
        },
        _ => {}
    }
    None
}

/// What a bug makes of what an application is told.
pub(super) fn sabotage_message(bug: ServerBug, to: &Application, message: &mut FromServer) {
    match (bug, message) {
        (
            ServerBug::OfferTooLarge,
            FromServer::Confirm {
                id,
                result: Err(Refused::Admission(shortage)),
                ..
            },
        ) => {
            let asked = to.asked.as_ref().filter(|asked| asked.id == Some(*id));
            if let Some(Some(Request::Open(open))) = asked.map(|asked| &asked.request)
                && let Some(offer) = &mut shortage.offer
            {
                *offer = open.contract.clone();
            }
        }
        (
            bug,
            FromServer::Confirm {
                result: Ok(Confirm::Opened(opened) | Confirm::Modified { opened, .. }),
                ..
            },
        ) => spoil_opened(bug, opened),
        (
            bug,
            FromServer::Indication {
                indication: Indication::Reopened(opened),
                ..
            },
        ) => spoil_opened(bug, opened),
        _ => {}
    }
}

fn spoil_opened(bug: ServerBug, opened: &mut Opened) {
    match bug {
        ServerBug::StaleGeneration => {
            opened.vc.generation = opened.vc.generation.wrapping_sub(1);
        }
        ServerBug::CreditDoubled => {
            let doubled = |credit: Credit| {
                let sdu = opened.transmit_max_sdu?;
                // Below 2^64: a credit is a few PDUs.
                let bit_s = 16_000_000_000 * credit.octets() / credit.interval_ns();
                Credit::for_sdu_rate(bit_s, sdu, Jitter::Default)
            };
            opened.transmit_credit = opened.transmit_credit.and_then(doubled);
        }
        _ => {}
    }
}

/// Whether a bug takes a message away.
pub(super) fn is_lost(bug: ServerBug, message: &FromServer) -> bool {
    match (bug, message) {
        (
            ServerBug::RestartNotTold,
            FromServer::Indication {
                indication: Indication::Restarted,
                ..
            },
        ) => true,
        (ServerBug::ConfirmLost, FromServer::Confirm { id, .. }) => id % 5 == 3,
        _ => false,
    }
}
