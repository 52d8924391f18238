//! The CRC at every level of this CPU against a bitwise one.

use cellgate_simd::{Fold, FoldState, Kernel, Level, RESIDUE, with_features, with_level};

/// Division by the generator, a bit at a time.
fn bitwise(register: u32, octets: &[u8]) -> u32 {
    octets.iter().fold(register, |register, octet| {
        let mut register = register ^ u32::from(*octet) << 24;
        for _ in 0..8 {
            let out = register >> 31;
            register = (register << 1) ^ (out * 0x04c1_1db7);
        }
        register
    })
}

/// Octets without a pattern (a linear congruential generator).
fn octets(len: usize, seed: u64) -> Vec<u8> {
    let mut word = seed;
    let mut next = || {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (word >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

struct Resume<'a>(u32, &'a [u8]);

impl Kernel for Resume<'_> {
    type Output = u32;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> u32 {
        fold.resume(self.0, self.1)
    }
}

/// Folds the payloads one by one.
struct ByCell<'a>(&'a [u8]);

impl Kernel for ByCell<'_> {
    type Output = u32;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> u32 {
        let mut state = FoldState::default();
        fold.start(&mut state);
        for payload in self.0.as_chunks::<48>().0 {
            fold.cell(&mut state, payload);
        }
        fold.finish(&state)
    }
}

/// Folds cells of `STRIDE` octets in runs of the given length.
struct ByRun<'a, const STRIDE: usize>(&'a [[u8; STRIDE]], usize);

impl<const STRIDE: usize> Kernel for ByRun<'_, STRIDE> {
    type Output = u32;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> u32 {
        let mut state = FoldState::default();
        fold.start(&mut state);
        for run in self.0.chunks(self.1) {
            fold.cells(&mut state, run);
        }
        fold.finish(&state)
    }
}

struct WhichLevel;

impl Kernel for WhichLevel {
    type Output = Level;
    #[inline(always)]
    fn run<F: Fold>(self, _fold: F) -> Level {
        F::LEVEL
    }
}

#[test]
fn each_level_runs_its_own_fold_and_the_baseline_is_always_there() {
    assert_eq!(Level::available().next(), Some(Level::Baseline));
    for level in Level::available() {
        assert_eq!(with_level(level, WhichLevel), level);
    }
    let best = Level::available().last().unwrap();
    assert_eq!(with_level(Level::V4, WhichLevel), best);
    assert_eq!(with_features(WhichLevel), Level::chosen());
    assert!(Level::chosen() <= best);
}

#[test]
fn the_catalogue_check_value_comes_out() {
    for level in Level::available() {
        assert_eq!(
            !with_level(level, Resume(!0, b"123456789")),
            0xfc89_1918,
            "{level:?}"
        );
    }
}

#[test]
fn one_pass_of_any_length_and_register_equals_the_bitwise_crc() {
    let longest = if cfg!(miri) { 20 } else { 2_100 };
    let octets = octets(longest + 64, 1);
    for level in Level::available() {
        for len in 0..=longest {
            // An odd start: nothing may depend on alignment.
            let octets = &octets[len % 64..][..len];
            for register in [!0, 0, 0x8000_0001, 0x1234_5678] {
                let crc = with_level(level, Resume(register, octets));
                assert_eq!(
                    crc,
                    bitwise(register, octets),
                    "{level:?} {len} {register:x}"
                );
            }
        }
    }
}

#[test]
fn a_pass_may_be_resumed_anywhere() {
    let octets = octets(777, 2);
    let step = if cfg!(miri) { 390 } else { 1 };
    for level in Level::available() {
        for split in (0..=octets.len()).step_by(step) {
            let (before, after) = octets.split_at(split);
            let register = with_level(level, Resume(!0, before));
            let register = with_level(level, Resume(register, after));
            assert_eq!(register, bitwise(!0, &octets), "{level:?} {split}");
        }
    }
}

#[test]
fn cells_folded_one_by_one_or_in_runs_equal_the_bitwise_crc() {
    let most = if cfg!(miri) { 3 } else { 40 };
    let wire = octets(most * 53, 3);
    let (with_hec, without_hec) = (wire.as_chunks::<53>().0, wire.as_chunks::<52>().0);
    for level in Level::available() {
        for cells in 0..=most {
            let (a, b) = (&with_hec[..cells], &without_hec[..cells]);
            let payloads_a: Vec<u8> = a.iter().flat_map(|cell| cell[5..].to_vec()).collect();
            let payloads_b: Vec<u8> = b.iter().flat_map(|cell| cell[4..].to_vec()).collect();
            let crc_a = bitwise(!0, &payloads_a);
            assert_eq!(
                with_level(level, ByCell(&payloads_a)),
                crc_a,
                "{level:?} {cells}"
            );
            for run in 1..=cells.max(1) {
                assert_eq!(
                    with_level(level, ByRun(a, run)),
                    crc_a,
                    "{level:?} {cells}/{run}"
                );
                let crc_b = bitwise(!0, &payloads_b);
                assert_eq!(
                    with_level(level, ByRun(b, run)),
                    crc_b,
                    "{level:?} {cells}/{run}"
                );
            }
        }
    }
}

struct OneCell<'a>(&'a [u8; 48]);

impl Kernel for OneCell<'_> {
    type Output = u32;
    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> u32 {
        fold.one_cell(self.0)
    }
}

#[test]
fn the_only_cell_of_a_pdu_gives_the_bitwise_crc() {
    for level in Level::available() {
        for seed in 0..20 {
            let payload = octets(48, seed);
            let only = payload.first_chunk().expect("48 octets were made");
            let crc = with_level(level, OneCell(only));
            assert_eq!(crc, bitwise(!0, &payload), "{level:?} {seed}");
        }
    }
}

#[test]
fn a_pdu_with_its_own_crc_leaves_the_residue() {
    for level in Level::available() {
        let mut pdu = octets(96, 4);
        let crc = !bitwise(!0, &pdu[..92]);
        pdu[92..].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(with_level(level, ByCell(&pdu)), RESIDUE);
        assert_eq!(with_level(level, Resume(!0, &pdu)), RESIDUE);
    }
}

#[test]
fn a_prefetch_beyond_the_end_does_nothing() {
    struct Prefetch<'a>(&'a [u8]);
    impl Kernel for Prefetch<'_> {
        type Output = ();
        #[inline(always)]
        fn run<F: Fold>(self, fold: F) {
            for offset in [0, 63, 64, usize::MAX] {
                fold.prefetch(self.0, offset);
                fold.prefetch(&[], offset);
            }
        }
    }
    for level in Level::available() {
        with_level(level, Prefetch(&[0; 64]));
    }
}
