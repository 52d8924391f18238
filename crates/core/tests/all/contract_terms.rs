//! From a contract's text to what the adapter is asked for, and to memory that is large enough.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::adapter::{
    Aal, Assumptions, AttachmentIndex, ClpScope, Excess, Interleaving, Marks, Notification,
    OpenRequest, PortIndex, Receive, Sustained, SustainedRate, Terms, Transmit, Unserved,
};
use cellgate_core::contract::{AbrWrong, CellRate, FrameGcra, TrafficContract, aal5_cells};
use cellgate_core::queue::{ConnectionGeometry, ConnectionSizes};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const NS_PER_S: u128 = 1_000_000_000;

const INTERLEAVING: Interleaving = Interleaving {
    mids: 3,
    reassembly_timeout_ns: 5_000_000,
};

/// A link that brings cells one by one, and a client that is up to a millisecond late.
const ASSUMED: Assumptions = Assumptions {
    marks: Marks::None,
    line: CellRate::OC3,
    cdvt_ns: 7,
    interleaving: INTERLEAVING,
    notification: Notification::LastCell,
    transmit_pdus: None,
    receive_pdus: 0,
    wake_up_ns: 1_000_000,
    gap_max_ns: 0,
    clump_cells: 1,
};

fn terms_with(text: &str, assumed: &Assumptions) -> Result<Terms, Unserved> {
    let contract: TrafficContract = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    Terms::of(&contract, assumed)
}

fn terms(text: &str) -> Terms {
    terms_with(text, &ASSUMED).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn rate(cell_s: u32) -> Option<CellRate> {
    CellRate::new(cell_s)
}

/// Nothing is policed.
const RECEIVE: Receive = Receive {
    marks: Marks::None,
    rate: None,
    sustained: None,
    cdvt_ns: 7,
    max_sdu: u16::MAX,
    fixed_sdu: false,
    excess: Excess::Discard,
    notification: Notification::LastCell,
    queue_threshold: 0,
    guaranteed: true,
};

/// The same for those that give way.
const GIVES_WAY: Receive = Receive {
    guaranteed: false,
    ..RECEIVE
};

/// Best effort without a share of its own.
const TRANSMIT: Transmit = Transmit {
    rate: None,
    cdvt_ns: 7,
    weight: 1,
    abr: None,
    peak: None,
    max_sdu: u16::MAX,
    burst: 1,
    sustained: None,
    interrupt_on_completion: false,
};

fn sustained(cell_s: u32, burst_tolerance_ns: u64, clp: ClpScope) -> Option<Sustained> {
    rate(cell_s).map(|rate| Sustained {
        rate,
        burst_tolerance_ns,
        clp,
    })
}

fn bursts(cell_s: u32, burst_tolerance_ns: u64) -> Option<SustainedRate> {
    rate(cell_s).map(|rate| SustainedRate {
        rate,
        burst_tolerance_ns,
    })
}

#[test]
fn texts_become_what_they_say_in_both_directions() {
    let vbr = |excess, clp| Receive {
        rate: rate(30_000),
        // 99 (1/10,000 - 1/30,000) s.
        sustained: sustained(10_000, 6_600_000, clp),
        max_sdu: 40,
        excess,
        ..RECEIVE
    };
    let shaped = |cell_s| Transmit {
        rate: rate(cell_s),
        ..TRANSMIT
    };
    let line = CellRate::OC3.cell_s();
    // T of a PDU is 0.1 ms: 6.6 ms of tolerance, 7 ns and 1 ms of lateness are 77 of them, one is
    // read, one more is tolerated.
    let reserve = 79 * 64;
    for (text, aal, receive, transmit) in [
        ("ubr", Aal::Aal5, Some(GIVES_WAY), Some(TRANSMIT)),
        (
            "ubr,aal34:min_pcr=50,max_sdu=9188",
            Aal::Aal34(INTERLEAVING),
            Some(Receive {
                max_sdu: 9_188,
                ..GIVES_WAY
            }),
            Some(Transmit {
                weight: 50,
                max_sdu: 9_188,
                ..TRANSMIT
            }),
        ),
        (
            "ubr:tx:pcr=max,rx:max_pcr=100",
            Aal::Aal5,
            Some(Receive {
                rate: rate(100),
                ..GIVES_WAY
            }),
            Some(TRANSMIT),
        ),
        (
            "ubr:tx:pcr=100,min_pcr=5,max_pcr=200,rx:none",
            Aal::Aal5,
            None,
            Some(Transmit {
                peak: rate(100),
                weight: 5,
                ..TRANSMIT
            }),
        ),
        (
            "ubr:tx:max_pcr=200,rx:none",
            Aal::Aal5,
            None,
            Some(Transmit {
                peak: rate(200),
                ..TRANSMIT
            }),
        ),
        ("cbr", Aal::Aal5, Some(RECEIVE), Some(shaped(line))),
        (
            "cbr,aal5:tx:pcr=1000,cdvt=3us,max_sdu=100,rx:pcr=2000,sdu=200,cdvt=2s",
            Aal::Aal5,
            Some(Receive {
                rate: rate(2_000),
                cdvt_ns: 2_000_000_000,
                max_sdu: 200,
                ..RECEIVE
            }),
            Some(Transmit {
                // An eighth is for the way to the line.
                cdvt_ns: 2_625,
                max_sdu: 100,
                ..shaped(1_000)
            }),
        ),
        // Bit/s are rounded down by libatm, up for what is the least that will do.
        (
            "cbr:tx:min_pcr=385bps,rx:pcr=767bps",
            Aal::Aal5,
            Some(Receive {
                rate: rate(1),
                ..RECEIVE
            }),
            Some(Transmit {
                weight: 2,
                ..shaped(2)
            }),
        ),
        (
            "cbr:tx:none,rx:pcr=2000000",
            Aal::Aal5,
            Some(Receive {
                rate: rate(2_000_000),
                ..RECEIVE
            }),
            None,
        ),
        ("cbr:rx:none", Aal::Aal5, None, Some(shaped(line))),
        (
            "cbr,aal0:pcr=10,max_sdu=52",
            Aal::Aal0,
            Some(Receive {
                rate: rate(10),
                max_sdu: 52,
                ..RECEIVE
            }),
            Some(Transmit {
                max_sdu: 52,
                ..shaped(10)
            }),
        ),
        (
            "vbr:pcr=30000,scr=10000,mbs=100,sdu=40,tx:none",
            Aal::Aal5,
            Some(vbr(Excess::Discard, ClpScope::AllCells)),
            None,
        ),
        (
            "nrt-vbr:pcr=30000,scr=10000,mbs=100,sdu=40,excess=tag,tx:none",
            Aal::Aal5,
            Some(vbr(
                Excess::Tag { reserve },
                ClpScope::HighPriority { reserve },
            )),
            None,
        ),
        // VBR.2: the sustained rate is of CLP 0, whose room is kept.
        (
            "vbr:pcr=30000,scr0=10000,mbs=100,sdu=40,tx:none",
            Aal::Aal5,
            Some(vbr(Excess::Discard, ClpScope::HighPriority { reserve })),
            None,
        ),
        (
            "vbr:pcr=30000,scr=10000,mbs=100,sdu=40,excess=when-idle,tx:none",
            Aal::Aal5,
            Some(vbr(Excess::WhenIdle { reserve }, ClpScope::AllCells)),
            None,
        ),
        // Beside a sustained rate the peak is a rate, be it the line's; a sender keeps the lower.
        (
            "vbr:scr=10000,mbs=1",
            Aal::Aal5,
            Some(Receive {
                rate: rate(line),
                sustained: sustained(10_000, 0, ClpScope::AllCells),
                ..RECEIVE
            }),
            Some(shaped(10_000)),
        ),
        // A burst at the peak rate, or at the line's where that is less; of all loss priorities.
        (
            "vbr:pcr=30000,scr=10000,mbs=100,sdu=40,excess=tag,rx:none",
            Aal::Aal5,
            None,
            Some(Transmit {
                sustained: bursts(10_000, 6_600_000),
                max_sdu: 40,
                ..shaped(30_000)
            }),
        ),
        (
            "vbr:scr=10000,mbs=2,rx:none",
            Aal::Aal5,
            None,
            Some(Transmit {
                sustained: bursts(10_000, 97_169),
                ..shaped(line)
            }),
        ),
        // No cell comes before its time.
        (
            "vbr:pcr=10000,scr=10000,mbs=100,rx:none",
            Aal::Aal5,
            None,
            Some(shaped(10_000)),
        ),
        // The last of 11 cells is early by ten cell times.
        (
            "cbr:pcr=5000,burst=11",
            Aal::Aal5,
            Some(Receive {
                rate: rate(5_000),
                cdvt_ns: 7 + 2_000_000,
                ..RECEIVE
            }),
            Some(Transmit {
                burst: 11,
                ..shaped(5_000)
            }),
        ),
        (
            "cbr:pcr=5000,police=buffer",
            Aal::Aal5,
            Some(RECEIVE),
            Some(shaped(5_000)),
        ),
        (
            "vbr:pcr=5000,scr=50,mbs=9,police=buffer,tx:none",
            Aal::Aal5,
            Some(RECEIVE),
            None,
        ),
    ] {
        let address = "0.100".parse().unwrap();
        let (port, attachment) = (PortIndex(2), AttachmentIndex(3));
        let expected = OpenRequest {
            address,
            port,
            aal,
            attachment,
            receive,
            transmit,
        };
        let request = terms(text).request(address, port, attachment);
        assert_eq!(request, expected, "{text}");
    }
}

#[test]
fn what_the_adapter_cannot_do_is_refused_with_the_reason() {
    for (text, reason) in [
        ("abr:pcr=100,tx:none", Unserved::AbrOneWay),
        ("abr:pcr=100,rx:none", Unserved::AbrOneWay),
        ("abr,aal0:pcr=100", Unserved::AbrOutsideAal5),
        ("abr,aal34:pcr=100", Unserved::AbrOutsideAal5),
        ("abr:pcr=100,excess=tag", Unserved::AbrExcess),
        (
            "abr:pcr=100,min_pcr=101",
            Unserved::AbrParameters(AbrWrong::MinimumAbovePeak { mcr: 101, pcr: 100 }),
        ),
        (
            "abr:pcr=100,min_pcr=10,icr=9",
            Unserved::AbrParameters(AbrWrong::InitialOutside {
                icr: 9,
                mcr: 10,
                pcr: 100,
            }),
        ),
        ("cbr:tx:none,rx:none", Unserved::Nothing),
        ("vbr:pcr=100", Unserved::NoSustainedRate),
        ("vbr:scr=100", Unserved::NoSustainedRate),
        ("vbr:tx:scr=100,mbs=3,rx:mbs=3", Unserved::NoSustainedRate),
        ("nrt-vbr:rx:scr=100,mbs=3", Unserved::NoSustainedRate),
        ("cbr:scr=100", Unserved::SustainedRateOutsideVbr),
        ("ubr:rx:mbs=100", Unserved::SustainedRateOutsideVbr),
        (
            "vbr:pcr=99,scr=100,mbs=1",
            Unserved::SustainedAbovePeak { scr: 100, peak: 99 },
        ),
        (
            "vbr:scr=353208,mbs=1",
            Unserved::SustainedAbovePeak {
                scr: 353_208,
                peak: 353_207,
            },
        ),
        ("vbr:scr=10,mbs=5,burst=2", Unserved::BurstOutsideCbr),
        ("ubr:tx:none,rx:burst=2", Unserved::BurstOutsideCbr),
        ("cbr:pcr=9,burst=4097", Unserved::LongBurst(4_097)),
        ("cbr,aal34:police=cell", Unserved::FramesByCell),
        ("cbr:police=cell", Unserved::FramesByCell),
        ("cbr,aal0:police=frame", Unserved::CellsByFrame),
        ("cbr:police=buffer,excess=tag", Unserved::NoExcess),
        ("cbr:police=buffer,excess=when-idle", Unserved::NoExcess),
        ("ubr:excess=tag", Unserved::TaggedBestEffort),
        ("cbr,aal0:max_sdu=48", Unserved::CellSdu(48)),
        ("cbr,aal0:tx:max_sdu=53", Unserved::CellSdu(53)),
        ("cbr:rx:max_sdu=65536", Unserved::LongSdu(65_536)),
        ("cbr,aal34:tx:max_sdu=65536", Unserved::LongSdu(65_536)),
    ] {
        assert_eq!(terms_with(text, &ASSUMED), Err(reason), "{text}");
    }
    // Tagging is for VBR.3 and, as an extension, CBR; idle hosts may be generous to anybody.
    for text in [
        "cbr:excess=tag",
        "ubr:excess=when-idle",
        "cbr,aal0:excess=tag",
    ] {
        terms(text);
    }
    // Blocks are marked in cells, and cells are AAL0's.
    let marked = Assumptions {
        marks: Marks::Mssar,
        ..ASSUMED
    };
    for text in ["cbr", "ubr,aal34"] {
        let unserved = Err(Unserved::MarksOutsideAal0);
        assert_eq!(terms_with(text, &marked), unserved, "{text}");
    }
    let served = terms_with("ubr,aal0", &marked).expect("its cells may be marked");
    assert_eq!(served.receive.unwrap().marks, Marks::Mssar);
    let needless = terms("cbr:pcr=353207,cdvt=1000s");
    let Err(Unserved::Buffer { needed }) = needless.sizes() else {
        panic!("{:?}", needless.sizes());
    };
    assert!(needed > 353_207_000 * 48);
    let endless = terms("cbr:pcr=353207,cdvt=18446744073s,dvt=18446744073s");
    assert!(matches!(endless.sizes(), Err(Unserved::Buffer { .. })));
}

fn sizes(receive: (u32, u32), transmit: (u32, u32)) -> Result<ConnectionSizes, Unserved> {
    Ok(ConnectionSizes {
        receive_slots: receive.0,
        receive_len: receive.1 * 4_096,
        receive_elsewhere: false,
        transmit_slots: transmit.0,
        transmit_len: transmit.1 * 4_096,
    })
}

#[test]
fn memory_is_counted_in_cells_credits_and_lateness() {
    let with =
        |text: &str, assumed: Assumptions| terms_with(text, &assumed).expect("a contract").sizes();
    // T of a PDU is 1.71 ms. Receive: 1.25 ms are one of them, one is read, one tolerated: 513
    // cells of 64 octets. Transmit: 10 and what a credit carries, one for the buffer's end.
    let text = "cbr:pcr=100000,max_sdu=8192,cdvt=250us";
    assert_eq!(with(text, ASSUMED), sizes((1_024, 9), (2_048, 24)));
    // 2.96 ms and 27 cell times, one read, one tolerated, two more: 6 PDUs, twice with excess.
    let late = Assumptions {
        notification: Notification::Silent {
            threshold: 8,
            longest_delay_ns: 710_000,
        },
        gap_max_ns: 1_000_000,
        clump_cells: 28,
        receive_pdus: 2,
        transmit_pdus: Some(3),
        ..ASSUMED
    };
    assert_eq!(with(text, late), sizes((2_048, 17), (512, 8)));
    let tagged = "cbr:pcr=100000,max_sdu=8192,cdvt=250us,excess=tag";
    assert_eq!(with(tagged, late), sizes((4_096, 33), (512, 8)));
    // A writer that is late for 35 ms, or for nothing with 50 PDUs in a credit.
    let absent = Assumptions {
        wake_up_ns: 35_000_000,
        ..ASSUMED
    };
    let sender = "cbr:pcr=100000,max_sdu=8192,rx:none";
    assert_eq!(with(sender, absent), sizes((1, 0), (4_096, 46)));
    let bursts = "cbr:pcr=100000,max_sdu=8192,jitter=high,rx:none";
    assert_eq!(with(bursts, ASSUMED), sizes((1, 0), (8_192, 104)));
    // AAL3/4 takes 187 cells, T is 1.87 ms, and three MIDs keep 8,976 octets each, on a boundary.
    let interleaved = "cbr,aal34:pcr=100000,max_sdu=8192,tx:none";
    assert_eq!(with(interleaved, ASSUMED), sizes((1_024, 16), (1, 0)));
    // What the line brings in 31 ms: 10,950 cells are eight of the largest PDUs and a bit.
    let line = Assumptions {
        wake_up_ns: 31_000_000,
        ..ASSUMED
    };
    let best_effort = with("ubr:tx:none", line).unwrap();
    assert_eq!(best_effort, sizes((16_384, 235), (1, 0)).unwrap());
    // More slots than a queue has are not needed by PDUs of more than a cell.
    let long = with("cbr:pcr=100000,dvt=1s,tx:none", ASSUMED).unwrap();
    assert_eq!(long.receive_slots, 1 << 16);
    assert!(ConnectionGeometry::new(long).is_ok());
}

/// A sender that wrings out of the policer what it can, and a reader that is as late as assumed
/// and then keeps the sustained rate. The most octets of buffer that are in use.
struct Wringer {
    line: u128,
    reads: u128,
    late_ns: u128,
    peak: Option<FrameGcra>,
    sustained: Option<FrameGcra>,
    gap_ns: u64,
    /// Octets and the end of their reading, in nanoseconds times `reads`.
    held: VecDeque<(u64, u128)>,
    read_to: u128,
    used: u64,
}

impl Wringer {
    fn new(receive: &Receive, cells: u32, assumed: &Assumptions, late_ns: u64) -> Self {
        let bucket = |rate, tolerated_ns| {
            FrameGcra::new(rate, tolerated_ns, cells, assumed.clump_cells.into())
        };
        let reads = receive.sustained.map(|s| s.rate).or(receive.rate);
        Self {
            line: assumed.line.cell_s().into(),
            reads: reads.unwrap_or(assumed.line).cell_s().into(),
            late_ns: late_ns.into(),
            peak: receive.rate.map(|rate| bucket(rate, receive.cdvt_ns)),
            sustained: receive
                .sustained
                .map(|s| bucket(s.rate, receive.cdvt_ns + s.burst_tolerance_ns)),
            gap_ns: assumed.gap_max_ns,
            held: VecDeque::new(),
            read_to: 0,
            used: 0,
        }
    }

    /// A PDU of `cells` may begin with cell number `slot` of the line: the octets then in use.
    fn offer(&mut self, slot: u128, cells: u32) -> Option<u64> {
        // Late enough for no bucket to have begun.
        let at = |slot: u128| NS_PER_S + slot * NS_PER_S / self.line;
        let now = at(slot);
        while let Some((octets, _)) = self.held.pop_front_if(|(_, end)| *end <= now * self.reads) {
            self.used -= octets;
        }
        let time = Time::from_ns(now as u64);
        let mut buckets = [&mut self.peak, &mut self.sustained];
        let conforms = |bucket: &&mut Option<FrameGcra>| bucket.is_none_or(|b| b.conforms(time));
        if !buckets.iter().all(conforms) {
            return None;
        }
        for bucket in buckets.iter_mut().filter_map(|bucket| bucket.as_mut()) {
            bucket.begin(time, time.minus_ns(self.gap_ns));
            bucket.charge(cells);
        }
        let octets = (u64::from(cells) * 48).next_multiple_of(64);
        let complete = at(slot + u128::from(cells) - 1);
        let begins = (complete + self.late_ns) * self.reads;
        self.read_to = self.read_to.max(begins) + u128::from(cells) * NS_PER_S;
        self.held.push_back((octets, self.read_to));
        self.used += octets;
        Some(self.used)
    }
}

#[test]
fn no_conforming_sender_fills_the_receive_buffer() {
    let mut random = Pcg64Mcg::seed_from_u64(40);
    let mut below = |limit: u32| random.next_u32() % limit;
    let mut well_used = 0;
    for _ in 0..400 {
        let pcr = 2_000 + below(300_000);
        let scr = 1_000 + below(pcr - 1_000);
        let most = [40, 1_000, 30_000][below(3) as usize];
        let sdu = 1 + below(most);
        let us = |random: u32, most: u32| random % [1, most][(random >> 8) as usize % 2];
        let cdvt_us = us(below(1 << 20), 3_000);
        let assumed = Assumptions {
            wake_up_ns: u64::from(us(below(1 << 20), 4_000)) * 1_000,
            gap_max_ns: u64::from(us(below(1 << 20), 2_000)) * 1_000,
            clump_cells: [1, 28][below(2) as usize],
            notification: Notification::Silent {
                threshold: 1,
                longest_delay_ns: u64::from(us(below(1 << 20), 2_000)) * 1_000,
            },
            ..ASSUMED
        };
        let Notification::Silent {
            longest_delay_ns, ..
        } = assumed.notification
        else {
            unreachable!("as made above");
        };
        let common = format!("sdu={sdu},cdvt={cdvt_us}us,tx:none");
        let text = match below(3) {
            0 => format!("cbr:pcr={pcr},{common}"),
            1 => format!("vbr:pcr={pcr},scr={scr},mbs={},{common}", 1 + below(500)),
            _ => format!("ubr:{common}"),
        };
        let terms = terms_with(&text, &assumed).unwrap();
        let receive = terms.receive.unwrap();
        let room = u64::from(terms.sizes().unwrap().receive_len);
        let largest = aal5_cells(sdu);
        let late_ns = assumed.wake_up_ns + longest_delay_ns;
        for mix in 0..3 {
            let mut wringer = Wringer::new(&receive, largest, &assumed, late_ns);
            let (mut slot, mut most) = (0, 0);
            while slot < 10_000 {
                let cells = match mix {
                    0 => 1,
                    1 => largest,
                    _ => 1 + below(largest),
                };
                let used = wringer.offer(slot, cells);
                most = most.max(used.unwrap_or(0));
                slot += used.map_or(1, |_| u128::from(cells));
            }
            assert!(most <= room, "{most} octets of {room}: {text}, {assumed:?}");
            well_used += u32::from(most * 4 > room * 3);
        }
    }
    assert!(well_used > 100, "memory is wasted: {well_used}");
}

#[test]
fn a_committed_size_and_mids_are_the_adapters() {
    let terms = terms_with(
        "cbr,aal34:mids=5,reassembly=2s,pcr=1000,max_sdu=100,fixed",
        &ASSUMED,
    )
    .unwrap();
    assert!(terms.receive.unwrap().fixed_sdu);
    let interleaving = terms.aal.interleaving().unwrap();
    assert_eq!(
        (interleaving.mids, interleaving.reassembly_timeout_ns),
        (5, 2_000_000_000)
    );
    let usual = terms_with("cbr,aal34:pcr=1000,max_sdu=100", &ASSUMED).unwrap();
    assert!(!usual.receive.unwrap().fixed_sdu);
    assert_eq!(usual.aal.interleaving(), Some(INTERLEAVING));
    let unsized_one = terms_with("cbr:pcr=1000,fixed", &ASSUMED).unwrap_err();
    assert_eq!(unsized_one, Unserved::FixedWithoutSize);
}
