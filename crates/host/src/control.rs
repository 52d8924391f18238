//! The control descriptor: requests and replies of [`cellgate_core::keeper`] in JSON over Unix
//! sequenced packets, descriptors along with them.

pub use cellgate_core::keeper::{
    Answer, Ask, ControlError, ENUMERATE_MAX, Hello, KEPT_MAX, NewRegion, PORTS_MAX, PortReport,
    QueueReport, RECORD_MAX, ReceiveInto, Reply, Request, TakenUp, VERSION,
};
pub use cellgate_shm::socket::{FDS_MAX, MESSAGE_MAX, Received, pair, receive, send, take_stdin};

#[cfg(test)]
mod tests {
    use cellgate_core::Time;
    use cellgate_core::adapter::{
        Aal, AbrStats, AbrTerms, AdapterStats, AttachmentIndex, ClpScope, Delays, Discard,
        DiscardCounts, Excess, Interleaving, Marks, Notification, OpenRequest, PortIndex, Receive,
        Sustained, Transmit, VcInfo, VcStats,
    };
    use cellgate_core::contract::{AbrParameters, CellRate, RateReason};
    use cellgate_core::wire::VpiVci;

    use cellgate_core::line::LineCounts;

    use super::*;
    use cellgate_core::adapter::{AdapterState, PortStats, VcId, VcIndex};
    use cellgate_core::keeper::{MeetingReport, TROUBLE_LEN_MAX, UdpReport};

    #[test]
    fn a_full_list_of_vcs_fits_a_message_however_much_they_have_counted() {
        const MOST: u64 = u64::MAX;
        let mut discarded = DiscardCounts::default();
        for reason in Discard::ALL {
            discarded.add(reason, MOST);
        }
        let rate = CellRate::new(u32::MAX);
        let parameters = rate.map(|pcr| AbrParameters {
            mcr: rate,
            trm_ns: MOST,
            adtf_ns: MOST,
            tbe: u32::MAX,
            ..AbrParameters::new(pcr)
        });
        let request = OpenRequest {
            address: VpiVci::new(0xfff, u16::MAX).unwrap(),
            port: PortIndex(u8::MAX),
            aal: Aal::Aal34(Interleaving {
                mids: u16::MAX,
                reassembly_timeout_ns: MOST,
            }),
            attachment: AttachmentIndex(u16::MAX),
            receive: Some(Receive {
                marks: Marks::None,
                rate,
                sustained: rate.map(|rate| Sustained {
                    rate,
                    burst_tolerance_ns: MOST,
                    clp: ClpScope::HighPriority { reserve: u32::MAX },
                }),
                cdvt_ns: MOST,
                guaranteed: false,
                max_sdu: u16::MAX,
                fixed_sdu: false,
                excess: Excess::WhenIdle { reserve: u32::MAX },
                notification: Notification::Silent {
                    threshold: u32::MAX,
                    longest_delay_ns: MOST,
                },
                queue_threshold: u32::MAX,
            }),
            transmit: Some(Transmit {
                rate,
                cdvt_ns: MOST,
                weight: u32::MAX,
                abr: parameters.map(|one| AbrTerms {
                    transmit: one,
                    rm: one.pcr,
                    kept: rate,
                }),
                peak: rate,
                max_sdu: u16::MAX,
                burst: 1,
                sustained: None,
                interrupt_on_completion: false,
            }),
        };
        let stats = VcStats {
            cells_received: MOST,
            cells_delivered: MOST,
            cells_delivered_clp1: MOST,
            cells_held: MOST,
            cells_discarded: discarded,
            pdus_delivered: MOST,
            pdus_lent: MOST,
            pdus_tagged: MOST,
            cells_answered: MOST,
            pdus_discarded: discarded,
            cells_transmitted: MOST,
            cells_transmitted_clp1: MOST,
            pdus_transmitted: MOST,
            pdus_crossed: MOST,
            delays: Delays {
                max_ns: MOST,
                counts: [MOST; Delays::BUCKETS],
            },
            abr: Some(AbrStats {
                allowed_cell_s: u32::MAX,
                floor_cell_s: u32::MAX,
                reason: RateReason::ExplicitRate,
                changed_ns: MOST,
                forward_sent: MOST,
                backward_sent: MOST,
                forward_received: MOST,
                backward_received: MOST,
                replaced: MOST,
                crc_error: MOST,
                wrong_protocol: MOST,
                too_many: MOST,
                unasked: MOST,
                below_floor: MOST,
            }),
            client_faults: MOST,
        };
        let vc = VcId {
            index: VcIndex(u16::MAX),
            generation: u32::MAX,
        };
        let state = AdapterState {
            time: Time::from_ns(MOST),
            stats: AdapterStats {
                cells_discarded: discarded,
                ..AdapterStats::default()
            },
            vcs: vec![VcInfo { vc, request, stats }; ENUMERATE_MAX],
            next: Some(VcIndex(u16::MAX)),
        };
        let reply = Reply {
            id: MOST,
            result: Ok(Answer::State(Box::new(state))),
        };
        let octets = serde_json::to_vec(&reply).unwrap();
        // The rest of the adapter's own counters.
        assert!(octets.len() + 12 * 20 <= MESSAGE_MAX, "{}", octets.len());
        assert_eq!(serde_json::from_slice::<Reply>(&octets).unwrap(), reply);
    }

    #[test]
    fn an_answer_of_ports_that_have_counted_all_their_lives_is_no_longer_than_a_message() {
        const MOST: u64 = u64::MAX;
        let queue = QueueReport {
            sent: MOST,
            dropped: MOST,
            received: MOST,
            queued_max: MOST,
            faults: MOST,
        };
        let strays = PortStats {
            unknown_vc: MOST,
            hec_error: MOST,
            idle: MOST,
            last_unknown: VpiVci::new(4_095, u16::MAX),
        };
        let pseudowire = UdpReport {
            received_datagrams: MOST,
            received_cells: MOST,
            missing_datagrams: MOST,
            overflows: MOST,
            receive_buffer_octets: MOST,
            receive_calls: MOST,
            receive_errors: MOST,
            sent_datagrams: MOST,
            sent_cells: MOST,
            send_calls: MOST,
            send_errors: MOST,
            dropped_cells: MOST,
            foreign_cells: MOST,
            last_refusal: Some(i32::MIN),
            heard: Some(Time::from_ns(MOST)),
            last_refused: Some(std::net::Ipv6Addr::from(u128::MAX).into()),
            ..UdpReport::default()
        };
        let line = LineCounts {
            cells_in: MOST,
            cells_out: MOST,
            lost: MOST,
            queue_full: MOST,
            overflowed: MOST,
            duplicated: MOST,
            bit_errors: MOST,
            header_errors: MOST,
            payload_errors: MOST,
            marked: MOST,
            in_flight: MOST,
        };
        let port = PortReport {
            receive: queue,
            transmit: queue,
            strays,
            pseudowire: Some(pseudowire),
            line: Some(line),
            meeting: Some(MeetingReport {
                joined: false,
                parted: Some(Time::from_ns(MOST)),
                trouble: Some("\"".repeat(TROUBLE_LEN_MAX)),
            }),
        };
        let reply = Reply {
            id: MOST,
            result: Ok(Answer::Ports(vec![port; PORTS_MAX])),
        };
        let octets = serde_json::to_vec(&reply).unwrap();
        // Discards and refusals of a pseudowire have 18 numbers more.
        assert!(
            octets.len() + PORTS_MAX * 18 * 20 <= MESSAGE_MAX,
            "{}",
            octets.len()
        );
        assert_eq!(serde_json::from_slice::<Reply>(&octets).unwrap(), reply);
    }
}
