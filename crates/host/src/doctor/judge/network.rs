//! Pseudowires and network devices.

use cellgate_core::server::InterfaceState;

use crate::doctor::facts::{Pseudowire, Tun};
use crate::doctor::{Facts, Finding, Level};

use super::{size, time};

const SUBJECT: &str = "pseudowire";

pub(super) fn pseudowires(facts: &Facts) -> Vec<Finding> {
    let of = |wire: &Pseudowire| {
        let found = [ways(wire), state(wire), buffer(wire)];
        let found: Vec<_> = found.into_iter().flatten().collect();
        match found.is_empty() {
            true => vec![Finding::ok(
                SUBJECT,
                format!("{} at {}", wire.name, wire.local),
            )],
            false => found,
        }
    };
    let mut found: Vec<_> = facts.pseudowires.iter().flat_map(of).collect();
    let offloads = facts.offloads;
    if !found.is_empty() && offloads.send.min(offloads.receive) <= 1 {
        let text = "a system call for each datagram: no segmentation by the kernel (UDP GSO, GRO)";
        let promise = "cells over UDP cost the adapter several times as much";
        let cure = "a kernel with UDP_SEGMENT and UDP_GRO, from 5.0 on";
        found.push(Finding::new(Level::Warn, "offloads", text, promise, cure));
    }
    found
}

/// Whether its socket can be had.
fn ways(wire: &Pseudowire) -> Option<Finding> {
    let (name, local) = (&wire.name, wire.local);
    let (address, port) = (local.ip(), local.port());
    let fail = |text: String, cure: String| {
        let promise = format!("connections over {name} are not there");
        Some(Finding::new(Level::Fail, SUBJECT, text, promise, cure))
    };
    if !wire.is_here {
        let text = format!("{name}: no interface of this machine has {address}");
        return fail(
            text,
            format!("ip address add {address} dev DEVICE, or another local"),
        );
    }
    if let Some(uid) = wire.taken_by {
        let text = format!("{name}: a socket of user {uid} has {local} already");
        return fail(
            text,
            format!("ss -ulnp sport = :{port} tells whose; or take another port"),
        );
    }
    // The daemon has given up what it would need for it.
    wire.reserved_below
        .filter(|_| wire.state.is_none())
        .and_then(|first| {
            let text =
                format!("{name}: ports below {first} are not for a daemon without privileges");
            fail(
                text,
                format!("sysctl -w net.ipv4.ip_unprivileged_port_start={port}"),
            )
        })
}

/// What a daemon says of it.
fn state(wire: &Pseudowire) -> Option<Finding> {
    let name = &wire.name;
    let (level, text, cure) = match wire.state.as_ref()? {
        InterfaceState::Up => return None,
        InterfaceState::Down => (
            Level::Fail,
            format!("{name} is down"),
            "cellgate stats tells why".to_owned(),
        ),
        InterfaceState::CannotSend { reason } => (
            Level::Fail,
            format!("{name} cannot send: {reason}"),
            format!("ip route get the peer of {name}; an mtu that is no longer than the way's"),
        ),
        // Of a pseudowire nobody says so.
        InterfaceState::NoLink { .. } => return None,
        InterfaceState::NoPeer { silent_ns } => (
            Level::Note,
            match silent_ns {
                Some(ns) => format!("{name}: nothing has come for {}", time(*ns)),
                None => format!("{name}: nothing has ever come"),
            },
            format!("cellgate ping {name}.VPI.VCI, and look at the peer"),
        ),
    };
    let promise = format!("connections over {name} carry nothing");
    Some(Finding::new(level, SUBJECT, text, promise, cure))
}

/// Whether what comes while the adapter stands still has room.
fn buffer(wire: &Pseudowire) -> Option<Finding> {
    let Pseudowire {
        name,
        gap_max_ns,
        needed,
        granted,
        ..
    } = wire;
    (granted < needed).then(|| {
        let gap = time(*gap_max_ns);
        let text = format!(
            "{name}: {} of {} that can come while the adapter stands still have room in its socket",
            size(*granted),
            size(*needed)
        );
        let promise = format!("gaps of {gap} lose cells of guaranteed connections");
        let cure = format!("sysctl -w net.core.rmem_max={}", needed.div_ceil(2));
        Finding::new(Level::Warn, "socket_buffers", text, promise, cure)
    })
}

pub(super) fn devices(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "tun_device";
    let (text, cure) = match facts.tun {
        Tun::There => return vec![Finding::ok(SUBJECT, "/dev/net/tun")],
        Tun::Missing => (
            "no /dev/net/tun",
            "modprobe tun, or --device /dev/net/tun of the container",
        ),
        Tun::Denied => (
            "this user may not open /dev/net/tun",
            "chmod 666 /dev/net/tun",
        ),
    };
    let promise = "no network device can be added (cellgate tun add)";
    vec![Finding::new(Level::Note, SUBJECT, text, promise, cure)]
}
