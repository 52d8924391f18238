//! Bursts, buffers and credits: paper 003's worked examples, and what they must hold.

use cellgate_core::contract::{
    CellRate, Jitter, Lateness, PduStream, Strictness, TrafficContract, aal5_cells,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Paper 003's Mbps in its examples.
const MIB_S: u64 = 1 << 20;

fn rate(cell_s: u32) -> CellRate {
    CellRate::new(cell_s).unwrap()
}

/// 125 and 93.75 Mbps of 8,192-octet packets with a tolerance of 2 ms (section 2.4).
fn worked_example(mbps: u64) -> PduStream {
    let sdu = 8_192;
    PduStream {
        peak: CellRate::for_sdu_rate(125 * mbps, sdu).unwrap(),
        sustained: CellRate::for_sdu_rate(9_375 * mbps / 100, sdu).unwrap(),
        sdu,
        cells: 171,
        dvt_ns: 2_000_000,
    }
}

#[test]
fn the_worked_example_has_a_burst_of_13_and_24_kb() {
    let stream = worked_example(MIB_S);
    // D = 1/2 ms and T = 2/3 ms are whole cells/s.
    assert_eq!(stream.peak, rate(342_000));
    assert_eq!(stream.sustained, rate(256_500));
    assert_eq!(stream.burst_pdus(), Some(13));
    assert_eq!(stream.buffer_pdus_printed(), 3);
    assert_eq!(stream.buffer_octets_printed(), 24_576);
    // With 10^6 for Mbps the printed burst does not come out.
    assert_eq!(worked_example(1_000_000).burst_pdus(), Some(12));
}

#[test]
fn the_receive_buffer_has_room_for_the_pdu_being_read_and_for_lateness() {
    let stream = worked_example(MIB_S);
    assert_eq!(stream.buffer_pdus(Lateness::default()), 4);
    // 171 cells are 8,208 octets, 8,256 with the next PDU on a multiple of 64.
    assert_eq!(stream.pdu_octets(), 8_256);
    assert_eq!(stream.buffer_octets(Lateness::default()), 4 * 8_256);
    let late = Lateness {
        cdv_ns: 250_000,
        wake_up_ns: 1_000_000,
        coalescing_ns: 83_333,
    };
    // 3.333333 ms are 4.9999995 T.
    assert_eq!(stream.buffer_pdus(late), 6);
    let late = Lateness {
        coalescing_ns: 83_334,
        ..late
    };
    assert_eq!(stream.buffer_pdus(late), 7);
}

#[test]
fn no_conforming_burst_overflows_the_buffer() {
    let mut random = Pcg64Mcg::seed_from_u64(20);
    let mut eq_2_too_small = 0;
    for _ in 0..2_000 {
        let peak = 2 + random.next_u32() % 400_000;
        let sustained = 1 + random.next_u32() % (peak - 1);
        let stream = PduStream {
            peak: rate(peak),
            sustained: rate(sustained),
            sdu: 1 + random.next_u32() % 65_535,
            cells: 1 + random.next_u32() % 1_366,
            dvt_ns: random.next_u64() % 50_000_000,
        };
        let burst = stream.burst_pdus().unwrap().min(5_000);
        // PDU k comes k D after the first; by then floor(k D / T) were read to their end.
        let waiting = |k: u64| k + 1 - k * u64::from(sustained) / u64::from(peak);
        let most = (0..burst).map(waiting).max().unwrap();
        assert!(most <= stream.buffer_pdus(Lateness::default()));
        eq_2_too_small += u32::from(most > stream.buffer_pdus_printed());
    }
    assert!(eq_2_too_small > 500, "Equation 2 is one PDU short");
}

#[test]
fn bursts_are_those_that_the_tolerance_allows() {
    let mut random = Pcg64Mcg::seed_from_u64(21);
    for _ in 0..5_000 {
        let peak = 2 + random.next_u32() % 400_000;
        let sustained = 1 + random.next_u32() % (peak - 1);
        let sdu = 1 + random.next_u32() % 9_180;
        let stream = PduStream {
            peak: rate(peak),
            sustained: rate(sustained),
            sdu,
            cells: aal5_cells(sdu),
            dvt_ns: random.next_u64() % 1_000_000_000,
        };
        // The k-th PDU of a burst is k (T - D) early: in units of 1/(peak sustained) ns.
        let scale = u128::from(peak) * u128::from(sustained);
        let cells = u128::from(aal5_cells(sdu));
        let step = cells * u128::from(peak - sustained) * 1_000_000_000;
        let tolerance = u128::from(stream.dvt_ns) * scale;
        let last = u128::from(stream.burst_pdus().unwrap() - 1);
        assert!(last * step <= tolerance && tolerance < (last + 1) * step);
    }
    let constant = PduStream {
        peak: rate(5),
        sustained: rate(5),
        sdu: 40,
        cells: 1,
        dvt_ns: 1,
    };
    assert_eq!(constant.burst_pdus(), None);
}

/// The writers of Table 2: octets/s as whole cells of 48 octets.
fn table_2(octet_s: u32, sdu: u32) -> PduStream {
    let rate = rate(octet_s / 48);
    PduStream {
        peak: rate,
        sustained: rate,
        sdu,
        cells: aal5_cells(sdu),
        dvt_ns: 0,
    }
}

#[test]
fn the_credits_of_table_2_come_out_as_printed() {
    let printed = |stream: PduStream| {
        let credit = stream.credit_printed(Jitter::Default);
        (credit.interval_ns(), credit.octets())
    };
    let first = printed(table_2(8_000_000, 8_192));
    assert_eq!(first, (10_000_000, 79_990));
    let second = printed(table_2(3_000_000, 4_096));
    assert_eq!(second, (13_000_000, 39_000));
}

#[test]
fn a_credit_is_whole_pdus_and_its_interval_their_time() {
    for (jitter, pdus) in [(Jitter::Low, 2), (Jitter::Default, 10), (Jitter::High, 50)] {
        let credit = worked_example(MIB_S).credit(jitter);
        assert_eq!(credit.octets(), pdus * 8_192);
        // T = 2/3 ms, rounded up together.
        assert_eq!(credit.interval_ns(), (pdus * 2_000_000).div_ceil(3));
    }
    let whole = table_2(48 * 171_000, 8_192).credit(Jitter::Default);
    assert_eq!((whole.interval_ns(), whole.octets()), (10_000_000, 81_920));
}

#[test]
fn extremes_saturate_and_do_not_overflow() {
    let extremes = [1, 2, u32::MAX - 1, u32::MAX];
    for peak in extremes {
        for sustained in extremes {
            for sdu in [1, 40, 41, 65_535, u32::MAX] {
                for dvt_ns in [0, 1, u64::MAX] {
                    let stream = PduStream {
                        peak: rate(peak),
                        sustained: rate(sustained),
                        sdu,
                        cells: [0, u32::MAX, aal5_cells(sdu)][sdu as usize % 3],
                        dvt_ns,
                    };
                    assert_eq!(stream.burst_pdus().is_some(), peak > sustained);
                    assert!(stream.buffer_octets_printed() >= stream.buffer_pdus_printed());
                    let late = Lateness {
                        cdv_ns: u64::MAX,
                        wake_up_ns: u64::MAX,
                        coalescing_ns: u64::MAX,
                    };
                    assert!(stream.buffer_octets(late) >= stream.pdu_octets());
                    assert!(rate(peak).sdu_bit_s(sdu) > 0 || sdu < 48);
                }
            }
        }
    }
}

#[test]
fn sdu_rates_round_up_to_cells_and_back_down() {
    assert_eq!(
        CellRate::for_sdu_rate(40_000_000, 8_192),
        CellRate::new(104_371)
    );
    assert_eq!(CellRate::for_sdu_rate(0, 8_192), None);
    assert_eq!(CellRate::for_sdu_rate(1, 0), None);
    assert_eq!(CellRate::for_sdu_rate(u64::MAX, 1), None);
    for (sdu, cells) in [
        (40, 1),
        (41, 2),
        (512, 11),
        (1_024, 22),
        (1_500, 32),
        (4_096, 86),
        (8_192, 171),
        (9_180, 192),
        (65_535, 1_366),
        (u32::MAX, 89_478_486),
    ] {
        assert_eq!(aal5_cells(sdu), cells);
    }
    let mut random = Pcg64Mcg::seed_from_u64(23);
    for _ in 0..10_000 {
        let sdu = 1 + random.next_u32() % 65_535;
        let bit_s = 1 + random.next_u64() % 1_000_000_000;
        let cells = CellRate::for_sdu_rate(bit_s, sdu).unwrap();
        assert!(cells.sdu_bit_s(sdu) >= bit_s, "a contract is never less");
        if let Some(less) = CellRate::new(cells.cell_s() - 1) {
            assert!(less.sdu_bit_s(sdu) < bit_s, "nor a cell more than needed");
        }
    }
}

#[test]
fn a_descriptor_says_its_stream_and_burst_tolerance() {
    let text = "vbr:pcr=342000,scr=256500,mbs=2223,dvt=2ms,sdu=8192";
    let contract = TrafficContract::parse(text, Strictness::Extended).unwrap();
    let descriptor = contract.receive.unwrap();
    assert_eq!(descriptor.pdus(CellRate::OC3, 1_500), worked_example(MIB_S));
    // (2223 - 1)(1/256500 - 1/342000) s = 2,165,692.007 ns.
    assert_eq!(descriptor.burst_tolerance_ns(CellRate::OC3), 2_165_693);

    let silent = TrafficContract::parse("cbr", Strictness::Strict).unwrap();
    let stream = silent.receive.unwrap().pdus(CellRate::OC3, 1_500);
    assert_eq!(
        (stream.peak, stream.sustained),
        (CellRate::OC3, CellRate::OC3)
    );
    assert_eq!((stream.sdu, stream.dvt_ns), (1_500, 0));
    assert_eq!(stream.buffer_pdus(Lateness::default()), 1);

    let faster = TrafficContract::parse("vbr:pcr=10,scr=20,mbs=5", Strictness::Extended);
    let faster = faster.unwrap().receive.unwrap();
    assert_eq!(faster.sustained(CellRate::OC3), rate(10));
    assert_eq!(faster.burst_tolerance_ns(CellRate::OC3), 0);
}
