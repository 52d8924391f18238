//! The header of a CPCS-SDU: its octets, and what it finds.

use cellgate_core::aal::tree::Place;
use cellgate_core::terminal::{Kind, Pci, PciError};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const PCI: Pci = Pci {
    kind: Kind::Data,
    place: Place::Last,
    sequence: 0x0001_0203,
    transfer: 0x0405,
    serial: 0x0607,
    run: 0x0809_0a0b,
    offset: 0x0c0d_0e0f_1011_1213,
    length: 0x1415,
};

/// The remainder of the polynomial division, bit by bit.
fn bitwise_crc(octets: &[u8]) -> u16 {
    let mut register = u16::MAX;
    for bit in octets
        .iter()
        .flat_map(|octet| (0..8).rev().map(move |at| octet >> at & 1))
    {
        let out = register >> 15 ^ u16::from(bit);
        register = (register << 1) ^ (out * 0x1021);
    }
    register
}

/// As `octets`, with a check that matches.
fn sealed(mut octets: [u8; Pci::LEN]) -> [u8; Pci::LEN] {
    let check = bitwise_crc(&octets[..22]).to_be_bytes();
    octets[22..].copy_from_slice(&check);
    octets
}

fn random(rng: &mut Pcg64Mcg) -> Pci {
    Pci {
        kind: if rng.next_u32() & 1 == 0 {
            Kind::Data
        } else {
            Kind::Control
        },
        place: Place::ALL[rng.next_u32() as usize % 4],
        transfer: rng.next_u32() as u16,
        run: rng.next_u32(),
        sequence: rng.next_u32() % Pci::SEQUENCES,
        serial: rng.next_u32() as u16,
        offset: rng.next_u64(),
        length: rng.next_u32() as u16,
    }
}

#[test]
fn a_pci_has_its_octets() {
    let mut octets = [0; Pci::LEN];
    octets[0] = 0x12;
    for (octet, value) in octets[1..22].iter_mut().zip(1..) {
        *octet = value;
    }
    assert_eq!(PCI.emit(), sealed(octets));
    let control = Pci {
        kind: Kind::Control,
        place: Place::First,
        ..PCI
    };
    octets[0] = 0x15;
    assert_eq!(control.emit(), sealed(octets));
}

#[test]
fn every_pci_comes_back() {
    let mut rng = Pcg64Mcg::new(1);
    for _ in 0..10_000 {
        let pci = random(&mut rng);
        assert_eq!(Pci::parse(&pci.emit()), Ok(pci));
    }
}

#[test]
fn up_to_three_wrong_bits_and_any_burst_of_sixteen_are_found() {
    let good = PCI.emit();
    let bits = 8 * Pci::LEN;
    let flipped = |wrong: &[usize]| {
        let mut octets = good;
        for bit in wrong {
            octets[bit / 8] ^= 0x80 >> (bit % 8);
        }
        Pci::parse(&octets)
    };
    for a in 0..bits {
        assert_eq!(flipped(&[a]), Err(PciError::Check));
        for b in a + 1..bits {
            assert_eq!(flipped(&[a, b]), Err(PciError::Check));
        }
    }
    let mut rng = Pcg64Mcg::new(2);
    for _ in 0..20_000 {
        let first = rng.next_u32() as usize % (bits - 16);
        let three = [
            first,
            first + 1 + rng.next_u32() as usize % 7,
            bits - 1 - first % 8,
        ];
        if three[0] != three[2] && three[1] != three[2] {
            assert_eq!(flipped(&three), Err(PciError::Check));
        }
        let burst: Vec<_> = (0..16)
            .filter(|_| rng.next_u32() & 1 == 0)
            .map(|i| first + i)
            .collect();
        if !burst.is_empty() {
            assert_eq!(flipped(&burst), Err(PciError::Check), "{burst:?}");
        }
    }
    assert_eq!(Pci::parse(&[0; Pci::LEN]), Err(PciError::Check));
    assert_eq!(Pci::parse(&[0xff; Pci::LEN]), Err(PciError::Check));
}

#[test]
fn what_nobody_knows_is_refused() {
    let good = PCI.emit();
    for first in (0..=u8::MAX).filter(|first| !(0x10..=0x17).contains(first)) {
        let mut octets = good;
        octets[0] = first;
        assert_eq!(Pci::parse(&sealed(octets)), Err(PciError::Unknown));
    }
}

#[test]
fn no_payload_ends_beyond_what_can_be_counted() {
    let at = |offset| Pci {
        offset,
        length: 2,
        ..PCI
    };
    assert_eq!(at(u64::MAX - 2).end(), Some(u64::MAX));
    assert_eq!(at(u64::MAX - 1).end(), None);
}
