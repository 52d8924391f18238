//! What the server says.

use super::{Example, examples};
use crate::server::adapter_port::{CONNECTION, COUNTERS, MEMORY};
use crate::server::{Confirm, Description, Indication, MessageKind, Refused};

macro_rules! opened {
    () => {
        r#"{
            "address":"wan.0.100",
            "contract":"cbr:pcr=1000,max_sdu=1500",
            "vc":{"index":2,"generation":2},
            "sizes":{
                "receive_slots":128,
                "receive_len":8192,
                "receive_elsewhere":false,
                "transmit_slots":512,
                "transmit_len":20480
            },
            "files_generation":2,
            "attachment":0,
            "attachment_sizes":{"event_slots":64,"doorbell_slots":64},
            "attachment_generation":1,
            "notification":"last_cell",
            "marks":"none",
            "completions":false,
            "transmit_max_sdu":1500,
            "receive_max_sdu":1500,
            "transmit_credit":{
                "length":320000000000,
                "per":1000,
                "octets":15000,
                "remainder_max":1499
            },
            "receive_credit":{
                "length":320000000000,
                "per":1000,
                "octets":15000,
                "remainder_max":1499
            },
            "receive_early_ns":31000000
        }"#
    };
}

macro_rules! stats {
    () => {
        r#"{
            "cells_received":97,
            "cells_delivered":64,
            "cells_delivered_clp1":32,
            "cells_held":1,
            "cells_discarded":{"non_conforming":32},
            "pdus_delivered":2,
            "pdus_lent":0,
            "pdus_tagged":0,
            "cells_answered":0,
            "pdus_discarded":{"non_conforming":1},
            "cells_transmitted":64,
            "cells_transmitted_clp1":0,
            "pdus_transmitted":2,
            "pdus_crossed":0,
            "delays":{
                "max_ns":32010000,
                "counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,2,0,0,0,0,0,0,0,0]
            },
            "client_faults":0
        }"#
    };
}

macro_rules! planned {
    () => {
        r#"
            "buffers":{
                "receive_pdus":4,
                "receive_octets":8192,
                "transmit_pdus":11,
                "transmit_octets":20480
            },
            "bound":{
                "transmit":{
                    "delay_ns":62006688,
                    "jitter_ns":31881688,
                    "queue_ns":352000000,
                    "pacing_ns":32000000,
                    "others_ns":6688,
                    "rest_ns":0,
                    "stall_ns":30000000
                },
                "receive":{
                    "delay_ns":40000000,
                    "jitter_ns":40000000,
                    "rest_ns":0,
                    "silent_ns":0,
                    "wake_up_ns":10000000,
                    "stall_ns":30000000
                }
            }"#
    };
}

macro_rules! connection {
    () => {
        concat!(
            r#"{
                "number":1,
                "address":"wan.0.100",
                "contract":"cbr:pcr=1000,max_sdu=1500",
                "notification":null,
                "marks":"none",
                "transmit_pdus":null,
                "receive_pdus":4,
                "completions":false,
                "guaranteed":true,
                "permanent":false,
                "uid":1000,
                "pid":4711,
                "transmit":{"cell_s":1000},
                "receive":{"cell_s":1000},
                "memory":131104,
                "cpu_reserved_ppm":442,
                "cpu_expected_ppm":219,
                "delay_ns":10000000,
                "risk":{
                    "reason":"the link of its interface is down",
                    "seen_ns":81000000000,
                    "now":false
                },
                "offer":null,"#,
            planned!(),
            r#","stats":"#,
            stats!(),
            r#","slots":{
                "transmit":{"reserved":1000,"clp0":64,"clp1":0,"unoccupied":936},
                "receive":{"reserved":1000,"clp0":32,"clp1":32,"unoccupied":936}
            }}"#
        )
    };
}

macro_rules! interface {
    () => {
        r#"{
            "spec":{
                "name":"wan",
                "link":{"memory":{"peer":"wan"}},
                "line_rate":{"cell_s":353207}
            },
            "port":0,
            "up":true,
            "connections":1,
            "dropped_cells":0,
            "state":{"no_peer":{"silent_ns":60000000000}},
            "counts":{
                "cells":{"unknown_vc":11,"hec_error":0,"idle":0,"last_unknown":"0.60"},
                "datagrams":{
                    "received":7,
                    "wrong_source":0,
                    "bad_stack":0,
                    "wrong_label":0,
                    "bad_control_word":0,
                    "bad_length":0,
                    "out_of_order":0,
                    "missing":2,
                    "overflows":0,
                    "sent":9,
                    "refused":{"90":3},
                    "silent_ns":60000000000,
                    "last_refused":"192.0.2.9"
                }
            }
        }"#
    };
}

macro_rules! device {
    () => {
        r#"{
            "number":1,
            "device":"cell0",
            "vc":"wan.0.102",
            "contract":"ubr:max_sdu=1508",
            "encapsulation":"ipoa-llcsnap",
            "transmit_max_sdu":1508,
            "mtu_octets":1500,
            "uid":0,
            "scheduling":"nice 0, on CPU 0",
            "carried":{
                "sent_pdus":3,
                "received_pdus":2,
                "not_sent":{"too_long":1},
                "not_received":{},
                "inatmarp":{
                    "peer":"192.0.2.2",
                    "received":2,
                    "asked":1,
                    "answered":1,
                    "unanswered":0
                },
                "beyond_share":0,
                "copies":0
            }
        }"#
    };
}

examples! { Confirm:
    "hello", Self::Hello { .. },
        r#"{"hello":{"version":11,"server":"cellgate 0.1.0","pid":4710,"notes":[]}}"#;
    "done", Self::Done, r#""done""#;
    "description", Self::Description(_),
        r#"{"description":[{
            "kind":"confirm",
            "name":"done",
            "example":"{\"confirm\":{\"id\":1,\"result\":{\"Ok\":\"done\"}}}",
            "descriptors":[]
        }]}"#;
    "opened", Self::Opened(_), concat!(r#"{"opened":"#, opened!(), "}"), enclosing: CONNECTION;
    "tried", Self::Tried(_),
        concat!(
            r#"{"tried":{
                "address":"wan.0.100",
                "contract":"cbr:pcr=1000,max_sdu=1500",
                "demand":{
                    "transmit":{"guaranteed":1000,"best_effort":0},
                    "receive":{"guaranteed":1000,"best_effort":0},
                    "adapter_ppm":442,
                    "adapter_expected_ppm":219,
                    "worker_ppm":0,
                    "worker_expected_ppm":0,
                    "memory":131104,
                    "connections":1
                },
                "transmit":{"cell_s":1000},
                "receive":{"cell_s":1000},"#,
            planned!(),
            r#","keeps_awake":false,"waits":false}}"#
        );
    // What comes if it has new memory; nothing otherwise.
    "modified", Self::Modified { .. },
        concat!(r#"{"modified":{"opened":"#, opened!(), r#","memory":true}}"#),
        enclosing: MEMORY;
    "closed", Self::Closed { .. }, concat!(r#"{"closed":{"stats":"#, stats!(), "}}");
    "added", Self::Added { .. }, r#"{"added":{"contract":"ubr,aal5:max_sdu=9180"}}"#;
    "connections", Self::Connections { .. },
        concat!(r#"{"connections":{"connections":["#, connection!(), r#"],"next":17}}"#);
    "resources", Self::Resources(_),
        r#"{"resources":[{
            "resource":"transmit_bandwidth",
            "interface":"wan",
            "capacity":346142,
            "reserved":10000,
            "expected":10000,
            "least_free":330142
        }]}"#;
    "adapters", Self::Adapters(_),
        r#"{"adapters":[{
            "seen_ns":81000000000,
            "pid":4711,
            "cpu_ns":2500000000,
            "replaced":0,
            "gaps":1,
            "gaps_total_ns":2000000,
            "gap_longest_ns":2000000,
            "gap_admitted_ns":30000000,
            "shared":{"cpu":1,"others":2,"pids":[4801,4912]}
        }]}"#;
    "interfaces", Self::Interfaces(_), concat!(r#"{"interfaces":["#, interface!(), "]}");
    "returned", Self::Returned { .. }, r#"{"returned":{"round_trip_ns":5000}}"#;
    "counters", Self::Counters { .. }, r#"{"counters":{"len":1052672}}"#, enclosing: COUNTERS;
    "device", Self::Device(_), concat!(r#"{"device":"#, device!(), "}");
    "cpu_reserved", Self::CpuReserved { .. },
        r#"{"cpu_reserved":{"scheduling":"fifo 5, on CPU 0"}}"#;
    "devices", Self::Devices { .. },
        concat!(r#"{"devices":{"devices":["#, device!(), r#"],"next":null}}"#);
    "settings", Self::Settings(_),
        r#"{"settings":{
            "server":null,
            "adapters":[{
                "vcs":1024,
                "leaves":64,
                "attachments":1024,
                "ports":16,
                "port_cells":16384,
                "memory_max":1073741824,
                "pin":true,
                "cpu":1,
                "nice":-20,
                "idle":"adaptive",
                "linger_ns":null,
                "lock_memory":true,
                "gap_max_ns":30000000,
                "clump_cells":29,
                "overload_cells":262144,
                "silence_max_ns":10000000000
            }],
            "admission":{
                "best_effort_percent":5,
                "headroom_percent":25,
                "adapter_ppm":1000000,
                "worker_ppm":null,
                "sdu_floor":null,
                "cdvt_ns":1000000,
                "wake_up_ns":10000000
            },
            "quota":{
                "connections":256,
                "memory":268435456,
                "cell_s":4294967295,
                "adapter_ppm":1000000
            },
            "users":[{
                "name":"operator",
                "uid":1000,
                "quota":{
                    "connections":16,
                    "memory":null,
                    "cell_s":null,
                    "adapter_ppm":null
                }
            }],
            "next":null
        }}"#;
}

examples! { Refused:
    "admission", Self::Admission(_),
        r#"{"admission":{
            "resource":"transmit_bandwidth",
            "needed":350000,
            "free":346142,
            "quota":null,
            "offer":"cbr:pcr=346142,max_sdu=9180"
        }}"#;
    "contract", Self::Contract { .. },
        r#"{"contract":{"at":4,"reason":"expected a number"}}"#;
    "unsupported", Self::Unsupported(_),
        r#"{"unsupported":"a connection keeps its AAL and its directions"}"#;
    "left_out", Self::LeftOut { .. }, r#"{"left_out":{"deaths":4}}"#;
    "pages_taken", Self::PagesTaken { .. }, r#"{"pages_taken":{"seconds":10}}"#;
    "bad_message", Self::BadMessage(_), r#"{"bad_message":"no such Indication"}"#;
    "hello_first", Self::HelloFirst, r#""hello_first""#;
    "version", Self::Version { .. }, r#"{"version":{"speaks":3}}"#;
    "descriptors", Self::Descriptors(_),
        r#"{"descriptors":"the connection's is missing"}"#;
    "occupied", Self::Occupied, r#""occupied""#;
    "no_connection", Self::NoConnection, r#""no_connection""#;
    "not_found", Self::NotFound, r#""not_found""#;
    "not_permanent", Self::NotPermanent, r#""not_permanent""#;
    "in_use", Self::InUse, r#""in_use""#;
    "not_permitted", Self::NotPermitted, r#""not_permitted""#;
    "no_interface", Self::NoInterface, r#""no_interface""#;
    "interface_unnamed", Self::InterfaceUnnamed { .. },
        r#"{"interface_unnamed":{"names":["a","b"]}}"#;
    "not_carried", Self::NotCarried { .. }, r#"{"not_carried":{"carried":"vcc@0.100"}}"#;
    "vpi_too_large", Self::VpiTooLarge { .. }, r#"{"vpi_too_large":{"vpi":300}}"#;
    "interface", Self::Interface(_), r#"{"interface":"the name is in use"}"#;
    "interface_in_use", Self::InterfaceInUse { .. },
        r#"{"interface_in_use":{"connections":1}}"#;
    "address_in_use", Self::AddressInUse, r#""address_in_use""#;
    "reserved", Self::Reserved { .. }, r#"{"reserved":{"users":[0,900],"groups":[44]}}"#;
    "address_blocks", Self::AddressBlocks { .. }, r#"{"address_blocks":{"most":16}}"#;
    "adapter", Self::Adapter(_), r#"{"adapter":"no_leaf"}"#;
    "adapter_away", Self::AdapterAway, r#""adapter_away""#;
    "kernel", Self::Kernel(_), r#"{"kernel":"Too many open files in system (os error 23)"}"#;
    "no_return", Self::NoReturn, r#""no_return""#;
    "full", Self::Full { .. },
        r#"{"full":{"of":"control_sockets","most":1024,"quota":1001,"holder":null}}"#;
    "too_many", Self::TooMany, r#""too_many""#;
}

// Their number comes before them: 0 where no Response belongs to it; then that of the connection.
examples! { Indication:
    "ended", Self::Ended(_), r#"0,"connection":3,"indication":{"ended":"taken_over"}"#;
    "reopened", Self::Reopened(_),
        concat!(r#"0,"connection":3,"indication":{"reopened":"#, opened!(), "}"),
        enclosing: CONNECTION;
    "share", Self::Share { .. },
        r#"0,"connection":3,"indication":{"share":{
            "transmit":{"cell_s":176603},
            "transmit_credit":{
                "length":320000000000,
                "per":176603,
                "octets":15000,
                "remainder_max":1499
            },
            "receive":{"cell_s":176603}
        }}"#;
    "at_risk", Self::AtRisk { .. },
        r#"0,"connection":3,"indication":{"at_risk":{
            "reason":"the adapter did not run for 30000001 ns; 30000000 ns are allowed for"
        }}"#;
    "can_grow", Self::CanGrow { .. },
        r#"1,"connection":3,"indication":{"can_grow":{"contract":"cbr:pcr=320000,max_sdu=9180"}}"#;
    "losing", Self::Losing { .. },
        r#"0,"connection":3,"indication":{"losing":{"reason":"non_conforming","pdus":988}}"#;
    "rate", Self::Rate { .. },
        r#"0,"connection":3,"indication":{"rate":{
            "allowed_cell_s":88301,"floor_cell_s":1000,"reason":"congestion"
        }}"#;
    "restarted", Self::Restarted, r#"0,"indication":"restarted""#;
    "connection", Self::Connection { .. },
        concat!(
            r#"0,"indication":{"connection":{"change":"added","info":"#,
            connection!(),
            "}}"
        );
    "interface", Self::Interface { .. },
        concat!(
            r#"0,"indication":{"interface":{"change":"added","info":"#,
            interface!(),
            "}}"
        );
}

pub(super) fn descriptions() -> impl Iterator<Item = Description> {
    let of = |examples: &'static [Example], kind, before: &'static str, after: &'static str| {
        examples
            .iter()
            .map(move |one| one.described(kind, before, after))
    };
    let confirmed = |one: &Example| match one.name {
        "opened" | "modified" | "closed" => r#"{"confirm":{"id":1,"connection":3,"result":{"Ok":"#,
        _ => r#"{"confirm":{"id":1,"result":{"Ok":"#,
    };
    let confirms = Confirm::EXAMPLES.iter();
    let confirms =
        confirms.map(move |one| one.described(MessageKind::Confirm, confirmed(one), "}}}"));
    let refused = r#"{"confirm":{"id":1,"result":{"Err":"#;
    let told = r#"{"indication":{"id":"#;
    confirms
        .chain(of(Refused::EXAMPLES, MessageKind::Refusal, refused, "}}}"))
        .chain(of(
            Indication::EXAMPLES,
            MessageKind::Indication,
            told,
            "}}",
        ))
}
