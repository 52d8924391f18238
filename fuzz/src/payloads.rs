//! What one payload says: OAM, RM, AAL1, AAL2, AAL3/4.

use cellgate_core::wire::{
    Aal1Header, Checked, CpsPacketHeader, Header, HeaderForm, Oam, OamFlow, PAYLOAD_LEN, Rm,
    RmRate, SarPdu, SnpVerdict, StartField, crc10, crc10_is_valid, seal_crc10,
};

use crate::check;
use crate::take::Take;

/// Payloads, each with an octet before it that may repair the CRC-10. What is parsed and emitted
/// says the same when it is parsed again, and CRCs are those of the letter.
pub fn payloads(data: &[u8]) {
    let mut take = Take::new(data);
    while !take.is_empty() {
        let op = take.u8();
        let header = Header::from_word(take.u32());
        let mut payload: [u8; PAYLOAD_LEN] = take.octets();
        if op & 1 != 0 {
            check::repair_crc10(&mut payload);
        }
        let valid = check::crc10(&payload) == 0;
        assert_eq!(crc10_is_valid(&payload), valid);
        assert_eq!(crc10(&payload), check::crc10(&payload));
        let mut sealed = payload;
        seal_crc10(&mut sealed);
        assert!(crc10_is_valid(&sealed) && sealed[..46] == payload[..46]);
        assert_eq!(sealed == payload, valid);
        again(&payload, valid, Oam::parse, Oam::emit);
        again(&payload, valid, Rm::parse, Rm::emit);
        again(&payload, valid, SarPdu::parse, SarPdu::emit);
        for form in [HeaderForm::Uni, HeaderForm::Nni] {
            let flow = OamFlow::of(header, form).map(OamFlow::name);
            assert!(flow.is_none_or(|name| !name.is_empty()));
        }
        oam(Oam::parse(&payload).value);
        rate(payload[0], payload[1]);
        aal1(payload[0]);
        aal2(&payload);
    }
}

fn again<T: PartialEq + std::fmt::Debug>(
    payload: &[u8; PAYLOAD_LEN],
    valid: bool,
    parse: fn(&[u8; PAYLOAD_LEN]) -> Checked<T>,
    emit: fn(&T) -> [u8; PAYLOAD_LEN],
) {
    let parsed = parse(payload);
    assert_eq!(parsed.crc_valid, valid);
    let emitted = emit(&parsed.value);
    let reread = parse(&emitted);
    assert!(reread.crc_valid);
    assert_eq!(reread.value, parsed.value);
    assert_eq!(emit(&reread.value), emitted);
}

fn oam(oam: Oam) {
    assert!(!oam.name().is_empty());
    if let Oam::Loopback(loopback) = oam {
        let reply = loopback.reply();
        assert_eq!(reply.is_some(), loopback.request);
        assert!(reply.is_none_or(|reply| !reply.is_for_end_point(Some(&reply.location))));
    }
}

fn rate(high: u8, low: u8) {
    let rate = RmRate(u16::from_be_bytes([high, low]));
    let cell_s = rate.cell_s_512ths() / 512;
    if let Ok(cell_s) = u32::try_from(cell_s) {
        assert!(RmRate::at_most(cell_s).cell_s_512ths() <= u64::from(cell_s) * 512);
    }
}

fn aal1(octet: u8) {
    let (header, verdict) = Aal1Header::parse(octet);
    let emitted = header.emit();
    assert_eq!(Aal1Header::parse(emitted), (header, SnpVerdict::Valid));
    match verdict {
        SnpVerdict::Valid => assert_eq!(emitted, octet),
        SnpVerdict::Corrected { bit } => assert_eq!(emitted, octet ^ 0x80 >> bit),
        SnpVerdict::Invalid => assert!((emitted ^ octet).count_ones() > 1),
    }
}

fn aal2(payload: &[u8; PAYLOAD_LEN]) {
    let (start, valid) = StartField::parse(payload[0]);
    assert_eq!(StartField::parse(start.emit()).0, start);
    assert!(!valid || start.emit() == payload[0]);
    let octets = [payload[1], payload[2], payload[3]];
    let (packet, valid) = CpsPacketHeader::parse(octets);
    assert_eq!(CpsPacketHeader::parse(packet.emit()), (packet, true));
    assert_eq!(packet.emit() == octets, valid);
}
