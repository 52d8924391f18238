//! The associated channel of a pseudowire (RFC 4385 section 5): what checks that it is alive.

/// The header of a packet of the associated channel.
///
/// ```text
///  0                   1                   2                   3
/// +-------+-------+---------------+-------------------------------+
/// |0 0 0 1|version|       0       |         channel type          |
/// +-------+-------+---------------+-------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelHeader {
    /// 0 is the only one there is.
    pub version: u8,
    reserved: u8,
    /// What follows, as IANA numbers it.
    pub kind: u16,
}

impl ChannelHeader {
    /// Octets of the header.
    pub const LEN: usize = 4;

    /// The header at the start of `packet`, and what follows it; none if the first four bits are
    /// others.
    pub fn parse(packet: &[u8]) -> Option<(Self, &[u8])> {
        let ([first, reserved, k0, k1], rest) = packet.split_first_chunk()?;
        if first >> 4 != 1 {
            return None;
        }
        let header = Self {
            version: first & 0x0f,
            reserved: *reserved,
            kind: u16::from_be_bytes([*k0, *k1]),
        };
        Some((header, rest))
    }

    /// Whether it is more likely than a cell of VPI 256, VCI 0 to 31, which begins like it.
    pub const fn is_likely(&self) -> bool {
        self.version == 0 && self.reserved == 0 && self.kind < 0x200
    }

    /// What follows, where it has a name.
    pub const fn name(&self) -> Option<&'static str> {
        Some(match self.kind {
            0x0001 => "management",
            0x0002 => "signalling",
            0x0007 => "bfd",
            0x0021 => "ipv4",
            0x0022 => "bfd continuity check",
            0x0023 => "bfd connectivity verification",
            0x0025 => "on-demand connectivity verification",
            0x0027 => "pseudowire status",
            0x0057 => "ipv6",
            0x0058 => "fault",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_nibble_of_one_is_a_channel() {
        for first in 0..=255_u8 {
            let packet = [first, 0, 0, 0x21, 9];
            let found = ChannelHeader::parse(&packet);
            assert_eq!(found.is_some(), first >> 4 == 1);
            if let Some((header, rest)) = found {
                assert_eq!(
                    (header.version, header.kind, rest),
                    (first & 15, 0x21, &[9][..])
                );
                assert_eq!(header.is_likely(), first == 0x10);
                assert_eq!(header.name(), Some("ipv4"));
            }
        }
        assert_eq!(ChannelHeader::parse(&[0x10, 0, 0]), None);
    }
}
