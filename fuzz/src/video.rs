//! Transport streams: octets into PDUs, and PDUs into a playout buffer.

use cellgate_core::Time;
use cellgate_core::terminal::video::{
    OnLoss, Pace, Playout, PlayoutTerms, Recovery, Sending, SendingTerms,
};
use cellgate_core::wire::{TS_LEN, TsHeader};

use crate::take::Take;

/// Octets as a stream to send, however it is cut, and PDUs of it with numbers and times at will.
pub fn video(data: &[u8]) {
    let mut take = Take::new(data);
    let cut = usize::from(take.u8()) + 1;
    let pack = usize::from(take.u8() % 8) + 1;
    let octets = take.clone().rest();
    sent(octets, octets.len().max(1), pack);
    sent(octets, cut, pack);
    plays(&mut take);
}

/// Sends a stream that comes in such parts: every octet is in an SDU, or was left out.
fn sent(octets: &[u8], cut: usize, pack: usize) {
    let mut sending = Sending::new(SendingTerms {
        pack,
        pcr_aware: cut.is_multiple_of(2),
        numbered: true,
        pace: Pace::References,
    });
    let now = Time::from_ns(1 << 40);
    // In step with three packets, so that the next needs no more than itself.
    let begin = [TsHeader::lost(); 3].concat();
    sending.handle(now, &begin);
    for part in octets.chunks(cut) {
        sending.handle(now, part);
    }
    sending.end();
    let (mut all, mut sdu, mut next) = (0, Vec::new(), 0_u8);
    while let Some(due) = sending.next_deadline() {
        let uu = sending.poll(due, &mut sdu).expect("it is due");
        assert_eq!(uu, next);
        assert!(!sdu.is_empty() && sdu.len().is_multiple_of(TS_LEN));
        assert!(sdu.len() <= pack * TS_LEN);
        next = next.wrapping_add(1);
        all += sdu.len();
    }
    assert!(sending.is_over());
    let counts = sending.counts();
    assert_eq!(
        all as u64 + counts.skipped_octets,
        (begin.len() + octets.len()) as u64
    );
    assert_eq!(counts.packets, (all / TS_LEN) as u64);
}

fn plays(take: &mut Take<'_>) {
    let pack = u32::from(take.u8() % 16) + 1;
    let packets_max = usize::from(take.u8()) + 1;
    let marks = take.flag();
    let mut playout = Playout::new(PlayoutTerms {
        latency_ns: u64::from(take.u32()),
        bursts_ns: u64::from(take.u16()),
        recovery: take.pick(&[Recovery::Timestamps, Recovery::Occupancy, Recovery::Off]),
        on_loss: if marks { OnLoss::Mark } else { OnLoss::Drop },
        pack,
        numbered: take.flag(),
        packets_max,
    });
    let mut now = u64::from(take.u32()) << 10;
    let (mut marked, mut uu) = (0, 0_u8);
    while !take.is_empty() {
        now += u64::from(take.u32() >> 4);
        let choice = take.u8();
        // Mostly the next number.
        uu = if choice & 7 == 7 {
            take.u8()
        } else {
            uu.wrapping_add(1)
        };
        let mut sdu = Vec::new();
        for _ in 0..choice >> 3 & 3 {
            let mut packet = [0xff; TS_LEN];
            // The header as it comes, but that it begins a packet.
            packet[..13].copy_from_slice(&take.octets::<13>());
            if choice & 0x20 == 0 {
                packet[0] = 0x47;
            }
            sdu.extend_from_slice(&packet);
        }
        playout.handle(Time::from_ns(now), uu, &sdu);
        assert!(playout.fill_packets() <= packets_max);
        if choice & 0x40 != 0 {
            marked += released(&mut playout, now);
        }
        is_conserved(&playout, pack, marked);
    }
    while let Some(due) = playout.next_deadline() {
        marked += released(&mut playout, due.ns());
    }
    is_conserved(&playout, pack, marked);
    assert_eq!(playout.fill_packets(), 0);
}

/// Releases what is due: how many stood for lost ones.
fn released(playout: &mut Playout, now: u64) -> u64 {
    let mut marked = 0;
    while let Some(released) = playout.poll(Time::from_ns(now)) {
        assert!(released.due.ns() <= now);
        let header = TsHeader::parse(&released.packet).expect("a packet");
        marked += u64::from(released.is_mark);
        assert!(header.0.error || !released.is_mark);
    }
    marked
}

fn is_conserved(playout: &Playout, pack: u32, marked: u64) {
    let counts = playout.counts();
    let held = playout.fill_packets() as u64;
    assert_eq!(counts.packets, counts.released + counts.overruns + held);
    assert_eq!(counts.lost_packets, counts.lost_pdus * u64::from(pack));
    assert_eq!(counts.marked, marked);
    assert!(counts.late + counts.untimed <= counts.released);
}
