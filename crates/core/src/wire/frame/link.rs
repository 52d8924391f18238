//! Below IP: what stands before an EtherType or a protocol of PPP.

use super::{
    Carrier, ETHERNET_LEN, Framing, Layer, MplsFrameError, Rest, Search, Sender, TYPE_IPV4,
    TYPE_IPV6,
};

const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
/// Tags of 802.1Q, of 802.1ad, and of those who stacked tags before it.
const TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
const PPPOE_DISCOVERY: u16 = 0x8863;
const PPPOE_SESSION: u16 = 0x8864;
const BRIDGED: u16 = 0x6558;
/// What Linux cooked frames have in its place where LLC follows.
const COOKED_LLC: u16 = 4;
/// An EtherType below this is a length of 802.3.
const TYPE_MIN: u16 = 0x0600;
const FCS_LEN: usize = 4;

impl<'a> Search<'a, '_> {
    pub(super) fn first(&mut self, framing: Framing) -> Result<Layer, MplsFrameError> {
        match framing {
            Framing::Ethernet => {
                self.leave_fcs();
                Ok(Layer::Ethernet)
            }
            Framing::Cooked => {
                let [.., h, l] = *self.rest.take::<16>("Linux cooked")?;
                Ok(Layer::EtherType(u16::from_be_bytes([h, l])))
            }
            Framing::Cooked2 => {
                let [
                    h,
                    l,
                    _,
                    _,
                    interface @ ..,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                ] = *self.rest.take::<20>("Linux cooked")?;
                self.interface = u32::from_be_bytes(interface);
                Ok(Layer::EtherType(u16::from_be_bytes([h, l])))
            }
            Framing::Ip => Ok(Layer::Ip),
            Framing::Loopback => self.loopback(),
            Framing::Ppp => Ok(Layer::Ppp),
            Framing::PppOe => Ok(Layer::PppOe),
            Framing::CiscoHdlc => {
                let [_, _, h, l] = *self.rest.take("HDLC")?;
                Ok(Layer::EtherType(u16::from_be_bytes([h, l])))
            }
            Framing::Mpls => Ok(Layer::Mpls(Carrier::Link)),
        }
    }

    /// A check sequence that is right is none by chance: one frame in 2^32 ends like that.
    fn leave_fcs(&mut self) {
        let Rest { octets, missing: 0 } = self.rest else {
            return;
        };
        if let Some((frame, fcs)) = octets.split_last_chunk::<FCS_LEN>()
            && frame.len() >= ETHERNET_LEN
            && ethernet_crc(frame) == u32::from_le_bytes(*fcs)
        {
            self.rest.octets = frame;
            self.has_fcs = true;
        }
    }

    pub(super) fn ethernet(&mut self) -> Result<Layer, MplsFrameError> {
        let [_, _, _, _, _, _, source @ .., h, l] = *self.rest.take::<ETHERNET_LEN>("Ethernet")?;
        self.sender = Sender::Hardware(source);
        match u16::from_be_bytes([h, l]) {
            len if len < TYPE_MIN => Ok(Layer::Snap),
            kind => Ok(Layer::EtherType(kind)),
        }
    }

    pub(super) fn snap(&mut self) -> Result<Layer, MplsFrameError> {
        match *self.rest.take("SNAP")? {
            [0xaa, 0xaa, 0x03, 0, 0, 0, h, l] => Ok(Layer::EtherType(u16::from_be_bytes([h, l]))),
            _ => Err(MplsFrameError::NoEtherType),
        }
    }

    pub(super) fn ether_type(&mut self, kind: u16) -> Result<Layer, MplsFrameError> {
        match kind {
            MPLS | MPLS_MULTICAST => Ok(Layer::Mpls(Carrier::Link)),
            TYPE_IPV4 => Ok(Layer::Ipv4),
            TYPE_IPV6 => Ok(Layer::Ipv6),
            PPPOE_SESSION => Ok(Layer::PppOe),
            PPPOE_DISCOVERY => Err(MplsFrameError::NotRead("PPPoE discovery")),
            BRIDGED => Ok(Layer::Ethernet),
            COOKED_LLC => Ok(Layer::Snap),
            tag if TAGS.contains(&tag) => {
                let [_, _, h, l] = *self.rest.take("VLAN")?;
                match u16::from_be_bytes([h, l]) {
                    len if len < TYPE_MIN => Ok(Layer::Snap),
                    kind => Ok(Layer::EtherType(kind)),
                }
            }
            other => Err(MplsFrameError::EtherType(other)),
        }
    }

    /// A family is a small number: its byte order is that in which it is one.
    fn loopback(&mut self) -> Result<Layer, MplsFrameError> {
        let octets = *self.rest.take("loopback")?;
        let family = u32::from_le_bytes(octets).min(u32::from_be_bytes(octets));
        match family {
            2 => Ok(Layer::Ipv4),
            // Linux; NetBSD and OpenBSD; FreeBSD; macOS.
            10 | 24 | 28 | 30 => Ok(Layer::Ipv6),
            // OpenBSD.
            33 => Ok(Layer::Mpls(Carrier::Link)),
            other => Err(MplsFrameError::Family(other)),
        }
    }

    pub(super) fn ppp(&mut self) -> Result<Layer, MplsFrameError> {
        match self.rest.octets {
            [0xff, 0x03, ..] => self.rest.skip(2, "PPP")?,
            [0xff] => return Err(MplsFrameError::TooShort("PPP")),
            _ => {}
        }
        // A protocol below 256 may be sent as one octet (RFC 1661 section 6.5): it is odd then.
        let [first] = *self.rest.take("PPP")?;
        let protocol = match first & 1 {
            1 => first.into(),
            _ => u16::from_be_bytes([first, self.rest.take::<1>("PPP")?[0]]),
        };
        match protocol {
            0x0021 => Ok(Layer::Ipv4),
            0x0057 => Ok(Layer::Ipv6),
            0x0281 | 0x0283 => Ok(Layer::Mpls(Carrier::Link)),
            other => Err(MplsFrameError::PppProtocol(other)),
        }
    }

    pub(super) fn pppoe(&mut self) -> Result<Layer, MplsFrameError> {
        let [_, code, _, _, h, l] = *self.rest.take("PPPoE")?;
        if code != 0 {
            return Err(MplsFrameError::NotRead("PPPoE discovery"));
        }
        self.rest.cut(u16::from_be_bytes([h, l]).into(), "PPPoE")?;
        Ok(Layer::Ppp)
    }
}

/// The CRC-32 of Ethernet (802.3 clause 3.2.9), by half octets.
fn ethernet_crc(octets: &[u8]) -> u32 {
    const TABLE: [u32; 16] = {
        let mut table = [0; 16];
        let mut at = 0;
        while at < 16 {
            let mut crc = at as u32;
            let mut bit = 0;
            while bit < 4 {
                crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
                bit += 1;
            }
            table[at] = crc;
            at += 1;
        }
        table
    };
    let half = |crc: u32| crc >> 4 ^ TABLE[(crc & 15) as usize];
    !octets
        .iter()
        .fold(u32::MAX, |crc, octet| half(half(crc ^ u32::from(*octet))))
}
