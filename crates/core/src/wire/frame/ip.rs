//! IP, and what it carries MPLS in.

use super::{
    Carrier, IPV4_LEN, IPV6_LEN, Layer, MplsFrameError, PROTOCOL_UDP, Search, Sender, UDP_LEN,
};
use crate::wire::MPLS_UDP_PORT;

const IPV4: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const ESP: u8 = 50;
const L2TP: u8 = 115;
const MPLS: u8 = 137;
/// Extension headers of IPv6, and AH, which IPv4 has too.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;
const L2TP_PORT: u16 = 1701;
/// The low half of the second octet of L2TP over UDP: its version.
const L2TP_VERSION: u8 = 0x0f;

impl Search<'_, '_> {
    /// By its version.
    pub(super) fn ip(&mut self) -> Result<Layer, MplsFrameError> {
        match self.rest.octets.first().map(|first| first >> 4) {
            Some(4) => Ok(Layer::Ipv4),
            Some(6) => Ok(Layer::Ipv6),
            Some(_) => Err(MplsFrameError::Length("IP")),
            None => Err(MplsFrameError::TooShort("IP")),
        }
    }

    pub(super) fn ipv4(&mut self) -> Result<Layer, MplsFrameError> {
        let header = *self.rest.take::<IPV4_LEN>("IPv4")?;
        let [first, _, l0, l1, _, _, f0, f1, _, protocol, _, _, rest @ ..] = header;
        let options = (usize::from(first & 0x0f) * 4).checked_sub(IPV4_LEN);
        let total = usize::from(u16::from_be_bytes([l0, l1]));
        let (Some(options), Some(rest_len), 4) = (options, total.checked_sub(IPV4_LEN), first >> 4)
        else {
            return Err(MplsFrameError::Length("IPv4"));
        };
        let [s0, s1, s2, s3, ..] = rest;
        self.sender = Sender::V4([s0, s1, s2, s3].into());
        // More fragments, or an offset of eight octets each.
        let fragment = u16::from_be_bytes([f0, f1]) & 0x3fff;
        if fragment != 0 {
            let offset = (fragment & 0x1fff) << 3;
            return Err(MplsFrameError::Fragment { offset });
        }
        self.rest.cut(rest_len, "IPv4")?;
        self.rest.skip(options, "IPv4")?;
        Ok(Layer::Protocol(protocol))
    }

    pub(super) fn ipv6(&mut self) -> Result<Layer, MplsFrameError> {
        let [first, _, _, _, l0, l1, next, _, addresses @ ..] =
            *self.rest.take::<IPV6_LEN>("IPv6")?;
        if first >> 4 != 6 {
            return Err(MplsFrameError::Length("IPv6"));
        }
        if let Some(source) = addresses.first_chunk::<16>() {
            self.sender = Sender::V6((*source).into());
        }
        self.rest.cut(u16::from_be_bytes([l0, l1]).into(), "IPv6")?;
        Ok(Layer::Protocol(next))
    }

    pub(super) fn protocol(&mut self, protocol: u8) -> Result<Layer, MplsFrameError> {
        const EXTENSION: &str = "IPv6 extension";
        match protocol {
            PROTOCOL_UDP => Ok(Layer::Udp),
            GRE => Ok(Layer::Gre),
            MPLS => Ok(Layer::Mpls(Carrier::Ip)),
            IPV4 => Ok(Layer::Ipv4),
            IPV6 => Ok(Layer::Ipv6),
            L2TP => Err(MplsFrameError::NotRead("L2TPv3")),
            ESP => Err(MplsFrameError::NotRead("encrypted IP (ESP)")),
            FRAGMENT => {
                let [next, _, f0, f1, ..] = *self.rest.take::<8>(EXTENSION)?;
                let fragment = u16::from_be_bytes([f0, f1]);
                // The first and only fragment is a whole packet (RFC 6946).
                match fragment & 0xfff9 {
                    0 => Ok(Layer::Protocol(next)),
                    _ => Err(MplsFrameError::Fragment {
                        offset: fragment & 0xfff8,
                    }),
                }
            }
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HIP | SHIM6 => {
                let [next, len, ..] = *self.rest.take::<8>(EXTENSION)?;
                self.rest.skip(usize::from(len) * 8, EXTENSION)?;
                Ok(Layer::Protocol(next))
            }
            AUTHENTICATION => {
                let [next, len, ..] = *self.rest.take::<8>("authentication")?;
                self.rest.skip(usize::from(len) * 4, "authentication")?;
                Ok(Layer::Protocol(next))
            }
            other => Err(MplsFrameError::IpProtocol(other)),
        }
    }

    pub(super) fn udp(&mut self) -> Result<Layer, MplsFrameError> {
        let [s0, s1, d0, d1, l0, l1, _, _] = *self.rest.take::<UDP_LEN>("UDP")?;
        let [source_port, destination_port, len] =
            [[s0, s1], [d0, d1], [l0, l1]].map(u16::from_be_bytes);
        let carries = |port| port == MPLS_UDP_PORT || self.ports.contains(&port);
        if !carries(source_port) && !carries(destination_port) {
            let l2tp = source_port == L2TP_PORT || destination_port == L2TP_PORT;
            let version = self.rest.octets.get(1).map(|octet| octet & L2TP_VERSION);
            return Err(match (l2tp, version) {
                (true, Some(3)) => MplsFrameError::NotRead("L2TPv3"),
                (true, Some(2)) => MplsFrameError::NotRead("L2TPv2"),
                _ => MplsFrameError::Port {
                    source_port,
                    destination_port,
                },
            });
        }
        let len = usize::from(len)
            .checked_sub(UDP_LEN)
            .ok_or(MplsFrameError::Length("UDP"))?;
        self.rest.cut(len, "UDP")?;
        Ok(Layer::Mpls(Carrier::Udp {
            source_port,
            destination_port,
        }))
    }

    /// GRE (RFC 2784) with key and sequence number (RFC 2890).
    pub(super) fn gre(&mut self) -> Result<Layer, MplsFrameError> {
        const CHECKSUM: u8 = 0x80;
        const ROUTED: u8 = 0x40;
        const KEY: u8 = 0x20;
        const SEQUENCE: u8 = 0x10;
        let [flags, version, h, l] = *self.rest.take("GRE")?;
        if version & 7 != 0 || flags & ROUTED != 0 {
            return Err(MplsFrameError::NotRead(
                "GRE of another version or with routing",
            ));
        }
        let fields = (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize;
        self.rest.skip(4 * fields, "GRE")?;
        match self.ether_type(u16::from_be_bytes([h, l]))? {
            Layer::Mpls(_) => Ok(Layer::Mpls(Carrier::Gre)),
            other => Ok(other),
        }
    }
}
