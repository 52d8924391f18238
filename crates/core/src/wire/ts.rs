//! The transport packet of MPEG-2 (H.222.0, ISO 13818-1, section 2.4.3): its header, its adaptation
//! field as far as clocks need it, and its clock reference.

/// Octets of a transport packet.
pub const TS_LEN: usize = 188;
/// The first octet of each.
pub const TS_SYNC: u8 = 0x47;

/// Ticks until a clock reference begins anew: 33 bits of 90 kHz, of 300 ticks each.
const PCR_MODULUS: u64 = (1 << 33) * 300;
/// Octets of a clock reference.
const PCR_LEN: usize = 6;
/// Octets of the header.
const HEADER_LEN: usize = 4;

/// The stream that a transport packet belongs to: 13 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(u16);

impl Pid {
    /// Packets that only fill.
    pub const NULL: Self = Self(0x1fff);

    /// One of 13 bits; none if there are more.
    pub const fn new(pid: u16) -> Option<Self> {
        match pid {
            0..=0x1fff => Some(Self(pid)),
            _ => None,
        }
    }

    /// The number.
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// A program clock reference: 27 MHz, modulo 2^33 * 300.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcr(u64);

impl Pcr {
    /// Of a clock with so many ticks.
    pub const fn of_ticks(ticks: u64) -> Self {
        Self(ticks % PCR_MODULUS)
    }

    /// Ticks of 27 MHz, below 2^33 * 300.
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// Ticks from `earlier` to here, whatever was the beginning anew: less than half of all are
    /// forward, the rest are back.
    pub const fn since(self, earlier: Self) -> i64 {
        let forward = (self.0 + PCR_MODULUS - earlier.0) % PCR_MODULUS;
        if forward < PCR_MODULUS / 2 {
            forward as i64
        } else {
            // Below 2^42.
            forward as i64 - PCR_MODULUS as i64
        }
    }

    /// From 33 bits of base, six that are reserved, and nine of extension. None if the extension is
    /// beyond 299, which no clock shows.
    const fn parse(octets: [u8; PCR_LEN]) -> Option<Self> {
        let [b0, b1, b2, b3, b4, b5] = octets;
        let base = (b0 as u64) << 25
            | (b1 as u64) << 17
            | (b2 as u64) << 9
            | (b3 as u64) << 1
            | (b4 as u64) >> 7;
        let extension = ((b4 as u64) & 1) << 8 | b5 as u64;
        if extension < 300 {
            Some(Self(base * 300 + extension))
        } else {
            None
        }
    }

    const fn emit(self) -> [u8; PCR_LEN] {
        let (base, extension) = (self.0 / 300, self.0 % 300);
        [
            (base >> 25) as u8,
            (base >> 17) as u8,
            (base >> 9) as u8,
            (base >> 1) as u8,
            ((base & 1) << 7) as u8 | 0x7e | (extension >> 8) as u8,
            extension as u8,
        ]
    }
}

/// Nanoseconds of so many ticks of 27 MHz, rounded down; exact at each millisecond.
pub const fn ticks_to_ns(ticks: i64) -> i64 {
    (ticks as i128 * 1_000).div_euclid(27) as i64
}

/// The adaptation field, as far as clocks need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TsAdaptation {
    /// Counter or clock begin anew here.
    pub discontinuity: bool,
    /// Decoding can begin here.
    pub random_access: bool,
    /// The clock when this packet's reference arrives.
    pub pcr: Option<Pcr>,
}

/// The header of a transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TsHeader {
    /// `transport_error_indicator`: at least one bit of the packet is wrong.
    pub error: bool,
    /// `payload_unit_start_indicator`.
    pub start: bool,
    /// Whose it is.
    pub pid: Pid,
    /// `continuity_counter`, 4 bits: one more for each packet of a PID that has payload.
    pub counter: u8,
    /// Whether there is payload.
    pub has_payload: bool,
    /// The adaptation field, if there is one.
    pub adaptation: Option<TsAdaptation>,
}

/// Why octets are no transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TsFault {
    /// The first octet is not 0x47.
    Sync,
    /// `adaptation_field_control` is 00, which is reserved.
    Reserved,
    /// The adaptation field is longer than its packet, or shorter than what its flags name.
    Adaptation,
    /// A clock reference has an extension beyond 299.
    Clock,
}

impl TsHeader {
    /// The header of a packet, and where its payload begins.
    ///
    /// # Errors
    /// The octets are no transport packet.
    pub fn parse(packet: &[u8; TS_LEN]) -> Result<(Self, usize), TsFault> {
        let [sync, second, third, fourth, length, flags, ..] = *packet;
        if sync != TS_SYNC {
            return Err(TsFault::Sync);
        }
        let (is_adapted, has_payload) = (fourth & 0x20 != 0, fourth & 0x10 != 0);
        if !is_adapted && !has_payload {
            return Err(TsFault::Reserved);
        }
        let mut header = Self {
            error: second & 0x80 != 0,
            start: second & 0x40 != 0,
            pid: Pid(u16::from(second & 0x1f) << 8 | u16::from(third)),
            counter: fourth & 0x0f,
            has_payload,
            adaptation: None,
        };
        if !is_adapted {
            return Ok((header, HEADER_LEN));
        }
        let length = usize::from(length);
        // All of the packet without payload; at least an octet less with it.
        let is_of_its_length = match has_payload {
            true => length < TS_LEN - HEADER_LEN - 1,
            false => length == TS_LEN - HEADER_LEN - 1,
        };
        if !is_of_its_length {
            return Err(TsFault::Adaptation);
        }
        let mut adaptation = TsAdaptation::default();
        if length > 0 {
            adaptation.discontinuity = flags & 0x80 != 0;
            adaptation.random_access = flags & 0x40 != 0;
            if flags & 0x10 != 0 {
                let octets = packet[6..].first_chunk().filter(|_| length > PCR_LEN);
                let octets = octets.ok_or(TsFault::Adaptation)?;
                adaptation.pcr = Some(Pcr::parse(*octets).ok_or(TsFault::Clock)?);
            }
        }
        header.adaptation = Some(adaptation);
        Ok((header, HEADER_LEN + 1 + length))
    }

    /// Writes the header; where the payload begins. Without payload the rest is stuffed.
    pub fn emit(&self, packet: &mut [u8; TS_LEN]) -> usize {
        let pid = self.pid.0;
        packet[0] = TS_SYNC;
        packet[1] = u8::from(self.error) << 7 | u8::from(self.start) << 6 | (pid >> 8) as u8;
        packet[2] = pid as u8;
        let adaptation = match (self.adaptation, self.has_payload) {
            // What has neither is not allowed.
            (None, false) => Some(TsAdaptation::default()),
            (adaptation, _) => adaptation,
        };
        let payload = u8::from(self.has_payload) << 4;
        packet[3] = u8::from(adaptation.is_some()) << 5 | payload | self.counter & 0x0f;
        let Some(adaptation) = adaptation else {
            return HEADER_LEN;
        };
        let own = 1 + adaptation.pcr.map_or(0, |_| PCR_LEN);
        let length = match self.has_payload {
            true => own,
            false => TS_LEN - HEADER_LEN - 1,
        };
        // Below the packet's length.
        packet[4] = length as u8;
        packet[5] = u8::from(adaptation.discontinuity) << 7
            | u8::from(adaptation.random_access) << 6
            | u8::from(adaptation.pcr.is_some()) << 4;
        if let Some(pcr) = adaptation.pcr {
            packet[6..12].copy_from_slice(&pcr.emit());
        }
        packet[HEADER_LEN + 1 + own..HEADER_LEN + 1 + length].fill(0xff);
        HEADER_LEN + 1 + length
    }

    /// A packet in the place of one that is lost: it fills, and its error flag says that it is
    /// wrong.
    pub fn lost() -> [u8; TS_LEN] {
        let mut packet = [0xff; TS_LEN];
        let header = Self {
            error: true,
            start: false,
            pid: Pid::NULL,
            counter: 0,
            has_payload: true,
            adaptation: None,
        };
        header.emit(&mut packet);
        packet
    }

    /// Its clock reference, if it has one that can be believed.
    pub fn pcr(&self) -> Option<Pcr> {
        self.adaptation?.pcr.filter(|_| !self.error)
    }

    /// Whether counter or clock begin anew here.
    pub fn is_discontinuity(&self) -> bool {
        self.adaptation.is_some_and(|field| field.discontinuity)
    }
}
