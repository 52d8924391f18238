//! What a receiver says while it runs.

use cellgate_core::terminal::video::{DisplayCounts, PlayoutCounts, Recovery};

use super::Once;

/// The word of a recovery on the command line.
pub(super) const fn word(recovery: Recovery) -> &'static str {
    match recovery {
        Recovery::Timestamps => "pcr",
        Recovery::Occupancy => "occupancy",
        Recovery::Off => "none",
    }
}

/// How far it is at present.
pub(super) struct Present {
    pub(super) fill_ns: u64,
    pub(super) clock_ppb: i64,
    pub(super) rate_ppb: i64,
}

/// The live line, with the frames that a display has judged.
pub(super) fn line(
    counts: &PlayoutCounts,
    present: &Present,
    shown: Option<&DisplayCounts>,
) -> String {
    let frames = shown.map(|shown| {
        format!(
            "frames {} on time, {} late, {} missing; ",
            shown.on_time, shown.late, shown.missing
        )
    });
    let frames = frames.unwrap_or_default();
    format!(
        "{frames}{} packets, {} lost, {} late, {} early, {} under, {} over; {:.1} ms held, \
         clock {:+.3} ppm, output {:+.3}",
        counts.packets,
        counts.lost_packets,
        counts.late,
        counts.early,
        counts.underruns,
        counts.overruns,
        present.fill_ns as f64 / 1e6,
        present.clock_ppb as f64 / 1e3,
        present.rate_ppb as f64 / 1e3,
    )
}

/// Says once what is not as it should be.
pub(super) fn tell(once: &mut Once, counts: &PlayoutCounts) {
    once.tell(
        counts.not_ts > 0,
        "PDUs that are no transport stream are left out",
    );
    once.tell(
        counts.untimed > 0,
        "packets without clock references near them are played as they come",
    );
    once.tell(counts.lost_pdus > 0, "PDUs are missing");
    once.tell(
        counts.jumps + counts.discontinuities > 0,
        "the stream's clock jumps: it is followed anew",
    );
    once.tell(counts.restarts > 0, "the sender has begun anew");
    once.tell(
        counts.underruns > 0,
        "packets came too late: --latency may be too short",
    );
    once.tell(
        counts.overruns > 0,
        "the buffer is full: packets that waited longest are left out",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_a_terminal_twice() {
        let counts = PlayoutCounts {
            packets: 1_234_567,
            late: 3,
            ..PlayoutCounts::default()
        };
        let present = Present {
            fill_ns: 200_000_000,
            clock_ppb: -99_875,
            rate_ppb: 12,
        };
        let shown = DisplayCounts {
            on_time: 12_345,
            missing: 67,
            ..DisplayCounts::default()
        };
        let judged = line(&counts, &present, Some(&shown));
        assert!(
            judged.starts_with("frames 12345 on time, 0 late, 67 missing; 1234567 packets"),
            "{judged}"
        );
        assert!(judged.len() <= 160, "{judged}");
        let line = line(&counts, &present, None);
        assert!(line.starts_with("1234567 packets"), "{line}");
        assert!(line.contains("3 late"), "{line}");
        assert!(line.contains("clock -99.875 ppm, output +0.012"), "{line}");
    }
}
