//! What an SDU of AAL5 carries: RFC 2684 by its LLC header, or a guess where there is none.

use std::net::{Ipv4Addr, Ipv6Addr};

use cellgate_capture::SduKind;
use cellgate_core::upper::msna::{Message, SIGNALLING_VCI};
use cellgate_core::wire::llc::{Llc, VcMux, VcMuxPdu};

use super::cell::hex;
use super::line::Line;
use super::message;

/// VCI of signalling and of ILMI.
const SIGNALLING: u16 = 5;
const ILMI: u16 = 16;
/// Octets of an unknown SDU that are shown.
const SHOWN: usize = 8;

/// Says what `sdu` is, of which the last `missing` octets were not kept. `kind` is what the capture
/// says of it, `vci` where it came.
pub(super) fn describe(
    line: &mut Line,
    sdu: &[u8],
    missing: usize,
    kind: SduKind,
    vci: Option<u16>,
) {
    match (kind, vci) {
        (SduKind::SIGNALLING, _) | (_, Some(SIGNALLING)) => protocol(line, "signalling"),
        (SduKind::ILMI, _) | (_, Some(ILMI)) => protocol(line, "ilmi"),
        (SduKind::LANE, _) => protocol(line, "lane"),
        _ if matches!(sdu, [0xaa, 0xaa, 0x03, ..] | [0xfe, 0xfe, 0x03, ..]) => {
            describe_llc(line, sdu);
        }
        (_, Some(SIGNALLING_VCI)) if Message::parse(sdu).is_ok() => {
            message::describe(line, sdu);
        }
        _ => describe_vc_mux(line, sdu, missing),
    }
}

fn protocol(line: &mut Line, name: &str) {
    line.field("protocol", name);
    line.say(name);
}

fn encapsulation(line: &mut Line, word: &str, guessed: bool) {
    line.field("encapsulation", word);
    line.field("encapsulation_guessed", guessed);
    let doubt = if guessed { "?" } else { "" };
    line.say(format!("{word}{doubt}"));
}

fn describe_llc(line: &mut Line, sdu: &[u8]) {
    let (llc, pdu) = match Llc::parse(sdu) {
        Ok(parsed) => parsed,
        Err(error) => {
            line.field("llc_error", error.to_string());
            line.say(format!("llc WRONG: {error}"));
            return;
        }
    };
    match llc {
        Llc::Routed { ether_type } => {
            encapsulation(line, "ipoa-llcsnap", false);
            describe_ether_type(line, ether_type, pdu);
        }
        Llc::Bridged { fcs } => {
            encapsulation(line, "bridged-llcsnap", false);
            describe_ethernet(line, pdu, Some(fcs));
        }
        Llc::Nlpid { nlpid: Llc::PPP } => {
            encapsulation(line, "pppoa-llc", false);
            describe_ppp(line, pdu);
        }
        Llc::Nlpid { nlpid } => {
            line.field("nlpid", nlpid);
            line.say(format!("llc nlpid 0x{nlpid:02x}"));
        }
        Llc::Other(snap) => {
            line.field("oui", hex(&snap.oui()));
            line.field("pid", snap.pid());
            line.say(format!(
                "llc snap oui {} pid 0x{:04x}",
                hex(&snap.oui()),
                snap.pid()
            ));
        }
    }
}

/// A VC without LLC carries one protocol, and only a look at it can tell which.
fn describe_vc_mux(line: &mut Line, sdu: &[u8], missing: usize) {
    if is_ip(sdu, missing)
        && matches!(
            VcMux::Routed.parse(sdu),
            Ok(VcMuxPdu::Ipv4(_) | VcMuxPdu::Ipv6(_))
        )
    {
        encapsulation(line, "ipoa-vcmux", true);
        describe_ip(line, sdu);
        return;
    }
    let bridged = VcMux::Bridged { fcs: false }.parse(sdu);
    if let Ok(VcMuxPdu::Ethernet(frame)) = bridged
        && ether_type(frame).is_some_and(is_known)
    {
        encapsulation(line, "bridged-vcmux", true);
        describe_ethernet(line, frame, None);
        return;
    }
    if sdu
        .first_chunk()
        .is_some_and(|p| ppp_name(u16::from_be_bytes(*p)).is_some())
    {
        encapsulation(line, "pppoa-vcmux", true);
        describe_ppp(line, sdu);
        return;
    }
    let shown = sdu.get(..SHOWN).unwrap_or(sdu);
    let more = if sdu.len() > SHOWN { "..." } else { "" };
    line.say(format!("data {}{more}", hex(shown)));
}

/// Whether the octets are an IP packet of just that length: a version alone fits one SDU in eight.
/// What was not kept may be padding and a trailer, too.
fn is_ip(sdu: &[u8], missing: usize) -> bool {
    match sdu {
        [first, _, h, l, _, _, _, _, _, _, rest @ ..] if first >> 4 == 4 => {
            let header = usize::from(first & 0x0f) * 4;
            let total = usize::from(u16::from_be_bytes([*h, *l]));
            header >= 20 && rest.len() >= 10 && (header..=sdu.len() + missing).contains(&total)
        }
        [first, _, _, _, h, l, ..] if first >> 4 == 6 => {
            let total = usize::from(u16::from_be_bytes([*h, *l])) + 40;
            (sdu.len()..=sdu.len() + missing).contains(&total)
        }
        _ => false,
    }
}

const fn is_known(ether_type: u16) -> bool {
    matches!(
        ether_type,
        Llc::IPV4 | Llc::IPV6 | Llc::ATMARP | 0x8100 | 0x8863 | 0x8864
    )
}

fn describe_ether_type(line: &mut Line, ether_type: u16, pdu: &[u8]) {
    line.field("ether_type", ether_type);
    match ether_type {
        Llc::IPV4 | Llc::IPV6 => describe_ip(line, pdu),
        Llc::ATMARP => protocol(line, "atmarp"),
        0x8863 => protocol(line, "pppoe_discovery"),
        0x8864 => protocol(line, "pppoe"),
        other => line.say(format!("ether type 0x{other:04x}")),
    }
}

fn ether_type(frame: &[u8]) -> Option<u16> {
    let octets = frame.get(12..14)?.first_chunk()?;
    Some(u16::from_be_bytes(*octets))
}

/// A bridged frame; `fcs` as far as it is known.
fn describe_ethernet(line: &mut Line, frame: &[u8], fcs: Option<bool>) {
    if let Some(fcs) = fcs {
        line.field("ethernet_fcs", fcs);
    }
    if fcs == Some(true) {
        line.say("with fcs");
    }
    match ether_type(frame) {
        // ARP proper, not ATMARP, in an Ethernet frame.
        Some(Llc::ATMARP) => {
            line.field("ether_type", Llc::ATMARP);
            protocol(line, "arp");
        }
        Some(kind) if kind >= 0x600 => {
            describe_ether_type(line, kind, frame.get(14..).unwrap_or_default());
        }
        _ => line.say("802.3"),
    }
}

/// PPP protocols that VCs carry.
const fn ppp_name(protocol: u16) -> Option<&'static str> {
    Some(match protocol {
        0x0021 => "ipv4",
        0x0057 => "ipv6",
        0x8021 => "ipcp",
        0x8057 => "ipv6cp",
        0xc021 => "lcp",
        0xc023 => "pap",
        0xc025 => "lqr",
        0xc223 => "chap",
        _ => return None,
    })
}

fn describe_ppp(line: &mut Line, frame: &[u8]) {
    let Some((protocol, pdu)) = frame.split_first_chunk() else {
        line.say("ppp WRONG: no protocol");
        return;
    };
    let protocol = u16::from_be_bytes(*protocol);
    line.field("ppp_protocol", protocol);
    match ppp_name(protocol) {
        Some("ipv4" | "ipv6") => describe_ip(line, pdu),
        Some(name) => {
            line.field("protocol", name);
            line.say(format!("ppp {name}"));
        }
        None => line.say(format!("ppp protocol 0x{protocol:04x}")),
    }
}

fn describe_ip(line: &mut Line, packet: &[u8]) {
    match packet {
        [
            first,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            protocol,
            _,
            _,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
            ..,
        ] if first >> 4 == 4 => {
            let source = Ipv4Addr::new(*s0, *s1, *s2, *s3).to_string();
            let destination = Ipv4Addr::new(*d0, *d1, *d2, *d3).to_string();
            describe_flow(line, "ipv4", &source, &destination, *protocol);
        }
        [first, _, _, _, _, _, next, _, addresses @ ..] if first >> 4 == 6 => {
            let (addresses, _) = addresses.as_chunks::<16>();
            if let [source, destination, ..] = addresses {
                let [source, destination] =
                    [source, destination].map(|a| Ipv6Addr::from(*a).to_string());
                describe_flow(line, "ipv6", &source, &destination, *next);
            } else {
                line.say("ip WRONG: no whole header");
            }
        }
        _ => line.say("ip WRONG: no whole header"),
    }
}

fn describe_flow(line: &mut Line, version: &str, source: &str, destination: &str, protocol: u8) {
    line.field("protocol", version);
    line.field("source", source);
    line.field("destination", destination);
    line.field("ip_protocol", protocol);
    let name = match protocol {
        1 => "icmp".into(),
        2 => "igmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        58 => "icmpv6".into(),
        other => format!("protocol {other}"),
    };
    line.say(format!("{source}>{destination} {name}"));
}
