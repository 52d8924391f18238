//! Messages of MSNL, as the blocks of circuit 32 are.

use cellgate_core::upper::msna::{Body, Message, Notify, Refusal, Sap};

use super::line::Line;
use super::rex;

/// Says what a block is as a message; whether it is one.
pub(super) fn describe(line: &mut Line, block: &[u8]) -> bool {
    let message = match Message::parse(block) {
        Ok(message) => message,
        Err(error) => {
            line.field("msnl_error", error.to_string());
            line.say(format!("no message of msnl: {error}"));
            return false;
        }
    };
    let name = match &message.body {
        Body::Connect(_) => "connect",
        Body::Accept { .. } => "accept",
        Body::Refuse { .. } => "refuse",
        Body::Release { .. } => "release",
        Body::Datagram { .. } => "datagram",
    };
    line.field("msnl_message", name);
    line.field("msnl_call", message.call);
    line.field("msnl_incarnation", message.incarnation);
    line.field("msnl_from", message.from.to_string());
    line.field("msnl_to", message.to.to_string());
    let ends = match &message.body {
        Body::Connect(connect) => Some((connect.from, connect.to)),
        Body::Datagram { from, to, .. } => Some((*from, *to)),
        _ => None,
    };
    line.say(format!("msnl {name} {}", message.call));
    describe_ends(line, &message, ends);
    describe_body(line, &message.body);
    true
}

fn describe_ends(line: &mut Line, message: &Message, ends: Option<(Sap, Sap)>) {
    let Message { from, to, .. } = message;
    let Some((from_sap, to_sap)) = ends else {
        line.say(format!("{from}>{to}"));
        return;
    };
    line.field("msnl_from_sap", from_sap.0);
    line.field("msnl_to_sap", to_sap.0);
    line.say(format!("{from}:{}>{to}:{}", from_sap.0, to_sap.0));
}

fn describe_body(line: &mut Line, body: &Body) {
    match body {
        Body::Connect(connect) => {
            let notify = match connect.notify {
                Notify::Every => "every",
                Notify::First => "first",
                Notify::Last => "last",
                Notify::Both => "both",
            };
            line.field("msnl_vci", connect.vci);
            line.field("msnl_notify", notify);
            line.field("msnl_contract", connect.contract.as_str());
            line.say(format!("vci {}, notify {notify}", connect.vci));
            line.say(format!("{:?}", connect.contract));
        }
        Body::Accept { caller, vci } => {
            line.field("msnl_of_to", *caller);
            line.field("msnl_vci", *vci);
            line.say(format!("vci {vci}"));
        }
        Body::Refuse {
            caller,
            reason,
            offer,
        } => {
            let reason = match reason {
                Refusal::NoSap => "nobody serves there",
                Refusal::NotAdmitted => "not admitted",
                Refusal::Busy => "busy",
                Refusal::BadContract => "the contract makes no sense",
            };
            line.field("msnl_of_to", *caller);
            line.field("msnl_reason", reason);
            line.field("msnl_offer", offer.as_str());
            line.say(reason);
            if !offer.is_empty() {
                line.say(format!("offer {offer:?}"));
            }
        }
        Body::Release { receiver, vci } => {
            line.field("msnl_of_to", *receiver);
            line.field("msnl_vci", *vci);
            line.say(format!("vci {vci}"));
        }
        Body::Datagram { octets, .. } => {
            line.field("msnl_datagram_length", octets.len());
            line.say(format!("{} octets", octets.len()));
            rex::describe(line, octets);
        }
    }
}
