//! The test PDU.
//!
//! ```text
//!  0        4      5     8      16         24          32
//!  "CGPF"   kind   0     run    sequence   time_ns     ...
//! ```
//!
//! Numbers are big-endian. The time is the sender's `CLOCK_MONOTONIC`. Behind it: of a begin PDU
//! the sender's machine, of an end PDU the octets of all data PDUs, of a report PDU its JSON, of a
//! data PDU whatever lies in the transmit buffer.

/// Octets of the shortest PDU.
pub(super) const HEADER: usize = 32;
/// Octets of all but data and report PDUs.
pub(super) const SHORT: usize = HEADER + 8;

const MAGIC: &[u8; 4] = b"CGPF";

/// What a PDU is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The client wants to begin; repeated until the server is ready.
    Begin,
    /// The server takes what follows.
    Ready,
    /// What is measured.
    Data,
    /// There is no more; its sequence is the number of data PDUs. Repeated until the report.
    End,
    /// The server's report.
    Report,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Begin,
        Self::Ready,
        Self::Data,
        Self::End,
        Self::Report,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// One run of the client.
    pub(super) run: u64,
    pub(super) sequence: u64,
    pub(super) time_ns: u64,
}

impl Header {
    /// Writes the header; `pdu` has at least [`HEADER`] octets.
    pub(super) fn write(&self, pdu: &mut [u8]) {
        pdu[..4].copy_from_slice(MAGIC);
        pdu[4..8].copy_from_slice(&[self.kind as u8, 0, 0, 0]);
        pdu[8..16].copy_from_slice(&self.run.to_be_bytes());
        pdu[16..24].copy_from_slice(&self.sequence.to_be_bytes());
        pdu[24..32].copy_from_slice(&self.time_ns.to_be_bytes());
    }

    /// The same with a number behind it.
    pub(super) fn with(&self, number: u64) -> [u8; SHORT] {
        let mut pdu = [0; SHORT];
        self.write(&mut pdu);
        pdu[HEADER..].copy_from_slice(&number.to_be_bytes());
        pdu
    }

    /// None: it is no test PDU.
    pub(super) fn read(pdu: &[u8]) -> Option<Self> {
        if pdu.len() < HEADER || &pdu[..4] != MAGIC {
            return None;
        }
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == pdu[4])?;
        Some(Self {
            kind,
            run: number(&pdu[8..])?,
            sequence: number(&pdu[16..])?,
            time_ns: number(&pdu[24..])?,
        })
    }
}

/// The number behind the header, if there is one.
pub(super) fn number_of(pdu: &[u8]) -> Option<u64> {
    number(pdu.get(HEADER..)?)
}

fn number(octets: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*octets.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            let header = Header {
                kind,
                run: u64::MAX - i as u64,
                sequence: 1 << 40,
                time_ns: 7,
            };
            let pdu = header.with(99);
            assert_eq!(Header::read(&pdu), Some(header));
            assert_eq!(number_of(&pdu), Some(99));
            assert_eq!(number_of(&pdu[..SHORT - 1]), None);
            assert_eq!(Header::read(&pdu[..HEADER - 1]), None);
        }
    }

    #[test]
    fn other_octets_are_no_test_pdu() {
        let mut pdu = [0; SHORT];
        assert_eq!(Header::read(&pdu), None);
        pdu[..4].copy_from_slice(MAGIC);
        pdu[4] = Kind::ALL.len() as u8;
        assert_eq!(Header::read(&pdu), None);
        pdu[4] = 0;
        assert!(Header::read(&pdu).is_some());
    }
}
