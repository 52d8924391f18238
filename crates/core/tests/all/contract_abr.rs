//! ABR by the rules of TM 4.0: a case for each rule, and a bug for each rule that the cases notice.

use core::cell::Cell;

use cellgate_core::Time;
use cellgate_core::contract::{
    AbrParameters, AbrPlanted, AbrRate, AbrWords, CellRate, ContractErrorKind as Kind, Cutoff,
    Destination, NextCell, Part, PrcaDestination, PrcaParameters, PrcaSource, RateReason, Source,
    Strictness, TrafficContract,
};
use cellgate_core::wire::{Rm, RmRate};

thread_local! {
    static BUG: Cell<Option<AbrPlanted>> = const { Cell::new(None) };
}

fn planted(bug: AbrPlanted) -> bool {
    BUG.get() == Some(bug)
}

fn rate(cell_s: u32) -> CellRate {
    CellRate::new(cell_s).unwrap()
}

fn cells(cell_s: u32) -> AbrRate {
    AbrRate::of_cell_s(cell_s)
}

fn ms(ms: u64) -> Time {
    Time::from_ns(ms * 1_000_000)
}

/// 16,000 cells/s at most, 1,000 at least, 4,000 at first; TBE allows 4 forward RM cells.
fn parameters() -> AbrParameters {
    AbrParameters {
        mcr: Some(rate(1_000)),
        icr: rate(4_000),
        tbe: 128,
        ..AbrParameters::new(rate(16_000))
    }
}

fn source() -> Source {
    Source::new(parameters(), planted)
}

/// An RM cell come back without a word.
fn back() -> Rm {
    Rm {
        protocol: Rm::ABR,
        backward: true,
        er: RmRate(0x7fff),
        ..Rm::default()
    }
}

type Checked = Result<(), String>;

fn same<T: PartialEq + core::fmt::Debug>(what: &str, is: T, should: T) -> Checked {
    match is == should {
        true => Ok(()),
        false => Err(format!("{what}: {is:?}, not {should:?}")),
    }
}

fn is_forward(next: NextCell) -> bool {
    matches!(next, NextCell::Forward(..))
}

/// Sends cells of data, one each `gap_ns`, and gives the places of the forward RM cells.
fn forwards(source: &mut Source, from: Time, gap_ns: u64, cells: u64) -> Vec<u64> {
    let sent = (0..cells).filter(|n| {
        let now = from.plus_ns(n * gap_ns);
        is_forward(source.next(now, true, false, planted))
    });
    sent.collect()
}

fn source_1() -> Checked {
    let mut source = source();
    for n in 0..40 {
        source.next(ms(n), true, false, planted);
        source.backward(ms(n), &back(), planted);
        // A forward RM cell for each that comes back.
        source.out_of_rate(ms(200 * n), planted);
    }
    same("at most PCR", source.rate(), cells(16_000))?;
    let lower = Rm {
        congestion: true,
        er: RmRate(0),
        ..back()
    };
    source.backward(ms(50), &lower, planted);
    same("at least MCR", source.rate(), cells(1_000))
}

fn source_2() -> Checked {
    let mut source = source();
    same("ICR", source.rate(), cells(4_000))?;
    let first = source.next(ms(0), true, true, planted);
    same("the first is a forward RM cell", is_forward(first), true)
}

fn source_3a() -> Checked {
    let mut source = source();
    let fast = forwards(&mut source, ms(0), 1_000, 100);
    same("every Nrm-th", fast, vec![0, 32, 64, 96])?;
    let mut source = self::source();
    let slow = forwards(&mut source, ms(0), 30_000_000, 10);
    same("after Trm", slow, vec![0, 4, 8])?;
    let mut source = self::source();
    let slowest = forwards(&mut source, ms(0), 400_000_000, 10);
    same("after Mrm cells", slowest, vec![0, 3, 6, 9])
}

fn source_3b_and_c() -> Checked {
    let mut source = source();
    let mut next = |data, back| source.next(ms(0), data, back, planted);
    same("forward first", is_forward(next(true, true)), true)?;
    same("one backward", next(true, true), NextCell::Backward)?;
    same("then data", next(true, true), NextCell::Data)?;
    same("no data", next(false, true), NextCell::Backward)?;
    same("nothing", next(false, false), NextCell::Nothing)
}

fn source_4() -> Checked {
    match source().next(ms(0), true, false, planted) {
        NextCell::Forward(_, clp) => same("CLP", clp, false),
        other => Err(format!("{other:?}")),
    }
}

fn source_5() -> Checked {
    let mut source = source();
    for _ in 0..8 {
        source.out_of_rate(ms(0), |_| false);
        source.next(ms(0), true, false, planted);
        source.backward(ms(0), &back(), planted);
    }
    let high = source.rate();
    same("it has risen", high > cells(4_000), true)?;
    forwards(&mut source, ms(500), 0, 40);
    same("0.5 s is not too long", source.rate(), high)?;
    forwards(&mut source, ms(1_001), 0, 40);
    same("longer is", source.rate(), cells(4_000))?;
    same("why", source.last_change(), (RateReason::Unused, ms(1_001)))?;
    let lower = Rm {
        er: RmRate::at_most(2_048),
        ..back()
    };
    source.backward(ms(1_001), &lower, planted);
    forwards(&mut source, ms(2_000), 0, 40);
    same("a lower one stays", source.rate(), cells(2_048))
}

fn source_6() -> Checked {
    let mut source = source();
    let notice = Rm {
        backward_notification: true,
        no_increase: true,
        ..back()
    };
    let mut rates = Vec::new();
    for n in 0..7 {
        forwards(&mut source, ms(n), 0, 32);
        source.backward(ms(n), &notice, planted);
        rates.push(source.rate());
    }
    // 4 without an answer change nothing, each further one costs a sixteenth.
    let mut should = vec![cells(4_000); 4];
    for _ in 0..3 {
        should.push(should[should.len() - 1].without(Part::SIXTEENTH));
    }
    same("rates", rates, should)?;
    same("why", source.last_change().0, RateReason::Silence)?;
    // The floor is reached when it is computed to be, and kept.
    let forwards_to_floor = parameters().forwards_to_floor(cells(4_000)).unwrap();
    let mut source = self::source();
    let mut sent = 0;
    while source.rate() > cells(1_000) && sent < 1_000 {
        sent += forwards(&mut source, ms(0), 0, 32).len() as u64;
    }
    same("forward RM cells to MCR", sent, forwards_to_floor)?;
    // An answer ends the silence.
    source.backward(ms(0), &back(), planted);
    same("no silence", source.unanswered(), 0)
}

fn source_7() -> Checked {
    let mut source = source();
    forwards(&mut source, ms(0), 0, 128);
    match source.next(ms(0), true, false, planted) {
        NextCell::Forward(rm, _) => {
            same("it has fallen", source.rate(), cells(3_750))?;
            same("CCR", rm.ccr, RmRate::at_most(3_750))
        }
        other => Err(format!("{other:?}")),
    }
}

fn source_8() -> Checked {
    let rated = |rm: Rm| {
        let mut source = source();
        source.next(ms(0), true, false, planted);
        source.backward(ms(3), &rm, planted);
        (source.rate(), source.last_change().0)
    };
    let up = (cells(5_000), RateReason::Increase);
    same("neither: up by RIF x PCR", rated(back()), up)?;
    let no_increase = Rm {
        no_increase: true,
        ..back()
    };
    let same_rate = (cells(4_000), RateReason::Initial);
    same("NI: as it was", rated(no_increase), same_rate)?;
    for no_increase in [false, true] {
        let congested = Rm {
            congestion: true,
            no_increase,
            ..back()
        };
        let down = (cells(3_750), RateReason::Congestion);
        same("CI: down by RDF x ACR", rated(congested), down)?;
    }
    Ok(())
}

fn source_9() -> Checked {
    for (told, rated) in [(2_048, 2_048), (16, 1_000), (4_608, 4_608), (8_192, 5_000)] {
        let mut source = source();
        source.next(ms(0), true, false, planted);
        let rm = Rm {
            er: RmRate::at_most(told),
            ..back()
        };
        source.backward(ms(3), &rm, planted);
        same("min(ACR, ER), not below MCR", source.rate(), cells(rated))?;
    }
    Ok(())
}

fn source_10() -> Checked {
    let should = Rm {
        protocol: Rm::ABR,
        er: RmRate::at_most(16_000),
        ccr: RmRate::at_most(4_000),
        mcr: RmRate::at_most(1_000),
        ..Rm::default()
    };
    match source().next(ms(0), true, false, planted) {
        NextCell::Forward(rm, _) => same("fields", rm, should),
        other => Err(format!("{other:?}")),
    }
}

fn source_11() -> Checked {
    let mut source = source();
    let sent = |now: u64| source.out_of_rate(Time::from_ns(now * 1_000_000), planted);
    let sent: Vec<_> = (0..=1_000).filter_map(sent).collect();
    same("10 a second", sent.len(), 11)?;
    same("CLP", sent.iter().all(|(_, clp)| *clp), true)
}

fn source_13() -> Checked {
    let mut source = source();
    source.next(ms(0), true, false, planted);
    let answers = (0..3).map(|_| source.backward(ms(1), &back(), planted));
    let answers: Vec<_> = answers.collect();
    same("one answers", answers, vec![true, false, false])?;
    same("each answer raises once", source.rate(), cells(5_000))?;
    let lower = Rm {
        congestion: true,
        ..back()
    };
    source.backward(ms(1), &lower, planted);
    same(
        "but any lowers",
        source.rate(),
        cells(5_000).without(Part::SIXTEENTH),
    )
}

fn forward() -> Rm {
    Rm {
        protocol: Rm::ABR,
        er: RmRate::at_most(5_000),
        ccr: RmRate::at_most(4_000),
        mcr: RmRate::at_most(1_000),
        no_increase: true,
        ..Rm::default()
    }
}

fn destination_1_and_2() -> Checked {
    let turned = |marks: &[bool], congested| {
        let mut destination = Destination::default();
        destination.forward(forward(), planted);
        for mark in marks {
            destination.data(*mark, planted);
        }
        destination.turn(congested, planted).unwrap()
    };
    let plain = Rm {
        backward: true,
        ..forward()
    };
    let told = Rm {
        congestion: true,
        ..plain
    };
    same("as it came", turned(&[], false), plain)?;
    same("EFCI of the last", turned(&[false, true], false), told)?;
    same("not of one before", turned(&[true, false], false), plain)?;
    same("congested itself", turned(&[], true), told)?;
    let mut destination = Destination::default();
    destination.data(true, planted);
    let mut both = [0, 1].map(|_| {
        destination.forward(forward(), planted);
        destination.turn(false, planted).unwrap().congestion
    });
    both.reverse();
    same("told once", both, [false, true])
}

fn destination_3_and_4() -> Checked {
    let mut destination = Destination::default();
    let [older, newer] = [7, 8].map(|sequence| Rm {
        sequence,
        ..forward()
    });
    same("first", destination.forward(older, planted), false)?;
    same("second", destination.forward(newer, planted), true)?;
    let turned = destination.turn(false, planted).map(|rm| rm.sequence);
    same("the newer one", turned, Some(8))?;
    same("once", destination.turn(false, planted), None)?;
    same("nothing waits", destination.waits(), false)
}

fn destination_5() -> Checked {
    let mut destination = Destination::default();
    let noticed = (0..=1_000).filter(|n| destination.congested(ms(*n), planted));
    same("10 a second", noticed.count(), 11)?;
    let rm = destination.turn(false, planted).unwrap();
    let bits = (rm.backward, rm.backward_notification, rm.congestion);
    same("DIR, BN, CI", bits, (true, true, true))
}

fn destination_6() -> Checked {
    let clp = [true, false].map(|in_rate| Destination::loss_priority(in_rate, planted));
    same("CLP", clp, [false, true])
}

type Rule = (&'static str, fn() -> Checked);

const RULES: [Rule; 17] = [
    ("source 1", source_1),
    ("source 2", source_2),
    ("source 3a", source_3a),
    ("source 3b, 3c", source_3b_and_c),
    ("source 4", source_4),
    ("source 5", source_5),
    ("source 6", source_6),
    ("source 7", source_7),
    ("source 8", source_8),
    ("source 9", source_9),
    ("source 10", source_10),
    ("source 11", source_11),
    ("source 13", source_13),
    ("destination 1, 2", destination_1_and_2),
    ("destination 3, 4", destination_3_and_4),
    ("destination 5", destination_5),
    ("destination 6", destination_6),
];

#[test]
fn each_rule_holds() {
    BUG.set(None);
    for (rule, holds) in RULES {
        assert_eq!(holds(), Ok(()), "{rule}");
    }
}

#[test]
fn each_rule_that_is_broken_is_noticed() {
    for bug in AbrPlanted::ALL {
        BUG.set(Some(*bug));
        let noticed = RULES.iter().filter(|(_, holds)| holds().is_err());
        assert!(noticed.count() > 0, "{bug:?} is not noticed");
    }
    BUG.set(None);
}

#[test]
fn a_rate_is_exact() {
    // An increase by the least part of a rate of whole cells is no less.
    let least = cells(1).part(Part::LEAST);
    assert_eq!(least.raw(), 1 << 9);
    let sum = (0..32_768).fold(AbrRate::ZERO, |sum, _| sum.plus(least));
    assert_eq!(sum, cells(1));
    // A decrease is rounded up: what is left comes to nothing.
    let mut rate = cells(1_000_000);
    let mut steps = 0;
    while rate > AbrRate::ZERO {
        let less = rate.without(Part::SIXTEENTH);
        assert!(less < rate && less.raw() * 16 <= rate.raw() * 15);
        (rate, steps) = (less, steps + 1);
    }
    assert!(steps < 1_000, "{steps}");
    // Every rate of an RM cell is itself, and others are rounded down.
    for bits in (0x4000..0x8000).step_by(7) {
        let told = RmRate(bits);
        assert_eq!(AbrRate::of_rm(told).to_rm(), told);
        assert_eq!(AbrRate::of_rm(told).plus(least).to_rm(), told);
    }
    assert_eq!(AbrRate::ZERO.to_rm(), RmRate(0));
    assert_eq!(cells(u32::MAX).cell_s(), u32::MAX);
    assert_eq!(Part::one_of(3), None);
    assert_eq!(Part::one_of(65_536), None);
}

#[test]
fn the_initial_rate_is_what_the_network_can_hold() {
    let icr = |icr: u32, tbe, frtt_ns| {
        AbrParameters::icr_for(rate(icr), CellRate::new(100), tbe, frtt_ns).cell_s()
    };
    assert_eq!(icr(5_000, 1_000, 0), 5_000, "no round trip is known");
    assert_eq!(icr(5_000, 1_000, 1_000_000_000), 1_000, "TBE / FRTT");
    assert_eq!(icr(5_000, 1_000, 100_000_000), 5_000);
    assert_eq!(icr(5_000, 0, 100_000_000), 100, "no less than MCR");
}

#[test]
fn prca_falls_with_each_cell_and_is_restored_by_rm_cells() {
    let parameters = PrcaParameters {
        pcr: rate(65_536),
        mcr: Some(rate(64)),
        icr: rate(32_768),
        n: 32,
        air: Part::one_of(1024).unwrap(),
        mdf: Part::one_of(256).unwrap(),
    };
    let mut source = PrcaSource::new(parameters);
    // One of 32 asks.
    let asks: Vec<u32> = (0..96).filter(|_| !source.cell()).collect();
    assert_eq!(asks, [0, 32, 64]);
    // 96 cells at 32,768 / 256 each.
    assert_eq!(source.rate(), cells(32_768 - 96 * 128));
    // What 32 of them cost comes back, and 32 / 1024 of PCR beside.
    source.rm();
    assert_eq!(source.rate(), cells(32_768 - 64 * 128 + 2_048));
    // No RM cells: down to MCR, and no further.
    let fallen = (0..100_000).position(|_| {
        source.cell();
        source.rate() == cells(64)
    });
    assert!(fallen.is_some_and(|cells| cells < 300), "{fallen:?}");
    source.cell();
    assert_eq!(source.rate(), cells(64));
    // A receiver that sees no mark restores it, up to PCR; one that does, does not.
    for _ in 0..10_000 {
        let marked = source.cell();
        if PrcaDestination.data(marked) {
            source.rm();
        }
    }
    assert!(source.rate() > cells(60_000), "{:?}", source.rate());
    for _ in 0..10_000 {
        source.cell();
        if PrcaDestination.data(true) {
            source.rm();
        }
    }
    assert_eq!(source.rate(), cells(64));
}

#[test]
fn words_of_abr_have_their_ranges() {
    let words = |text: &str| {
        text.parse::<TrafficContract>()
            .unwrap()
            .transmit
            .unwrap()
            .abr
    };
    let text = "abr,aal5:pcr=1000,icr=64,rif=1/32,rdf=1,cdf=0,nrm=16,trm=50ms,adtf=1s,tbe=0,\
                frtt=200us";
    let read = AbrWords {
        icr: CellRate::new(64),
        rif: Part::one_of(32),
        rdf: Part::one_of(1),
        cdf: Some(Cutoff::Never),
        nrm: Some(16),
        trm_ns: Some(50_000_000),
        adtf_ns: Some(1_000_000_000),
        tbe: Some(0),
        frtt_ns: Some(200_000),
    };
    assert_eq!(words(text), read);
    assert_eq!(
        words("abr:cdf=1/64").cdf,
        Part::one_of(64).map(Cutoff::Part)
    );
    assert_eq!(words("abr"), AbrWords::default());
    let refused = |text: &str| {
        let error = text.parse::<TrafficContract>().unwrap_err();
        (error.at, error.kind)
    };
    for (text, kind) in [
        ("abr:rif=0", Kind::ExpectedPart),
        ("abr:rif=1/3", Kind::ExpectedPart),
        ("abr:rdf=1/65536", Kind::ExpectedPart),
        ("abr:rdf=2/4", Kind::ExpectedPart),
        ("abr:rdf=", Kind::ExpectedPart),
        ("abr:cdf=1/128", Kind::CutoffRange),
        ("abr:nrm=1", Kind::NrmRange),
        ("abr:nrm=48", Kind::NrmRange),
        ("abr:nrm=512", Kind::NrmRange),
        ("abr:trm=101ms", Kind::TrmRange),
        ("abr:trm=781us", Kind::TrmRange),
        ("abr:adtf=9ms", Kind::AdtfRange),
        ("abr:adtf=11s", Kind::AdtfRange),
        ("abr:tbe=16777216", Kind::TbeRange),
        ("abr:tbe=", Kind::TbeRange),
        ("abr:frtt=17s", Kind::FrttRange),
        ("abr:icr=0", Kind::NoRate),
    ] {
        let at = text.find('=').unwrap() + 1;
        assert_eq!(refused(text), (at, kind), "{text}");
    }
    assert_eq!(refused("ubr:pcr=10,rif=1/16"), (11, Kind::NotAbr));
    assert!(TrafficContract::parse("abr:rif=1/16", Strictness::Strict).is_err());
}
