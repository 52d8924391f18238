//! The text of contracts: libatm's answers, our additions, and the places of mistakes.

use core::num::NonZeroU32;

use cellgate_core::contract::{
    Aal, AbrWords, CellRate, ContractError, ContractErrorKind as Kind, Cutoff, Excess, Jitter,
    Part, Peak, Police, ServiceCategory, Strictness, TrafficContract, TrafficDescriptor,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const ORACLE: &str = include_str!("../data/text2qos-oracle.txt");
const BOTH: [Strictness; 2] = [Strictness::Strict, Strictness::Extended];

fn strict(text: &str) -> TrafficContract {
    TrafficContract::parse(text, Strictness::Strict).unwrap()
}

fn extended(text: &str) -> TrafficContract {
    TrafficContract::parse(text, Strictness::Extended).unwrap()
}

/// One direction as the oracle prints it.
fn oracle_direction(
    category: ServiceCategory,
    descriptor: Option<TrafficDescriptor>,
    name: &str,
) -> String {
    let peak = |peak| match peak {
        None => 0,
        Some(Peak::Max) => -1,
        Some(Peak::Rate(rate)) => i64::from(rate.cell_s()),
    };
    let Some(descriptor) = descriptor else {
        return format!("{name}[cl=0 max=0 pcr=0 min=0 sdu=0]");
    };
    let class = match category {
        ServiceCategory::Ubr => 1,
        ServiceCategory::Cbr => 2,
        ServiceCategory::Abr => 4,
        other => panic!("libatm has no {other:?}"),
    };
    format!(
        "{name}[cl={class} max={} pcr={} min={} sdu={}]",
        peak(descriptor.max_pcr),
        peak(descriptor.pcr),
        peak(descriptor.min_pcr.map(Peak::Rate)),
        descriptor.max_sdu.map_or(0, NonZeroU32::get),
    )
}

/// What the oracle would print of this text.
fn oracle_line(text: &str) -> String {
    let Ok(contract) = TrafficContract::parse(text, Strictness::Strict) else {
        return "ERR".to_owned();
    };
    let aal = match contract.aal {
        None => 0,
        Some(Aal::Aal0) => 13,
        Some(Aal::Aal5) => 5,
        Some(Aal::Aal34) => panic!("libatm has no AAL3/4"),
    };
    format!(
        "{} {} aal={aal} -> {}",
        oracle_direction(contract.category, contract.transmit, "tx"),
        oracle_direction(contract.category, contract.receive, "rx"),
        contract.libatm_text().as_deref().unwrap_or("qos2text ERR"),
    )
}

#[test]
fn answers_every_line_of_the_oracle_as_libatm() {
    let mut cases = 0;
    for line in ORACLE.lines().filter(|line| !line.starts_with('#')) {
        // Texts with spaces end where the wide gap begins.
        let (text, answer) = line.split_once("   ").unwrap();
        assert_eq!(oracle_line(text), answer.trim_start(), "{text}");
        cases += 1;
    }
    assert!(cases >= 33, "only {cases} cases read");
}

#[test]
fn reads_numbers_as_strtoul_does() {
    for (text, canonical) in [
        ("cbr:pcr=", "cbr"),
        ("cbr:pcr=,sdu=5", "cbr:max_sdu=5"),
        ("cbr:pcr= 7", "cbr:pcr=7"),
        ("cbr:pcr=2147483647", "cbr:pcr=2147483647"),
        (
            "cbr:tx:pcr=max,max_pcr=64",
            // qos2text itself garbles a `max` in second place; this is what it means to print.
            "cbr:tx:max_pcr=64,pcr=max",
        ),
        ("cbr:pcr=+7", "cbr:pcr=7"),
        ("cbr:pcr=4294967295bps", "cbr:pcr=11184810"),
        ("cbr:pcr=1.12345678", "cbr:pcr=1"),
        ("cbr:pcr=1.,sdu=1", "cbr:pcr=1,max_sdu=1"),
        ("ubr:tx:rx:none", "ubr:rx:none"),
        ("ubr:tx:none,", "ubr:tx:none"),
        ("ubr:tx:nonerx:sdu=9", "ubr:tx:none,rx:max_sdu=9"),
        ("cbr:tx:pcr=5,rx:pcr=0", "cbr:tx:pcr=5"),
        ("cbr:pcr=5,tx:none", "cbr:tx:none,rx:pcr=5"),
        (
            "cbr:pcr=5,tx:max_pcr=7,sdu=2,rx:pcr=5",
            "cbr:pcr=5,tx:max_pcr=7,max_sdu=2",
        ),
    ] {
        let contract = strict(text);
        assert_eq!(contract.libatm_text().as_deref(), Some(canonical), "{text}");
        assert_eq!(extended(text), contract);
    }
}

#[test]
fn numbers_wrap_in_strict_alone() {
    // What libatm makes of a text, and what is written there, if it fits.
    for (text, libatm, written) in [
        (
            "cbr:pcr=4.3Gbps",
            Some("cbr:pcr=13106"),
            Ok("cbr:pcr=11197916"),
        ),
        ("cbr:pcr=10Gbps", None, Ok("cbr:pcr=26041666")),
        ("cbr:pcr=10000Mbps", None, Ok("cbr:pcr=26041666")),
        ("cbr:pcr=4294968kbps", None, Ok("cbr:pcr=11184812")),
        (
            "cbr:pcr=4294967.9kbps",
            Some("cbr:pcr=1"),
            Ok("cbr:pcr=11184812"),
        ),
        ("cbr:pcr=1.123456789Mbps", None, Ok("cbr:pcr=2925")),
        (
            "cbr:pcr=1.12345678Mbps",
            Some("cbr:pcr=2925"),
            Ok("cbr:pcr=2925"),
        ),
        ("cbr:pcr=0.0000000000000000001Gbps", None, Ok("cbr")),
        ("cbr:pcr=1.9999999999999999999cps", None, Ok("cbr:pcr=1")),
        ("cbr:pcr=.5Mbps", Some("cbr:pcr=1302"), Ok("cbr:pcr=1302")),
        (
            "cbr:pcr=000000000000000000000000000007",
            Some("cbr:pcr=7"),
            Ok("cbr:pcr=7"),
        ),
        (
            "cbr:pcr=0000000000000000000000000.384kbps",
            Some("cbr:pcr=1"),
            Ok("cbr:pcr=1"),
        ),
        (
            "cbr:pcr=824633720831bps",
            Some("cbr:pcr=11184810"),
            Ok("cbr:pcr=2147483647"),
        ),
        ("cbr:pcr=824633720832bps", Some("cbr"), Err(8)),
        ("cbr:pcr=2.147483647Gcps", None, Ok("cbr:pcr=2147483647")),
        ("cbr:pcr=2.147483648Gcps", None, Err(8)),
        ("cbr:pcr=4294967297", Some("cbr:pcr=1"), Err(8)),
        ("cbr:pcr=18446744073709551616", None, Err(8)),
        ("cbr:pcr=18446744073709551616Gbps", None, Err(8)),
        (
            "cbr:pcr=99999999999999999999999999999bps",
            Some("cbr:pcr=11184810"),
            Err(8),
        ),
        ("cbr:pcr=-4294967295", Some("cbr:pcr=1"), Err(8)),
        ("cbr:max_pcr=-1bps", Some("cbr:max_pcr=11184810"), Err(12)),
        ("cbr:pcr=-0", Some("cbr"), Ok("cbr")),
        (
            "cbr:min_pcr=4294967295bps",
            Some("cbr"),
            Ok("cbr:min_pcr=11184811"),
        ),
        (
            "cbr:min_pcr=4.3Gbps",
            Some("cbr:min_pcr=13106"),
            Ok("cbr:min_pcr=11197917"),
        ),
        ("cbr:tx:pcr=1,rx:pcr=4294967297", Some("cbr:pcr=1"), Err(20)),
        ("cbr:sdu=4294967297", Some("cbr:max_sdu=1"), Err(8)),
        ("cbr:sdu=2147483648", None, Err(8)),
        (
            "cbr:sdu=2147483647",
            Some("cbr:max_sdu=2147483647"),
            Ok("cbr:max_sdu=2147483647"),
        ),
        ("cbr:sdu=18446744073709551617", None, Err(8)),
        ("cbr:max_sdu=-4294967295", Some("cbr:max_sdu=1"), Err(12)),
    ] {
        let strict = TrafficContract::parse(text, Strictness::Strict).ok();
        assert_eq!(
            strict.map(|contract| contract.to_string()).as_deref(),
            libatm,
            "{text}"
        );
        let read = TrafficContract::parse(text, Strictness::Extended);
        let read = read.map(|contract| contract.to_string());
        let read = read.as_deref().map_err(|error| error.at);
        assert_eq!(read, written, "{text}");
    }
}

#[test]
fn numbers_of_our_own_words_are_what_is_written() {
    for (text, written) in [
        ("scr=824633720831bps", Ok("scr=2147483647")),
        ("scr=824633720832bps", Err(8)),
        ("scr=4.3Gbps", Ok("scr=11197916")),
        ("scr=-1", Err(8)),
        ("scr=0.5cps", Err(8)),
        ("scr=1e6", Err(9)),
        ("mbs=4294967295", Ok("mbs=4294967295")),
        ("mbs=4294967296", Err(8)),
        ("mbs=18446744073709551617", Err(8)),
        ("mbs=0000000000000000000000001", Ok("mbs=1")),
        ("mbs=-1", Err(8)),
        ("mbs=1.5", Err(9)),
        ("mbs=1k", Err(9)),
        (
            "cdvt=18446744073709551615ns",
            Ok("cdvt=18446744073709551615ns"),
        ),
        (
            "cdvt=18446744073.709551615s",
            Ok("cdvt=18446744073709551615ns"),
        ),
        ("cdvt=18446744073.709551616s", Err(9)),
        ("cdvt=18446744073709551616ns", Err(9)),
        ("cdvt=1.0000000000000s", Ok("cdvt=1s")),
        ("cdvt=1.0000000001s", Err(9)),
        ("cdvt=0.0000001us", Err(9)),
        ("cdvt=1.5000ms", Ok("cdvt=1500us")),
        ("cdvt=00000000000000000000000250us", Ok("cdvt=250us")),
        ("cdvt=1e3ns", Err(10)),
        ("cdvt=+1ms", Err(9)),
        ("cdvt=-1ms", Err(9)),
        ("dvt=1.ms", Ok("dvt=1ms")),
        ("dvt=.1ms", Err(8)),
    ] {
        let read = format!("vbr:{text}").parse::<TrafficContract>();
        let read = read.map(|contract| contract.to_string());
        let read = read.map_err(|error| error.at);
        let written = written.map(|written| format!("vbr:{written}"));
        assert_eq!(read, written, "{text}");
    }
}

#[test]
fn mistakes_tell_all_that_can_be_typed() {
    for strictness in BOTH {
        for (before, wrong) in [
            ("", "gfr"),
            ("aal5,", "gfr"),
            ("cbr:", "foo=3"),
            ("cbr:pcr=3,", "foo=3"),
            ("cbr:", ""),
            ("cbr:tx:", ""),
            ("cbr:tx:pcr=3,", "foo=3"),
            ("cbr:rx:", ""),
            ("cbr:rx:pcr=3,", "foo=3"),
            ("cbr:tx:none,", "foo=3"),
        ] {
            let error = |word: &str| {
                let text = format!("{before}{word}");
                let parsed = TrafficContract::parse(&text, strictness);
                parsed.err().filter(|error| error.at <= before.len())
            };
            let told = error(wrong).unwrap().kind.to_string();
            let words = [
                "ubr",
                "cbr",
                "abr",
                "vbr",
                "rt-vbr",
                "nrt-vbr",
                "aal0",
                "aal34",
                "aal5",
                "pcr=1",
                "max_pcr=1",
                "min_pcr=1",
                "scr=1",
                "mbs=1",
                "max_sdu=1",
                "sdu=1",
                "cdvt=1ms",
                "dvt=1ms",
                "jitter=low",
                "police=cell",
                "excess=tag",
                "tx:pcr=1",
                "rx:pcr=1",
            ];
            for word in words {
                let can_stand = error(word).is_none();
                let name = word.find(['=', ':']).map_or(word, |at| &word[..=at]);
                let tells = told.split([' ', ',', ';']).any(|told| told == name);
                assert_eq!(tells, can_stand, "{before}{word} in {strictness:?}: {told}");
            }
        }
    }
}

/// The place and the kind, whatever words it tells.
fn assert_mistake(error: ContractError, at: usize, kind: Kind, text: &str) {
    let kinds = [error.kind, kind].map(|kind| std::mem::discriminant(&kind));
    assert!(kinds[0] == kinds[1] && error.at == at, "{text:?}: {error}");
}

#[test]
fn points_at_the_mistake() {
    use Kind::*;
    for (text, at, kind) in [
        ("", 0, ExpectedCategory("")),
        ("none", 0, ExpectedCategory("")),
        ("aal5", 4, NoCategory("")),
        ("ubr,", 4, ExpectedCategory("")),
        ("cbr,,aal5", 4, ExpectedCategory("")),
        ("ubr,aal3", 4, ExpectedCategory("")),
        ("cbr : pcr=3", 3, ExpectedColon),
        ("ubr:", 4, ExpectedParameter("")),
        ("ubr:tx:pcr=5,", 13, ExpectedParameter("")),
        ("cbr:rate=3", 4, UnknownParameter("")),
        ("cbr:pcr=3,rate=3", 10, UnknownParameter("")),
        ("cbr:tx:pcr=3,rate=3", 13, UnknownParameter("")),
        ("cbr:tx:none,pcr=3", 12, ExpectedReceive),
        ("cbr:rx:pcr=3,rate=3", 13, UnknownParameter("")),
        ("cbr:pcr=1.5k", 12, NoUnit),
        ("cbr:pcr=10M,sdu=4", 11, NoUnit),
        ("cbr:pcr=10kbit", 11, NoUnit),
        ("cbr:pcr=10bit", 10, ExpectedComma),
        ("cbr:pcr=2147483648", 8, RateRange),
        ("cbr:pcr=4294967295", 8, RateRange),
        ("cbr:pcr=MAX", 9, NoUnit),
        ("cbr:pcr=10Kbit", 11, NoUnit),
        ("cbr:pcr=10kCPS", 11, NoUnit),
        ("cbr:pcr=10BPS", 10, ExpectedComma),
        ("cbr:max_pcr=-1", 12, RateRange),
        ("cbr:pcr=9Gcps", 8, RateRange),
        ("cbr:min_pcr=max", 12, MaxRate),
        ("cbr:sdu=-1", 8, SduRange),
        ("cbr:rx:pcr=3,tx:pcr=4", 13, TransmitAfterReceive),
        ("cbr:rx:nonesuch", 11, ExpectedComma),
        ("cbr:pcr=3\u{00e9}", 9, ExpectedComma),
        ("cbr\0", 3, ExpectedColon),
    ] {
        for strictness in BOTH {
            let error = TrafficContract::parse(text, strictness).unwrap_err();
            assert_mistake(error, at, kind, text);
        }
    }
    for (text, at, kind) in [
        ("vbr:scr=3", 0, VbrInStrict),
        ("aal5,nrt-vbr", 5, VbrInStrict),
        ("cbr,aal34", 4, ExpectedCategory("")),
        ("cbr:pcr=4,scr=3", 10, UnknownParameter("")),
        ("cbr:jitter=low", 4, UnknownParameter("")),
        ("cbr:pcr=1.123456789", 18, ExpectedComma),
    ] {
        let error = TrafficContract::parse(text, Strictness::Strict).unwrap_err();
        assert_mistake(error, at, kind, text);
        assert!(TrafficContract::parse(text, Strictness::Extended).is_ok());
    }
    for (text, at, kind) in [
        ("vbr:scr=max", 8, MaxRate),
        ("vbr:scr=0", 8, NoRate),
        ("vbr:scr=383bps", 8, NoRate),
        ("vbr:mbs=0", 8, ExpectedCells),
        ("vbr:mbs=", 8, ExpectedCells),
        ("vbr:mbs=4294967296", 8, ExpectedCells),
        ("vbr:cdvt=5", 10, ExpectedTime),
        ("vbr:cdvt=5min", 10, ExpectedTime),
        ("vbr:cdvt=ms", 9, ExpectedTime),
        ("vbr:cdvt=-5ms", 9, ExpectedTime),
        ("vbr:cdvt=0.5ns", 9, TimeRange),
        ("vbr:dvt=18446744073709551616ns", 8, TimeRange),
        ("vbr:dvt=99999999999s", 8, TimeRange),
        ("vbr:jitter=medium", 11, ExpectedWord("low, default, high")),
        ("vbr:tx:police=cell", 7, NotInDirection),
        (
            "vbr:rx:jitter=medium",
            14,
            ExpectedWord("low, default, high"),
        ),
        ("vbr:rx:excess=tag", 7, NotInDirection),
    ] {
        let error = TrafficContract::parse(text, Strictness::Extended).unwrap_err();
        assert_mistake(error, at, kind, text);
    }
}

#[test]
fn extended_words_mean_what_they_say() {
    let contract = extended(
        "VBR,aal5:pcr=125Mbps,scr=93.75Mbps,mbs=2052,cdvt=250us,dvt=2ms,jitter=low,\
         police=cell,excess=when-idle,sdu=8192",
    );
    assert_eq!(contract.category, ServiceCategory::RtVbr);
    assert_eq!(contract.police, Some(Police::Cell));
    assert_eq!(contract.excess, Excess::WhenIdle);
    let descriptor = contract.transmit.unwrap();
    assert_eq!(contract.receive, Some(descriptor));
    assert_eq!(descriptor.jitter, Some(Jitter::Low));
    assert_eq!(descriptor.scr, CellRate::new(244_140));
    assert_eq!(descriptor.mbs, NonZeroU32::new(2_052));
    assert_eq!(descriptor.cdvt_ns, Some(250_000));
    assert_eq!(descriptor.dvt_ns, Some(2_000_000));
    assert_eq!(
        contract.to_string(),
        "vbr,aal5:pcr=325520,max_sdu=8192,scr=244140,mbs=2052,cdvt=250us,dvt=2ms,\
         jitter=low,police=cell,excess=when-idle",
    );
    assert_eq!(contract.libatm_text(), None);
    assert_eq!(extended("rt-vbr"), extended("vbr"));
    assert_eq!(extended("nrt-vbr").category, ServiceCategory::NrtVbr);
    assert_eq!(extended("AAL34,cbr").aal, Some(Aal::Aal34));
    assert_eq!("vbr:scr=5".parse(), Ok(extended("vbr:scr=5")));

    let split = extended("cbr:excess=tag,tx:pcr=5,cdvt=1.5us,rx:pcr=5,cdvt=1s");
    assert_eq!(
        split.to_string(),
        "cbr:pcr=5,excess=tag,tx:cdvt=1500ns,rx:cdvt=1s"
    );
    for (text, ns) in [
        ("cdvt=0ns", 0),
        ("cdvt=1.123456789s", 1_123_456_789),
        ("cdvt=18446744073709551615ns", u64::MAX),
        ("cdvt=2MS", 2_000_000),
    ] {
        let contract = extended(&format!("cbr:{text}"));
        assert_eq!(contract.receive.unwrap().cdvt_ns, Some(ns), "{text}");
    }
}

#[test]
fn policing_suits_the_aal_unless_told() {
    assert_eq!(extended("cbr").policing(), Police::Frame);
    assert_eq!(extended("cbr,aal5").policing(), Police::Frame);
    assert_eq!(extended("cbr,aal0").policing(), Police::Cell);
    assert_eq!(
        extended("cbr,aal0:police=buffer").policing(),
        Police::Buffer
    );
}

#[test]
fn the_peak_that_counts_is_the_one_linux_takes() {
    let rate = |cell_s| Peak::Rate(CellRate::new(cell_s).unwrap());
    for (text, peak) in [
        ("cbr", Peak::Max),
        ("cbr:pcr=10,max_pcr=20,min_pcr=5", rate(10)),
        ("cbr:pcr=max,max_pcr=20", Peak::Max),
        ("cbr:max_pcr=20,min_pcr=5", rate(20)),
        ("cbr:max_pcr=max,min_pcr=5", rate(5)),
        ("cbr:min_pcr=5", rate(5)),
        ("cbr:max_pcr=max", Peak::Max),
    ] {
        assert_eq!(strict(text).transmit.unwrap().peak(), peak, "{text}");
    }
    let over = strict("cbr:pcr=400000").transmit.unwrap().peak();
    assert_eq!(over.on(CellRate::OC3), CellRate::OC3);
}

fn below(random: &mut Pcg64Mcg, limit: u32) -> u32 {
    random.next_u32() % limit
}

/// A number of any magnitude, at most 2^31 - 1.
fn magnitude(random: &mut Pcg64Mcg) -> u32 {
    let shift = 1 + below(random, 31);
    random.next_u32() >> shift
}

fn random_descriptor(random: &mut Pcg64Mcg) -> TrafficDescriptor {
    let peak = |random: &mut Pcg64Mcg| match below(random, 4) {
        0 => None,
        1 => Some(Peak::Max),
        _ => CellRate::new(magnitude(random)).map(Peak::Rate),
    };
    let time = |random: &mut Pcg64Mcg| match below(random, 6) {
        0 | 1 => None,
        2 => Some(random.next_u64()),
        unit => {
            let ns = u64::from(magnitude(random)) * 1_000u64.pow(unit - 3);
            Some(ns)
        }
    };
    let scr = CellRate::new(magnitude(random)).filter(|_| below(random, 2) == 0);
    TrafficDescriptor {
        max_pcr: peak(random),
        pcr: peak(random),
        min_pcr: CellRate::new(magnitude(random)).filter(|_| below(random, 2) == 0),
        max_sdu: NonZeroU32::new(magnitude(random)),
        fixed: below(random, 2) == 0,
        scr,
        high_priority: scr.is_some() && below(random, 2) == 0,
        mbs: NonZeroU32::new(random.next_u32()).filter(|_| below(random, 2) == 0),
        cdvt_ns: time(random),
        dvt_ns: time(random),
        jitter: [Jitter::Low, Jitter::Default, Jitter::High]
            .get(below(random, 4) as usize)
            .copied(),
        burst: NonZeroU32::new(random.next_u32()).filter(|_| below(random, 2) == 0),
        abr: AbrWords::default(),
    }
}

fn random_abr(random: &mut Pcg64Mcg) -> AbrWords {
    let part = |random: &mut Pcg64Mcg, most| Part::one_of(1 << below(random, most));
    let cdf = [None, Some(Cutoff::Never), part(random, 7).map(Cutoff::Part)];
    AbrWords {
        icr: CellRate::new(magnitude(random)).filter(|_| below(random, 2) == 0),
        rif: part(random, 16).filter(|_| below(random, 2) == 0),
        rdf: part(random, 16).filter(|_| below(random, 2) == 0),
        cdf: cdf[below(random, 3) as usize],
        nrm: Some(2 << below(random, 8)).filter(|_| below(random, 2) == 0),
        trm_ns: Some(u64::from(1_000_000 + below(random, 99_000_000))),
        adtf_ns: Some(10_000_000 * u64::from(1 + below(random, 1_023)))
            .filter(|_| below(random, 2) == 0),
        tbe: Some(below(random, 1 << 24)).filter(|_| below(random, 2) == 0),
        frtt_ns: Some(1_000 * u64::from(below(random, 16_700_001)))
            .filter(|_| below(random, 2) == 0),
    }
}

fn random_contract(random: &mut Pcg64Mcg) -> TrafficContract {
    use ServiceCategory::{Abr, Cbr, NrtVbr, RtVbr, Ubr};
    let mut pick = |limit| below(random, limit) as usize;
    let category = [Cbr, RtVbr, NrtVbr, Ubr, Abr][pick(5)];
    let aal = [None, Some(Aal::Aal0), Some(Aal::Aal34), Some(Aal::Aal5)][pick(4)];
    let police = [Police::Frame, Police::Cell, Police::Buffer].get(pick(4));
    let excess = [Excess::Discard, Excess::Tag, Excess::WhenIdle][pick(3)];
    let directions = pick(8);
    let mut transmit = random_descriptor(random);
    let mut receive = random_descriptor(random);
    if category == Abr {
        (transmit.abr, receive.abr) = (random_abr(random), random_abr(random));
    }
    if below(random, 2) == 0 {
        // Most of it shared.
        let cdvt_ns = receive.cdvt_ns;
        receive = TrafficDescriptor {
            cdvt_ns,
            ..transmit
        };
    }
    let of_aal34 = aal == Some(Aal::Aal34);
    let mids = NonZeroU32::new(below(random, TrafficContract::MIDS_MAX + 1));
    let reassembly_ns = Some(random.next_u64()).filter(|ns| of_aal34 && ns % 2 == 0);
    TrafficContract {
        category,
        aal,
        mids: mids.filter(|_| of_aal34),
        reassembly_ns,
        transmit: Some(transmit).filter(|_| directions != 0 && directions != 2),
        receive: Some(receive).filter(|_| directions > 1),
        police: police.copied(),
        excess,
    }
}

#[test]
fn canonical_texts_parse_back() {
    let mut random = Pcg64Mcg::seed_from_u64(6);
    for _ in 0..50_000 {
        let contract = random_contract(&mut random);
        let text = contract.to_string();
        let parsed = TrafficContract::parse(&text, Strictness::Extended);
        assert_eq!(parsed, Ok(contract), "{text}");
        assert_eq!(parsed.unwrap().to_string(), text);
        let upper = text.to_ascii_uppercase().replace("MAX,", "max,");
        if !upper.contains("=MAX") {
            assert_eq!(extended(&upper), contract, "{upper}");
        }
    }
}

/// Whether a number may be beyond 32 bits.
fn may_wrap(text: &str) -> bool {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    text.contains('-') || text.contains(['g', 'G']) || numbers.any(|digits| digits.len() > 3)
}

#[test]
fn what_libatm_takes_means_the_same_in_extended() {
    const PIECES: [&str; 30] = [
        "ubr",
        "cbr",
        "abr",
        "vbr",
        "aal0",
        "aal5",
        ":",
        ",",
        "tx:",
        "rx:",
        "tx",
        "rx",
        "none",
        "pcr=",
        "max_pcr=",
        "min_pcr=",
        "sdu=",
        "max_sdu=",
        "scr=",
        "mbs=",
        "cdvt=",
        "jitter=low",
        "max",
        "10",
        "1.5",
        "k",
        "M",
        "cps",
        "bps",
        "us",
    ];
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..300_000 {
        let mut text = PIECES[below(&mut random, 3) as usize].to_owned();
        if below(&mut random, 2) == 0 {
            text.push_str(":pcr=");
        }
        for _ in 0..below(&mut random, 8) {
            text.push_str(PIECES[below(&mut random, 30) as usize]);
        }
        match TrafficContract::parse(&text, Strictness::Strict) {
            Ok(contract) => {
                accepted += 1;
                if !may_wrap(&text) {
                    assert_eq!(extended(&text), contract, "{text}");
                }
                if let Some(canonical) = contract.libatm_text() {
                    assert_eq!(strict(&canonical), contract, "{text}");
                }
            }
            Err(error) => {
                refused += 1;
                assert!(error.at <= text.len());
            }
        }
    }
    assert!(
        accepted > 10_000 && refused > 10_000,
        "{accepted} {refused}"
    );
}

#[test]
fn no_text_makes_the_parser_panic() {
    let mut random = Pcg64Mcg::seed_from_u64(8);
    let seed = "cbr,aal5:pcr=1.5Mbps,cdvt=250us,jitter=low,tx:max_pcr=max,rx:none";
    for _ in 0..100_000 {
        let mut octets = seed.as_bytes().to_vec();
        for _ in 0..1 + below(&mut random, 4) {
            let at = below(&mut random, octets.len() as u32) as usize;
            match below(&mut random, 3) {
                0 => octets[at] = random.next_u32() as u8,
                1 => octets.truncate(at + 1),
                _ => octets.insert(at, b"0123456789,:=.\xc3\xa9"[at % 16]),
            }
        }
        let text = String::from_utf8_lossy(&octets);
        for strictness in BOTH {
            if let Err(error) = TrafficContract::parse(&text, strictness) {
                assert!(text.is_char_boundary(error.at), "{text:?} {error}");
            }
        }
    }
}

#[test]
fn a_size_is_committed_to_and_aal34_says_how_many_pdus_at_once() {
    let contract = extended("cbr,aal34:mids=64,reassembly=1500ms,sdu=100,fixed,tx:none");
    assert_eq!(contract.mids.map(|mids| mids.get()), Some(64));
    assert_eq!(contract.reassembly_ns, Some(1_500_000_000));
    assert!(contract.receive.unwrap().fixed && contract.transmit.is_none());
    let canonical = "cbr,aal34:mids=64,reassembly=1500ms,tx:none,rx:max_sdu=100,fixed";
    assert_eq!(contract.to_string(), canonical);
    assert_eq!(extended(canonical), contract);
    let both = extended("ubr:fixed,sdu=9,rx:pcr=5");
    assert_eq!(both.to_string(), "ubr:max_sdu=9,fixed,rx:pcr=5");

    let refused = |text: &str| {
        let error = TrafficContract::parse(text, Strictness::Extended).unwrap_err();
        (error.at, error.kind)
    };
    assert_eq!(refused("cbr,aal5:mids=2"), (9, Kind::NotAal34));
    assert_eq!(refused("cbr:reassembly=1s"), (4, Kind::NotAal34));
    assert_eq!(refused("cbr,aal34:mids=65"), (15, Kind::MidsRange));
    assert_eq!(refused("cbr,aal34:mids=0"), (15, Kind::MidsRange));
    assert_eq!(refused("cbr,aal34:tx:mids=2").1, Kind::NotInDirection);
    let strict = TrafficContract::parse("cbr:fixed", Strictness::Strict);
    assert!(strict.is_err());
}

#[test]
fn rates_are_read_as_people_write_them() {
    for (text, canonical) in [
        ("cbr:pcr=8Mbit/s", "cbr:pcr=20833"),
        ("cbr:pcr=8Mb/s", "cbr:pcr=20833"),
        ("cbr:pcr=8 Mbps", "cbr:pcr=20833"),
        ("cbr:pcr=8 Mbit/s,sdu=40", "cbr:pcr=20833,max_sdu=40"),
        ("cbr:pcr=0.008  Gb/s", "cbr:pcr=20833"),
        (
            "vbr:scr=3840bit/s,mbs=3,min_pcr=385 b/s",
            "vbr:min_pcr=2,scr=10,mbs=3",
        ),
        ("cbr:tx:pcr=100 cps,rx:none", "cbr:tx:pcr=100,rx:none"),
    ] {
        assert_eq!(extended(text).to_string(), canonical, "{text}");
        let strict = TrafficContract::parse(text, Strictness::Strict);
        assert!(strict.is_err(), "{text}");
    }
}

#[test]
fn a_mistake_says_what_was_meant() {
    for (text, meant) in [
        ("crb:pcr=3", Some("cbr")),
        ("cbr,aal6:pcr=3", Some("aal0")),
        ("video", None),
        ("cbr:rate=8Mbps", Some("pcr=")),
        ("cbr:prc=8Mbps", Some("pcr=")),
        ("cbr:pcr=3,maxsdu=5", Some("max_sdu=")),
        ("cbr:pcr=3,tx:mtu=5", Some("max_sdu=")),
        ("cbr:whatever=3", None),
        ("cbr:pcr=8M", Some("Mbit/s")),
        ("cbr:pcr=8k,sdu=4", Some("kbit/s")),
        ("cbr:pcr=8Mbit", Some("Mbit/s")),
        ("cbr:pcr=8Mbits/s", Some("Mbit/s")),
        ("cbr:pcr=8 MBPS", Some("Mbps")),
        ("cbr:pcr=8BPS", Some("bps")),
        ("cbr:pcr=8 lightyears", None),
        ("cbr:rx:pcr=3 tx:none", None),
        ("cbr,pcr=3", None),
        ("cbr 8Mbps", Some(":pcr=")),
        ("cbr pcr=8Mbps", None),
    ] {
        let error = TrafficContract::parse(text, Strictness::Extended).unwrap_err();
        assert_eq!(error.meant, meant, "{text}: {error}");
        assert_eq!(error.to_string().contains("did you mean"), meant.is_some());
        // libatm's texts are another language.
        let strict = TrafficContract::parse(text, Strictness::Strict).unwrap_err();
        assert_eq!(strict.meant, None, "{text}");
    }
}
