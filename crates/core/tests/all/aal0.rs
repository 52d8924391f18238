//! AAL0 both ways.

use cellgate_core::aal::aal0::{self, SDU_LEN};
use cellgate_core::wire::{CellFormat, VpiVci, hec};

/// An SDU with this header and a payload that counts.
fn sdu(header: u32) -> [u8; SDU_LEN] {
    let mut sdu: [u8; SDU_LEN] = std::array::from_fn(|i| i as u8);
    sdu[..4].copy_from_slice(&header.to_be_bytes());
    sdu
}

#[test]
fn a_cell_is_received_as_it_was_on_the_wire_without_hec() {
    let sdu = sdu(0xa010_064f);
    assert_eq!(aal0::receive(&sdu, CellFormat::NoHec), Some(sdu));
    let mut cell = sdu[..4].to_vec();
    cell.push(0x99);
    cell.extend(&sdu[4..]);
    assert_eq!(aal0::receive(&cell, CellFormat::WithHec), Some(sdu));
    assert_eq!(aal0::receive(&cell, CellFormat::NoHec), None);
    assert_eq!(aal0::receive(&cell[..52], CellFormat::WithHec), None);
}

#[test]
fn the_address_of_a_sent_cell_is_that_of_the_vc() {
    let address = VpiVci::new(1, 100).unwrap();
    for low in 0..16 {
        let sdu = sdu(0xffff_fff0 | low);
        assert_eq!(aal0::header(&sdu, address).word(), 0x0010_0640 | low);
        let mut out = [0x55; 54];
        assert!(aal0::emit_cell(&sdu, address, CellFormat::NoHec, &mut out));
        assert_eq!(out[..4], (0x0010_0640 | low).to_be_bytes());
        assert_eq!(out[4..52], sdu[4..]);
        assert_eq!(out[52..], [0x55; 2]);
        assert!(aal0::emit_cell(
            &sdu,
            address,
            CellFormat::WithHec,
            &mut out
        ));
        assert_eq!(out[4], hec((0x0010_0640 | low).to_be_bytes()));
        assert_eq!(out[5..53], sdu[4..]);
        assert_eq!(out[53], 0x55);
    }
}

#[test]
fn a_cell_that_does_not_fit_is_not_sent() {
    let (sdu, address) = (sdu(0), VpiVci::new(0, 32).unwrap());
    let mut out = [0x55; 52];
    assert!(!aal0::emit_cell(
        &sdu,
        address,
        CellFormat::WithHec,
        &mut out
    ));
    assert!(!aal0::emit_cell(
        &sdu,
        address,
        CellFormat::NoHec,
        &mut out[..51]
    ));
    assert_eq!(out, [0x55; 52]);
}
