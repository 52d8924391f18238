//! Blocks of REX. Nothing but the octets tells of them, of which the CRC makes up for the guess.

use cellgate_core::upper::msna::rex::{Body, Fragment, Packet, Progress, Refusal};

use super::line::Line;

/// Says what a block is in REX, if it is one; whether it is.
pub(super) fn describe(line: &mut Line, block: &[u8]) -> bool {
    let Ok(packet) = Packet::parse(block) else {
        return false;
    };
    let name = match packet.body {
        Body::Hello => "hello",
        Body::Welcome { .. } => "welcome",
        Body::Gone => "gone",
        Body::Call { .. } => "call",
        Body::Announcement { .. } => "announcement",
        Body::Received(_) => "received",
        Body::Working => "working",
        Body::Reply(_) => "reply",
        Body::Probe { .. } => "probe",
        Body::Refused(_) => "refused",
        Body::Dropped => "dropped",
        Body::Ended { .. } => "ended",
    };
    line.field("rex_packet", name);
    line.field("rex_session", packet.session);
    line.field("rex_sender", packet.sender);
    line.field("rex_receiver", packet.receiver);
    line.field("rex_call", packet.call);
    line.say(format!(
        "rex {name} {}, session {}",
        packet.call, packet.session
    ));
    match packet.body {
        Body::Welcome { keep_us } => line.field("rex_keep_us", keep_us),
        Body::Call { floor, fragment } | Body::Announcement { floor, fragment } => {
            line.field("rex_floor", floor);
            describe_fragment(line, fragment);
        }
        Body::Reply(fragment) => describe_fragment(line, fragment),
        Body::Received(progress) => describe_progress(line, progress),
        Body::Probe { floor, progress } => {
            line.field("rex_floor", floor);
            describe_progress(line, progress);
        }
        Body::Refused(reason) => {
            let reason = match reason {
                Refusal::Busy => "busy",
                Refusal::TooLong => "too long",
            };
            line.field("rex_reason", reason);
            line.say(reason);
        }
        Body::Ended { floor } => line.field("rex_floor", floor),
        Body::Hello | Body::Gone | Body::Working | Body::Dropped => {}
    }
    true
}

fn describe_fragment(line: &mut Line, fragment: Fragment<'_>) {
    let (cut, octets) = (fragment.cut, fragment.octets.len());
    line.field("rex_length", cut.length());
    line.field("rex_size", cut.size());
    line.field("rex_number", fragment.number);
    line.field("rex_round", fragment.round);
    line.field("rex_asks", fragment.asks);
    line.field("rex_fragment_length", octets);
    let of = cut.count();
    line.say(format!(
        "fragment {} of {of}, {octets} octets",
        fragment.number
    ));
    if fragment.asks {
        line.say("asks");
    }
}

fn describe_progress(line: &mut Line, progress: Progress) {
    line.field("rex_round", progress.round);
    line.field("rex_next", progress.next);
    line.field("rex_beyond", format!("{:016x}", progress.beyond));
    line.say(format!("round {}, next {}", progress.round, progress.next));
}
