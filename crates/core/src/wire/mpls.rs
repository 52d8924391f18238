//! MPLS label stacks (RFC 3032), as far as pseudowires need them.

/// Octets of a label stack entry.
pub const LABEL_ENTRY_LEN: usize = 4;
/// Entries that are looked through for the last one: more are not in use.
const STACK_DEPTH_MAX: usize = 16;

/// An MPLS label: 20 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(u32);

impl Label {
    /// The generic associated channel label (RFC 5586): what follows is a control channel.
    pub const ASSOCIATED_CHANNEL: Self = Self(13);
    /// The router alert label (RFC 3032): above that of a pseudowire, a control channel (RFC 5085
    /// section 5.1.2).
    pub const ROUTER_ALERT: Self = Self(1);

    /// The label `value`; none if it needs more than 20 bits.
    pub const fn new(value: u32) -> Option<Self> {
        if value > 0xf_ffff {
            return None;
        }
        Some(Self(value))
    }

    pub const fn value(self) -> u32 {
        self.0
    }

    /// Whether the label has a meaning of its own (0 to 15) and names no path.
    pub const fn is_reserved(self) -> bool {
        self.0 < 16
    }
}

/// A label stack that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelStack<'a> {
    /// The entry that names the pseudowire: the last, or the one above an associated channel label.
    pub entry: LabelEntry,
    /// Its labels say that a packet of a control channel follows.
    pub is_channel: bool,
    /// What follows the last entry.
    pub payload: &'a [u8],
}

/// One entry of a label stack.
///
/// ```text
///  0                   1                   2                   3
/// +---------------------------------------+-----+-+---------------+
/// |                 label                 | TC  |S|      TTL      |
/// +---------------------------------------+-----+-+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LabelEntry {
    word: u32,
}

impl LabelEntry {
    /// An entry of traffic class 0; `bottom` if it is the last of its stack.
    pub const fn new(label: Label, bottom: bool, ttl: u8) -> Self {
        Self {
            word: label.0 << 12 | (bottom as u32) << 8 | ttl as u32,
        }
    }

    /// The same with the low three bits of `class` as traffic class (RFC 5462).
    pub const fn with_traffic_class(self, class: u8) -> Self {
        Self {
            word: self.word & !(7 << 9) | ((class & 7) as u32) << 9,
        }
    }

    /// From its octets. Any four are an entry.
    pub const fn parse(octets: [u8; LABEL_ENTRY_LEN]) -> Self {
        Self {
            word: u32::from_be_bytes(octets),
        }
    }

    /// Its octets.
    pub const fn emit(self) -> [u8; LABEL_ENTRY_LEN] {
        self.word.to_be_bytes()
    }

    pub const fn label(self) -> Label {
        Label(self.word >> 12)
    }

    /// Traffic class: 3 bits.
    pub const fn traffic_class(self) -> u8 {
        (self.word >> 9) as u8 & 7
    }

    /// Whether this is the last entry of its stack.
    pub const fn bottom(self) -> bool {
        self.word >> 8 & 1 != 0
    }

    /// Time to live.
    pub const fn ttl(self) -> u8 {
        self.word as u8
    }

    /// The last entry of the stack at the start of `octets`, which names a pseudowire, and what
    /// follows it; none if no entry of the first 16 is the last.
    pub fn parse_stack(octets: &[u8]) -> Option<(Self, &[u8])> {
        let (_, last, rest) = Self::last_two(octets)?;
        Some((last, rest))
    }

    /// The last entry, the one before it, and what follows.
    fn last_two(octets: &[u8]) -> Option<(Option<Self>, Self, &[u8])> {
        let mut above = None;
        let mut rest = octets;
        for _ in 0..STACK_DEPTH_MAX {
            let (entry, after) = rest.split_first_chunk()?;
            let entry = Self::parse(*entry);
            if entry.bottom() {
                return Some((above, entry, after));
            }
            above = Some(entry);
            rest = after;
        }
        None
    }
}

impl<'a> LabelStack<'a> {
    /// The stack at the start of `octets`; none if no entry of the first 16 is the last.
    pub fn parse(octets: &'a [u8]) -> Option<Self> {
        let (above, last, payload) = LabelEntry::last_two(octets)?;
        let by_last = last.label() == Label::ASSOCIATED_CHANNEL;
        let by_alert = above.is_some_and(|above| above.label() == Label::ROUTER_ALERT);
        Some(Self {
            entry: above.filter(|_| by_last).unwrap_or(last),
            is_channel: by_last || by_alert,
            payload,
        })
    }
}
