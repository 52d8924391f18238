//! What is in SDUs: whose it is and which, and octets that follow from that, so that a reader can
//! check every one of them.

use std::sync::LazyLock;

use cellgate_core::aal::aal5::Segmenter;
use cellgate_core::contract::{Aal, aal5_cells};
use cellgate_core::wire::{CELL_LEN, Header, PAYLOAD_LEN, Pti, TRAILER_LEN, VpiVci, hec};
use cellgate_simd::{Fold, Kernel, with_features};

use super::cell::{CellRef, HEADER_LEN, Octets};
use super::scenario::SourceSpec;
use crate::reference::{cells_of_aal34, payloads};

/// Begins of noise that an SDU can have: so few that the noise of SDUs of the usual length stays in
/// the nearest cache.
const BEGINS: usize = 1 << 12;
/// As much as the longest SDU behind the last of them.
const NOISE_LEN: usize = BEGINS + (1 << 16);
const OWN: usize = SourceSpec::SDU_MIN as usize;

/// Noise, the same in every run.
static NOISE: LazyLock<Box<[u8]>> = LazyLock::new(|| {
    let mut state = 0x1995_u64;
    let noise = (0..NOISE_LEN).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    noise.collect()
});

/// The octets of all SDUs.
#[derive(Debug)]
pub(crate) struct Content {
    noise: &'static [u8],
    /// The PDU that is being made.
    staging: Vec<u8>,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            noise: &NOISE,
            staging: Vec::new(),
        }
    }
}

impl Content {
    /// Where the noise of an SDU begins.
    fn begin(connection: u32, number: u64) -> usize {
        let place = (number ^ u64::from(connection) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (place >> (u64::BITS - BEGINS.ilog2())) as usize
    }

    fn noise(&self, connection: u32, number: u64, len: usize) -> &[u8] {
        let begin = Self::begin(connection, number);
        &self.noise[begin..begin + len]
    }

    /// SDU `number` of a connection, at least [`SourceSpec::SDU_MIN`] octets.
    pub(crate) fn fill(&self, connection: u32, number: u64, sdu: &mut [u8]) {
        let (own, rest) = sdu.split_at_mut(OWN);
        own[..8].copy_from_slice(&number.to_le_bytes());
        own[8..].copy_from_slice(&connection.to_le_bytes());
        rest.copy_from_slice(self.noise(connection, number, rest.len()));
    }

    /// UU and CPI of a PDU of AAL5.
    pub(crate) const fn user(number: u64) -> (u8, u8) {
        (number as u8, (number >> 8) as u8)
    }

    /// The number of an SDU that a connection has brought. None: it is none of its SDUs.
    pub(crate) fn number(&self, connection: u32, sdu: &[u8]) -> Option<u64> {
        let (own, rest) = sdu.split_at_checked(OWN)?;
        let number = u64::from_le_bytes(*own.first_chunk()?);
        let whose = own[8..] == connection.to_le_bytes();
        (whose && rest == self.noise(connection, number, rest.len())).then_some(number)
    }
}

/// Whose a PDU is, and how it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) connection: u32,
    pub(crate) address: VpiVci,
    pub(crate) aal: Aal,
}

/// Cells of a PDU around so many octets.
pub(crate) fn cells_of(aal: Aal, len: u16) -> u32 {
    match aal {
        Aal::Aal0 => 1,
        Aal::Aal34 => cells_of_aal34(len.into()) as u32,
        Aal::Aal5 => aal5_cells(len.into()),
    }
}

/// What goes onto a line: a PDU, or some of AAL3/4 at once; and how far it has gone.
#[derive(Clone, Debug)]
pub(crate) enum Pdu {
    Aal5(Sealed),
    Whole(Whole),
}

/// Cells that are there.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    next: u16,
    /// Of how many PDUs they are: the last cells of all come last, in order.
    pdus: u16,
    cells: Vec<Octets>,
}

/// An AAL5 PDU. Its cells are made when they are due: where thousands are under way, no memory
/// holds the octets of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sealed {
    next: u16,
    /// Of the SDU's noise.
    begin: u16,
    /// Cells behind the first whose payload lies among the noise.
    noisy: u16,
    cells: u16,
    /// Of all cells but the last, and of the last.
    headers: [[u8; HEADER_LEN]; 2],
    len: u16,
    own: [u8; OWN],
    trailer: [u8; TRAILER_LEN],
}

impl Default for Pdu {
    fn default() -> Self {
        Self::Aal5(Sealed::default())
    }
}

struct Seal<'a> {
    staging: &'a mut [u8],
    len: u16,
    user: (u8, u8),
    header: Header,
}

impl Kernel for Seal<'_> {
    type Output = Option<Segmenter>;

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Self::Output {
        let (uu, cpi) = self.user;
        Segmenter::seal(fold, self.staging, self.len, uu, cpi, self.header)
    }
}

impl Pdu {
    /// Makes SDU `number` of `len` octets into a PDU of AAL5, or into a cell of AAL0.
    pub(crate) fn make(&mut self, content: &mut Content, sender: Sender, number: u64, len: u16) {
        if sender.aal == Aal::Aal5 {
            *self = Self::Aal5(Sealed::new(content, sender, number, len));
            return;
        }
        let mut payload = [0; PAYLOAD_LEN];
        content.fill(sender.connection, number, &mut payload);
        *self = Self::Whole(Whole {
            next: 0,
            pdus: 1,
            cells: vec![cell(sender.address, true, &payload)],
        });
    }

    /// Makes SDUs of AAL3/4 from `first` on into cells, each under a MID of its own: in turn but
    /// for the last of each, which come in the order of their numbers.
    pub(crate) fn interleave(
        &mut self,
        content: &Content,
        sender: Sender,
        first: u64,
        lens: &[u16],
    ) {
        let mut bodies = Vec::new();
        let mut ends = Vec::new();
        let mut sdu = Vec::new();
        for (mid, len) in (0..).zip(lens) {
            let number = first + u64::from(mid);
            sdu.resize((*len).into(), 0);
            content.fill(sender.connection, number, &mut sdu);
            // Lost cells in a row never make one PDU of two.
            let mut cells = payloads(&sdu, mid, number as u8);
            ends.extend(cells.pop());
            bodies.push(cells.into_iter());
        }
        let pdus = ends.len() as u16;
        let mut payloads = Vec::new();
        loop {
            let turn = payloads.len();
            payloads.extend(bodies.iter_mut().filter_map(Iterator::next));
            if payloads.len() == turn {
                break;
            }
        }
        payloads.extend(ends);
        let last = payloads.len().saturating_sub(1);
        // To AAL3/4 this bit says nothing: switches that look for it find the end.
        let cells = payloads.iter().enumerate();
        let cells = cells.map(|(n, payload)| cell(sender.address, n == last, payload));
        *self = Self::Whole(Whole {
            next: 0,
            pdus,
            cells: cells.collect(),
        });
    }

    /// Whether all its cells have gone.
    #[inline(always)]
    pub(crate) fn has_gone(&self) -> bool {
        match self {
            Self::Aal5(sealed) => sealed.next == sealed.cells,
            Self::Whole(whole) => usize::from(whole.next) == whole.cells.len(),
        }
    }

    /// The next cell goes; whether it ends a PDU.
    #[inline(always)]
    pub(crate) fn go(&mut self) -> bool {
        match self {
            Self::Aal5(sealed) => {
                sealed.next += 1;
                sealed.next == sealed.cells
            }
            Self::Whole(whole) => {
                whole.next += 1;
                usize::from(whole.next + whole.pdus) > whole.cells.len()
            }
        }
    }

    /// The cell that went last; `payload` is room for what lies nowhere.
    #[inline(always)]
    pub(crate) fn cell<'a>(
        &'a self,
        content: &Content,
        payload: &'a mut [u8; PAYLOAD_LEN],
    ) -> CellRef<'a> {
        match self {
            Self::Aal5(sealed) => sealed.cell(content, sealed.next - 1, payload),
            Self::Whole(whole) => (&whole.cells[usize::from(whole.next) - 1]).into(),
        }
    }
}

impl Sealed {
    fn new(content: &mut Content, sender: Sender, number: u64, len: u16) -> Self {
        let mut staging = std::mem::take(&mut content.staging);
        let cells = aal5_cells(len.into()) as u16;
        staging.resize(usize::from(cells) * PAYLOAD_LEN, 0);
        content.fill(sender.connection, number, &mut staging[..usize::from(len)]);
        let sealed = with_features(Seal {
            staging: &mut staging,
            len,
            user: Content::user(number),
            header: header(sender.address, false),
        });
        debug_assert!(sealed.is_some(), "it was made to fit");
        let mut own = [0; OWN];
        own.copy_from_slice(&staging[..OWN]);
        let pdu = Self {
            next: 0,
            begin: Content::begin(sender.connection, number) as u16,
            len,
            cells,
            noisy: (len / PAYLOAD_LEN as u16).saturating_sub(1),
            own,
            trailer: staging.last_chunk().copied().unwrap_or_default(),
            headers: [false, true].map(|last| {
                let [a, b, c, d] = header(sender.address, last).emit();
                [a, b, c, d, hec([a, b, c, d])]
            }),
        };
        content.staging = staging;
        pdu
    }

    #[inline(always)]
    fn cell<'a>(
        &'a self,
        content: &Content,
        n: u16,
        payload: &'a mut [u8; PAYLOAD_LEN],
    ) -> CellRef<'a> {
        if self.is_noisy(n)
            && let Some(payload) = content.noise[self.begin_of(n)..].first_chunk()
        {
            return CellRef::new(&self.headers[0], payload);
        }
        *payload = self.edge(&content.noise[self.begin as usize..], n);
        CellRef::new(&self.headers[usize::from(n + 1 == self.cells)], payload)
    }

    /// Whether the payload of a cell lies among the noise: never that of the last.
    #[inline(always)]
    fn is_noisy(&self, n: u16) -> bool {
        (1..=self.noisy).contains(&n)
    }

    /// Where that begins there.
    #[inline(always)]
    fn begin_of(&self, n: u16) -> usize {
        self.begin as usize + usize::from(n) * PAYLOAD_LEN - OWN
    }

    /// The payload of the first cell, or of one behind the last that is full.
    #[inline(never)]
    fn edge(&self, noise: &[u8], n: u16) -> [u8; PAYLOAD_LEN] {
        let mut payload = [0; PAYLOAD_LEN];
        let (from, len) = (usize::from(n) * PAYLOAD_LEN, usize::from(self.len));
        let end = len.min(from + PAYLOAD_LEN);
        if n == 0 {
            payload[..OWN].copy_from_slice(&self.own);
            payload[OWN..end].copy_from_slice(&noise[..end - OWN]);
        } else if from < end {
            payload[..end - from].copy_from_slice(&noise[from - OWN..end - OWN]);
        }
        if n + 1 == self.cells {
            payload[PAYLOAD_LEN - TRAILER_LEN..].copy_from_slice(&self.trailer);
        }
        payload
    }
}

fn header(address: VpiVci, last: bool) -> Header {
    let pti = Pti::User {
        congested: false,
        last,
    };
    Header::new(address, pti, false)
}

fn cell(address: VpiVci, last: bool, payload: &[u8; PAYLOAD_LEN]) -> Octets {
    let header = header(address, last).emit();
    let mut cell = [0; CELL_LEN];
    cell[..4].copy_from_slice(&header);
    cell[4] = hec(header);
    cell[5..].copy_from_slice(payload);
    cell
}

#[cfg(test)]
mod tests {
    use cellgate_core::wire::CellFormat;

    use super::*;

    #[test]
    fn cells_are_those_of_the_segmenter() {
        let mut content = Content::default();
        let address = VpiVci::new(3, 77).expect("an address");
        for len in [
            12, 13, 39, 40, 41, 47, 48, 49, 88, 89, 96, 97, 1_500, 65_535,
        ] {
            let mut pdu = Pdu::default();
            let sender = Sender {
                connection: 5,
                address,
                aal: Aal::Aal5,
            };
            pdu.make(&mut content, sender, 9, len);
            let count = aal5_cells(len.into()) as usize;
            let mut staging = vec![0; count * PAYLOAD_LEN];
            content.fill(5, 9, &mut staging[..usize::from(len)]);
            let mut expected = vec![0; count * CELL_LEN];
            let sealed = with_features(Seal {
                staging: &mut staging,
                len,
                user: Content::user(9),
                header: header(address, false),
            });
            let mut segmenter = sealed.expect("it fits");
            segmenter.emit_cells(&staging, CellFormat::WithHec, &mut expected);
            let (mut cells, mut room) = (Vec::new(), [0; PAYLOAD_LEN]);
            while !pdu.has_gone() {
                let is_last = pdu.go();
                cells.push(pdu.cell(&content, &mut room).octets());
                assert_eq!(is_last, cells.len() == count, "{len} octets");
            }
            assert_eq!(cells.as_flattened(), expected, "{len} octets");
        }
    }

    #[test]
    fn only_the_right_octets_have_a_number() {
        let content = Content::default();
        let mut sdu = [0; 500];
        for len in [OWN, OWN + 1, 500] {
            content.fill(7, 1 << 40, &mut sdu[..len]);
            assert_eq!(content.number(7, &sdu[..len]), Some(1 << 40));
            assert_eq!(content.number(8, &sdu[..len]), None);
            assert_eq!(content.number(7, &sdu[..len - 1]).is_some(), len > OWN);
        }
        sdu[300] ^= 1;
        assert_eq!(content.number(7, &sdu), None);
    }
}
