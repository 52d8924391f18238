//! Where a viewer who comes late begins: behind the tables, at a picture that needs no other.
//!
//! The tables are those of H.222.0, section 2.4.4: programmes (PAT), and the streams of one (PMT).

use crate::wire::{Pcr, Pid, TS_LEN, TsHeader, ticks_to_ns};

/// A clock that is so far ahead of its last reference has jumped.
const JUMP_NS: i64 = 500_000_000;
/// The PID of the programmes' table.
const PAT_PID: u16 = 0;
const PAT: u8 = 0x00;
const PMT: u8 = 0x02;
/// Octets of a table's section before what differs, and of its CRC.
const SECTION_HEAD: usize = 8;
const CRC: usize = 4;

/// What a packet is to one who has not watched yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It belongs to what was before.
    More,
    /// A viewer can begin with it, behind [`Entries::tables`].
    Entry,
    /// The clock begins anew with it: whoever watches begins anew, too.
    Anew,
}

/// Watches a stream for where a viewer can begin.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// The packet with the programmes, and the PID of the first one's table.
    programmes: Option<([u8; TS_LEN], Pid)>,
    /// The packet with that table, and what it says.
    streams: Option<([u8; TS_LEN], Streams)>,
    /// The clock's last reference.
    last: Option<Pcr>,
}

/// What of a programme's streams matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Streams {
    clock: Pid,
    picture: Option<(Pid, Coding)>,
}

/// How pictures are coded, as far as the start of one is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Mpeg,
    H264,
    H265,
}

impl Entries {
    /// Nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next packet of the stream.
    pub fn handle(&mut self, packet: &[u8; TS_LEN]) -> Step {
        let Ok((header, begins)) = TsHeader::parse(packet) else {
            return Step::More;
        };
        if header.error {
            return Step::More;
        }
        let payload = match header.has_payload && header.start {
            true => packet.get(begins..).unwrap_or_default(),
            false => &[],
        };
        if self.has_jumped(&header) {
            return Step::Anew;
        }
        if header.pid.number() == PAT_PID {
            self.programmes(packet, payload);
            // Sound alone can begin anywhere.
            let is_sound = self.streams.is_some_and(|(_, all)| all.picture.is_none());
            return if is_sound { Step::Entry } else { Step::More };
        }
        if self
            .programmes
            .is_some_and(|(_, table)| table == header.pid)
        {
            if let Some(streams) = section(payload, PMT).and_then(streams) {
                self.streams = Some((*packet, streams));
            }
            return Step::More;
        }
        let picture = self.streams.and_then(|(_, all)| all.picture);
        match picture {
            Some((pid, coding)) if pid == header.pid && !payload.is_empty() => {
                let is_told = header.adaptation.is_some_and(|field| field.random_access);
                match is_told || begins_anew(payload, coding) {
                    true => Step::Entry,
                    false => Step::More,
                }
            }
            _ => Step::More,
        }
    }

    /// The tables' packets that came last, in the order in which a viewer needs them.
    pub fn tables(&self) -> impl Iterator<Item = &[u8; TS_LEN]> {
        let programmes = self.programmes.iter().map(|(packet, _)| packet);
        programmes.chain(self.streams.iter().map(|(packet, _)| packet))
    }

    fn has_jumped(&mut self, header: &TsHeader) -> bool {
        let clock = self.streams.map(|(_, all)| all.clock);
        let Some(now) = header.pcr().filter(|_| clock == Some(header.pid)) else {
            return false;
        };
        let last = self.last.replace(now);
        let ahead = last.map_or(0, |last| ticks_to_ns(now.since(last)));
        header.is_discontinuity() || !(0..=JUMP_NS).contains(&ahead)
    }

    fn programmes(&mut self, packet: &[u8; TS_LEN], payload: &[u8]) {
        let Some(table) = section(payload, PAT).and_then(first_programme) else {
            return;
        };
        if self.programmes.is_none_or(|(_, before)| before != table) {
            self.streams = None;
        }
        self.programmes = Some((*packet, table));
    }
}

/// What of a table's section differs from table to table. None where it is another table, or goes
/// on in another packet.
fn section(payload: &[u8], table: u8) -> Option<&[u8]> {
    let (pointer, rest) = payload.split_first()?;
    let section = rest.get(usize::from(*pointer)..)?;
    let [id, high, low, ..] = *section else {
        return None;
    };
    let end = 3 + usize::from(u16::from_be_bytes([high & 0x0f, low]));
    section
        .get(SECTION_HEAD..end.checked_sub(CRC)?)
        .filter(|_| id == table)
}

/// The PID of the table of the first programme that is one.
fn first_programme(body: &[u8]) -> Option<Pid> {
    let mut programmes = body.chunks_exact(4);
    programmes.find_map(|entry| match *entry {
        // Number 0 is the network's own.
        [0, 0, ..] => None,
        [_, _, high, low] => Some(pid(high, low)),
        _ => None,
    })
}

fn pid(high: u8, low: u8) -> Pid {
    // Thirteen bits.
    Pid::new(u16::from_be_bytes([high & 0x1f, low])).unwrap_or(Pid::NULL)
}

fn streams(body: &[u8]) -> Option<Streams> {
    let length = |high: u8, low: u8| usize::from(u16::from_be_bytes([high & 0x0f, low]));
    let [clock_high, clock_low, high, low, rest @ ..] = body else {
        return None;
    };
    let mut rest = rest.get(length(*high, *low)..)?;
    let mut picture = None;
    while let [kind, pid_high, pid_low, high, low, more @ ..] = rest {
        let coding = match kind {
            0x01 | 0x02 => Some(Coding::Mpeg),
            0x1b => Some(Coding::H264),
            0x24 => Some(Coding::H265),
            _ => None,
        };
        picture = picture.or(coding.map(|coding| (pid(*pid_high, *pid_low), coding)));
        rest = more.get(length(*high, *low)..)?;
    }
    Some(Streams {
        clock: pid(*clock_high, *clock_low),
        picture,
    })
}

/// Whether the parameters of a sequence stand in the first packet of a picture: encoders that do
/// not say where decoding can begin write them where it can.
fn begins_anew(payload: &[u8], coding: Coding) -> bool {
    payload.windows(4).any(|octets| match (octets, coding) {
        ([0, 0, 1, 0xb3], Coding::Mpeg) => true,
        ([0, 0, 1, unit], Coding::H264) => unit & 0x1f == 7,
        ([0, 0, 1, unit], Coding::H265) => matches!(unit >> 1 & 0x3f, 32 | 33),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::TsAdaptation;

    const TABLE: u16 = 0x1000;
    const PICTURE: u16 = 0x100;
    const SOUND: u16 = 0x101;

    fn packet(pid: u16, start: bool, field: Option<TsAdaptation>, octets: &[u8]) -> [u8; TS_LEN] {
        let mut packet = [0xff; TS_LEN];
        let header = TsHeader {
            error: false,
            start,
            pid: Pid::new(pid).unwrap(),
            counter: 0,
            has_payload: true,
            adaptation: field,
        };
        let begins = header.emit(&mut packet);
        packet[begins..begins + octets.len()].copy_from_slice(octets);
        packet
    }

    fn table(pid: u16, id: u8, body: &[u8]) -> [u8; TS_LEN] {
        let length = (5 + body.len() + CRC) as u8;
        let mut octets = vec![0, id, 0xb0, length, 0, 1, 0xc1, 0, 0];
        octets.extend_from_slice(body);
        octets.extend_from_slice(&[0; CRC]);
        packet(pid, true, None, &octets)
    }

    fn programmes() -> [u8; TS_LEN] {
        table(
            0,
            PAT,
            &[0, 0, 0xe0, 0x10, 0, 1, 0xe0 | (TABLE >> 8) as u8, 0],
        )
    }

    /// A programme whose picture is of `kind`, behind a descriptor and a sound.
    fn streams_of(kind: Option<u8>) -> [u8; TS_LEN] {
        let mut body = vec![0xe1, 0x00, 0xf0, 2, 5, 0, 0x0f, 0xe1, 0x01, 0xf0, 1, 0];
        if let Some(kind) = kind {
            body.extend_from_slice(&[kind, 0xe1, 0x00, 0xf0, 0]);
        }
        table(TABLE, PMT, &body)
    }

    fn clock(ms: u64, discontinuity: bool) -> Option<TsAdaptation> {
        Some(TsAdaptation {
            discontinuity,
            random_access: false,
            pcr: Some(Pcr::of_ticks(ms * 27_000)),
        })
    }

    const RANDOM: Option<TsAdaptation> = Some(TsAdaptation {
        discontinuity: false,
        random_access: true,
        pcr: None,
    });

    #[test]
    fn a_viewer_begins_behind_tables_at_a_picture_that_needs_no_other() {
        for (kind, unit, other) in [
            (0x02, &[0, 0, 1, 0xb3][..], &[0, 0, 1, 0x00][..]),
            (0x1b, &[0, 0, 1, 9, 0x10, 0, 0, 1, 0x67], &[0, 0, 1, 0x41]),
            (0x24, &[0, 0, 1, 0x40, 1], &[0, 0, 1, 0x02, 1]),
        ] {
            let mut entries = Entries::new();
            let first = packet(PICTURE, true, None, unit);
            assert_eq!(entries.handle(&first), Step::More, "without tables");
            assert_eq!(entries.handle(&programmes()), Step::More);
            assert_eq!(entries.handle(&first), Step::More, "without one of them");
            assert_eq!(entries.handle(&streams_of(Some(kind))), Step::More);
            assert_eq!(entries.handle(&first), Step::Entry, "{kind:#x}");
            let rest = packet(PICTURE, false, None, unit);
            assert_eq!(entries.handle(&rest), Step::More, "no start");
            let next = packet(PICTURE, true, None, other);
            assert_eq!(entries.handle(&next), Step::More, "{kind:#x}");
            let told = packet(PICTURE, true, RANDOM, other);
            assert_eq!(entries.handle(&told), Step::Entry, "it is told");
            let sound = packet(SOUND, true, RANDOM, &[]);
            assert_eq!(entries.handle(&sound), Step::More, "sound is no picture");
            let tables: Vec<_> = entries.tables().copied().collect();
            assert_eq!(tables, [programmes(), streams_of(Some(kind))]);
        }
    }

    #[test]
    fn sound_alone_begins_with_its_tables() {
        let mut entries = Entries::new();
        assert_eq!(entries.handle(&programmes()), Step::More);
        assert_eq!(entries.handle(&streams_of(None)), Step::More);
        assert_eq!(entries.handle(&programmes()), Step::Entry);
    }

    #[test]
    fn a_clock_that_jumps_begins_anew() {
        let at = |ms, discontinuity| packet(PICTURE, false, clock(ms, discontinuity), &[]);
        let mut entries = Entries::new();
        for table in [programmes(), streams_of(Some(0x1b))] {
            entries.handle(&table);
        }
        for (ms, discontinuity, step) in [
            (1_000, false, Step::More),
            (1_500, false, Step::More),
            (2_001, false, Step::Anew),
            (2_010, false, Step::More),
            (2_009, false, Step::Anew),
            (2_020, true, Step::Anew),
            (2_030, false, Step::More),
        ] {
            assert_eq!(entries.handle(&at(ms, discontinuity)), step, "{ms} ms");
        }
        let other = packet(SOUND, false, clock(9_000, false), &[]);
        assert_eq!(entries.handle(&other), Step::More, "another clock");
    }

    #[test]
    fn tables_that_are_cut_or_lie_say_nothing() {
        let mut entries = Entries::new();
        entries.handle(&programmes());
        let whole = streams_of(Some(0x1b));
        for at in 5..40 {
            for wrong in [0x00, 0x7f, 0xff] {
                let mut packet = whole;
                packet[at] = wrong;
                // Whatever it says, nothing panics.
                entries.clone().handle(&packet);
            }
        }
        let mut long = whole;
        long[7] = 0xff;
        entries.handle(&long);
        assert_eq!(entries.tables().count(), 1);
        entries.handle(&whole);
        assert_eq!(entries.tables().count(), 2);
    }
}
