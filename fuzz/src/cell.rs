//! Headers, both HEC modes, addresses.

use cellgate_core::wire::{
    CELL_LEN, Cell, CellFormat, CellRef, Header, HeaderForm, HecMode, HecReceiver, HecVerdict,
    VpiVci,
};

use crate::check;
use crate::take::Take;

const REPAIR: u8 = 0x80;
const FLIP: u8 = 0x40;

/// Cells through one receiver, each with an octet before it that may repair the HEC and then
/// invert one bit. A receiver by the letter of I.432.1 must agree on every header.
pub fn cell(data: &[u8]) {
    let mut take = Take::new(data);
    let mut receiver = HecReceiver::new();
    let mut detecting = false;
    while !take.is_empty() {
        let op = take.u8();
        let mut header: [u8; 5] = take.octets();
        if op & REPAIR != 0 {
            header[4] = check::hec([header[0], header[1], header[2], header[3]]);
        }
        if op & FLIP != 0 {
            let bit = usize::from(op & 0x3f) % 40;
            header[bit / 8] ^= 0x80 >> (bit % 8);
        }
        let mut octets = [op; CELL_LEN];
        octets[..5].copy_from_slice(&header);
        let mode = receiver.mode();
        assert_eq!(mode == HecMode::Detection, detecting);
        let (verdict, cell) = Cell::parse_with_hec(&octets, &mut receiver);
        let expected = judge(header, &mut detecting);
        assert_eq!(verdict, expected);
        let mut sent = header;
        if let HecVerdict::Corrected { bit } = verdict {
            sent[usize::from(bit) / 8] ^= 0x80 >> (bit % 8);
        }
        assert_eq!(cell.is_none(), verdict == HecVerdict::Discard);
        if let Some(cell) = cell {
            let mut whole = octets;
            whole[..5].copy_from_slice(&sent);
            assert_eq!(cell.emit_with_hec(), whole);
            let short = cell.emit_without_hec();
            assert_eq!(Cell::parse_without_hec(&short), cell);
            fields(cell.header);
        }
    }
    for format in [CellFormat::WithHec, CellFormat::NoHec] {
        let cells = CellRef::train(data, format);
        assert_eq!(cells.count(), data.len() / format.stride());
    }
    address(data);
}

/// I.432.1 figure 5, by trying every bit.
fn judge(header: [u8; 5], detecting: &mut bool) -> HecVerdict {
    let valid = |h: [u8; 5]| check::hec([h[0], h[1], h[2], h[3]]) == h[4];
    if valid(header) {
        *detecting = false;
        return HecVerdict::Valid;
    }
    if std::mem::replace(detecting, true) {
        return HecVerdict::Discard;
    }
    let flipped = |bit: &u8| {
        let mut octets = header;
        octets[usize::from(*bit) / 8] ^= 0x80 >> (bit % 8);
        valid(octets)
    };
    let bit = (0..40).find(flipped);
    bit.map_or(HecVerdict::Discard, |bit| HecVerdict::Corrected { bit })
}

fn fields(header: Header) {
    assert_eq!(Header::parse(header.emit()), header);
    for form in [HeaderForm::Uni, HeaderForm::Nni] {
        let address = header.address(form);
        assert!(address.vpi() <= form.vpi_max());
        assert_eq!(VpiVci::new(address.vpi(), address.vci()), Some(address));
        let again = Header::new(address, header.pti(), header.clp());
        assert_eq!(again.address(form), address);
        assert_eq!(again.kind(form), header.kind(form));
        assert_eq!(again.word() & 0xf, header.word() & 0xf);
        assert_eq!(address.to_string().parse(), Ok(address));
    }
}

/// The octets as the text of an address.
fn address(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(address) = text.parse::<VpiVci>() {
        assert_eq!(address.to_string(), text);
    }
}
