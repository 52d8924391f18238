//! PDUs of one cell in a row: whatever the adapter does once for all of them, nothing tells it from
//! an adapter that is given one cell a step.

use std::collections::BTreeMap;

use crate::contracts;
use cellgate_core::Time;
use cellgate_core::adapter::{
    Aal, Adapter, AdapterStats, Attachment, AttachmentIndex, CellOutcome, ClpScope, Command,
    Config, Discard, Excess, Notification, OpenRequest, PortConfig, PortIndex, Receive, Region,
    Sustained, VcIndex, VcInfo,
};
use cellgate_core::contract::CellRate;
use cellgate_core::queue::Words;
use cellgate_core::queue::layout::{attachment, connection};
use cellgate_core::wire::{CellFormat, Header, HeaderForm, Pti, VpiVci, hec};
use cellgate_lab::memory::{LabAttachment, LabRegion, RegionSizes};
use cellgate_lab::{LabBoard, LabCommand, Trace};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

const PORT: PortIndex = PortIndex(0);
/// What fits into one cell.
const MAX_SDU: u16 = 40;
/// Of the two VCs that receive.
const VCIS: [u16; 2] = [100, 101];
const SLOTS: u32 = 32;
/// Room for fewer PDUs of one cell than there are slots, or for more.
const BUFFERS: [u32; 2] = [1_024, 4_096];

struct World {
    adapter: Adapter<LabRegion, LabAttachment>,
    board: LabBoard,
    budget: u16,
    client: LabAttachment,
    regions: Vec<LabRegion>,
    trace: Vec<Trace>,
}

impl World {
    fn new(budget: u16, format: CellFormat, buffer: u32, receive: Receive) -> Self {
        let config = Config {
            vcs: 2,
            leaves: 2,
            attachments: 1,
            ports: vec![PortConfig {
                form: HeaderForm::Nni,
                format,
                budget,
                discard_unread: false,
                real_time: false,
                line_rate: CellRate::OC3,
            }],
            gap_max_ns: 15_000,
            clump_cells: 4,
            overload_cells: 0,
        };
        let client = LabAttachment::new(64, 16);
        let mut world = Self {
            adapter: Adapter::new(config, Time::from_ns(1_000)).expect("a sane configuration"),
            board: LabBoard::new(1, None),
            budget,
            client: client.clone(),
            regions: Vec::new(),
            trace: Vec::new(),
        };
        world.order(Command::Attach {
            ticket: 0,
            attachment: client,
        });
        for vci in VCIS {
            let region = LabRegion::new(RegionSizes {
                receive_buffer: buffer,
                receive_slots: SLOTS,
                transmit_slots: 1,
                transmit_len: 0,
                stable: true,
            });
            world.regions.push(region.clone());
            let request = OpenRequest {
                address: VpiVci::new(0, vci).expect("an address"),
                port: PORT,
                aal: Aal::Aal5,
                attachment: AttachmentIndex(0),
                receive: Some(receive),
                transmit: None,
            };
            world.order(Command::Open {
                ticket: 0,
                request,
                region,
            });
        }
        world
    }

    fn order(&mut self, command: LabCommand) {
        self.board.order(0, command);
        self.step(Time::from_ns(1_000));
        let done = self.trace.drain(..).any(
            |trace| matches!(trace, Trace::Completed(completion) if completion.result.is_ok()),
        );
        assert!(done, "a command was refused");
    }

    fn step(&mut self, now: Time) {
        self.board.poll(now, 64);
        self.adapter.step(now, &mut self.board);
        self.trace.append(&mut self.board.trace);
    }

    /// All of `cells` at one time, in as many steps as the budget asks for. A step before ends what
    /// waited for this time, and one behind finds the port empty.
    fn feed(&mut self, now: Time, cells: &[Vec<u8>]) {
        self.step(now);
        for cell in cells {
            self.board.arrive(now, PORT, cell);
        }
        for _ in 0..cells.len().div_ceil(self.budget.into()) + 1 {
            self.step(now);
        }
        assert!(self.adapter.stats().is_conserved());
    }

    /// The clients give back all but `keep` of their PDUs, and read their events.
    fn release(&mut self, keep: u64) {
        for region in &self.regions {
            let head = region.from_adapter().load(connection::RECEIVE_HEAD);
            let tail = region.from_client().load(connection::RECEIVE_TAIL);
            let tail = tail.max(head.saturating_sub(keep));
            region.from_client().store(connection::RECEIVE_TAIL, tail);
        }
        let head = self.client.from_adapter().load(attachment::EVENT_HEAD);
        let words = self.client.from_client();
        words.store(attachment::EVENT_TAIL, head);
    }

    /// The adapter's state but for what must differ.
    fn state(&self) -> Value {
        let mut state = serde_json::to_value(&self.adapter).expect("state can be written");
        forget(&mut state);
        state
    }

    /// What clients can see, and what happened since the last look.
    fn look(&mut self) -> Seen {
        let memory = self
            .regions
            .iter()
            .flat_map(|region| [region.from_adapter().to_vec(), region.view().to_vec()])
            .chain([self.client.from_adapter().to_vec()])
            .collect();
        let charges = self.board.charges();
        let mut seen = Seen {
            stats: *self.adapter.stats(),
            infos: [0, 1]
                .map(|vc| self.adapter.info(VcIndex(vc)))
                .into_iter()
                .collect(),
            memory,
            outcomes: Vec::new(),
            told: Vec::new(),
            // Steps and look-ups are as many as there are steps and rows.
            charges: charges
                .filter(|(name, times)| {
                    *times > 0 && (name.contains("cells") || name.contains("pdu"))
                })
                .collect(),
            longest: 0,
        };
        for trace in self.trace.drain(..) {
            match trace {
                Trace::Judged(outcome, cells) => {
                    seen.outcomes.extend((0..cells).map(|_| outcome));
                    if outcome == CellOutcome::Delivered {
                        seen.longest = seen.longest.max(cells);
                    }
                }
                // Where it stands among the cells belongs to it.
                Trace::Posted(..) | Trace::Interrupted(..) => {
                    seen.told.push((seen.outcomes.len(), format!("{trace:?}")));
                }
                _ => {}
            }
        }
        seen
    }
}

struct Seen {
    stats: AdapterStats,
    infos: Vec<Option<VcInfo>>,
    memory: Vec<Vec<u8>>,
    outcomes: Vec<CellOutcome>,
    told: Vec<(usize, String)>,
    charges: BTreeMap<&'static str, u64>,
    /// PDUs that were delivered together.
    longest: u32,
}

/// Without what must differ: the budget, the names of memory, and when the next look for deadlines
/// is due, which each step may put off.
fn forget(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["budget", "from_adapter", "from_client", "view", "look_at"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(forget);
        }
        Value::Array(values) => values.iter_mut().for_each(forget),
        _ => {}
    }
}

fn crc(octets: &[u8]) -> u32 {
    !octets.iter().fold(!0u32, |register, octet| {
        (0..8).fold(register ^ u32::from(*octet) << 24, |register, _| {
            (register << 1) ^ ((register >> 31) * 0x04c1_1db7)
        })
    })
}

/// What a cell is.
#[derive(Clone, Copy)]
enum Kind {
    /// A PDU of its own, with an SDU of so many octets: 0 and more than 40 are wrong.
    Single(u16),
    /// The same with a wrong CRC.
    Damaged,
    /// One that does not end a PDU.
    Middle,
}

fn cell(format: CellFormat, vci: u16, (clp, congested): (bool, bool), kind: Kind) -> Vec<u8> {
    let last = !matches!(kind, Kind::Middle);
    let address = VpiVci::new(0, vci).expect("an address");
    let header = Header::new(address, Pti::User { congested, last }, clp).emit();
    let mut payload = vec![0x5a; 44];
    let len = match kind {
        Kind::Single(len) => len,
        Kind::Damaged | Kind::Middle => 7,
    };
    payload[0] = len as u8;
    payload[40..42].copy_from_slice(&[len as u8, vci as u8]);
    payload[42..].copy_from_slice(&len.to_be_bytes());
    let crc = crc(&payload) ^ u32::from(matches!(kind, Kind::Damaged));
    payload.extend(crc.to_be_bytes());
    let mut cell = header.to_vec();
    if format == CellFormat::WithHec {
        cell.push(hec(header));
    }
    cell.extend(payload);
    cell
}

fn receive(notification: Notification) -> Receive {
    contracts::receive(MAX_SDU, notification)
}

/// Each way to be told, and each thing in a contract that a row must stop for.
fn contracts() -> Vec<Receive> {
    let polled = receive(Notification::Polled);
    let policed = Receive {
        rate: CellRate::new(700_001),
        max_sdu: 30,
        ..polled
    };
    let sustained = Some(Sustained {
        rate: CellRate::new(300_007).expect("a rate"),
        burst_tolerance_ns: 10_000,
        clp: ClpScope::HighPriority { reserve: 64 },
    });
    let polled = [
        polled,
        policed,
        Receive {
            max_sdu: 90,
            fixed_sdu: true,
            ..polled
        },
        Receive {
            queue_threshold: 7,
            ..polled
        },
        Receive {
            sustained,
            excess: Excess::Tag { reserve: 100 },
            ..policed
        },
        Receive {
            excess: Excess::Tag { reserve: 100 },
            ..policed
        },
    ];
    polled.into_iter().chain(contracts::told(MAX_SDU)).collect()
}

fn draw_burst(draw: &mut Pcg64Mcg, format: CellFormat) -> Vec<Vec<u8>> {
    let mut pick = |n: u32| draw.next_u32() % n;
    let mut cells = Vec::new();
    for _ in 0..1 + pick(4) {
        let vci = VCIS[usize::from(pick(5) == 0)];
        let marks = (pick(4) == 0, pick(4) == 0);
        let mut middle = false;
        for _ in 0..1 + pick(20) {
            let kind = match pick(40) {
                0 => Kind::Damaged,
                1 => Kind::Single(41 + pick(8) as u16),
                2 => Kind::Single(0),
                // Not two in a row: of those, a row is counted and summed up in other ways.
                3 if !middle => Kind::Middle,
                _ => Kind::Single(1 + pick(30) as u16),
            };
            middle = matches!(kind, Kind::Middle);
            cells.push(cell(format, vci, marks, kind));
        }
    }
    cells
}

/// Gives both worlds the same and compares them; what they saw.
fn compare(worlds: &mut [World; 2], now: Time, cells: &[Vec<u8>], what: &str) -> Seen {
    let [by_row, by_cell] = worlds.each_mut().map(|world| {
        world.feed(now, cells);
        world.look()
    });
    assert_eq!(by_row.outcomes, by_cell.outcomes, "{what}");
    assert_eq!(by_row.told, by_cell.told, "{what}");
    assert_eq!(by_row.charges, by_cell.charges, "{what}");
    assert_eq!(by_row.memory, by_cell.memory, "{what}");
    assert_eq!(by_row.stats, by_cell.stats, "{what}");
    assert_eq!(by_row.infos, by_cell.infos, "{what}");
    assert!(by_cell.longest <= 1, "{what}");
    for info in by_row.infos.iter().flatten() {
        for world in &*worlds {
            let of = (info.request.port, info.request.address);
            let ended = world.board.ended.get(&of).cloned().unwrap_or_default();
            let counted = (info.stats.pdus_delivered, info.stats.pdus_discarded);
            assert_eq!(ended, counted, "{what}");
        }
    }
    by_row
}

/// Whether nothing in the adapters themselves tells the worlds apart.
fn compare_states([by_row, by_cell]: &[World; 2], what: &str) {
    assert!(by_row.state() == by_cell.state(), "states: {what}");
}

fn worlds(format: CellFormat, buffer: u32, receive: Receive) -> [World; 2] {
    [Config::BUDGET_MAX, 1].map(|budget| World::new(budget, format, buffer, receive))
}

#[test]
fn rows_and_single_cells_give_the_same_state_memory_and_events() {
    for (at, receive) in contracts().into_iter().enumerate() {
        let mut reasons = BTreeMap::new();
        let mut longest = 0;
        let mut delivered = 0;
        for seed in 0..8 {
            let format = [CellFormat::NoHec, CellFormat::WithHec][seed as usize % 2];
            let buffer = BUFFERS[seed as usize / 2 % 2];
            let mut worlds = worlds(format, buffer, receive);
            let mut draw = Pcg64Mcg::seed_from_u64(seed);
            let mut now = Time::from_ns(1_000_000);
            for burst in 0..40 {
                now = now.plus_ns(u64::from(draw.next_u32() % 40_000));
                let cells = draw_burst(&mut draw, format);
                let what = format!("contract {at}, seed {seed}, burst {burst}");
                let seen = compare(&mut worlds, now, &cells, &what);
                longest = longest.max(seen.longest);
                for outcome in seen.outcomes {
                    match outcome {
                        CellOutcome::Discarded(reason) => *reasons.entry(reason).or_insert(0) += 1,
                        CellOutcome::Delivered => delivered += 1,
                        _ => {}
                    }
                }
                let keep = u64::from(draw.next_u32() % SLOTS);
                if draw.next_u32() % 3 > 0 {
                    worlds.iter_mut().for_each(|world| world.release(keep));
                }
            }
            compare_states(&worlds, &format!("contract {at}, seed {seed}"));
        }
        // A comparison of nothing would hold as well.
        let told = receive.notification != Notification::Polled || receive.queue_threshold > 0;
        let alone = told || receive.sustained.is_some();
        assert_eq!(longest > 1, !alone, "contract {at}: {longest}");
        assert!(delivered > 1_000, "contract {at}: {delivered}");
        let mut expected = vec![Discard::CrcError, Discard::LengthError, Discard::Aborted];
        expected.push(Discard::BufferFull);
        if receive.rate.is_none() {
            expected.push(Discard::QueueFull);
        } else if receive.excess == Excess::Discard {
            expected.push(Discard::NonConforming);
        }
        for reason in expected {
            assert!(
                reasons.contains_key(&reason),
                "contract {at}: no {reason:?}"
            );
        }
    }
}

const GOOD: Kind = Kind::Single(30);

/// A row of `kinds` to a fresh adapter; what became of each cell, and the PDUs delivered together.
fn row(receive: Receive, buffer: u32, kinds: &[Kind]) -> (Vec<CellOutcome>, u32) {
    let format = CellFormat::NoHec;
    let cells: Vec<_> = kinds
        .iter()
        .map(|&kind| cell(format, VCIS[0], (false, false), kind))
        .collect();
    let mut worlds = worlds(format, buffer, receive);
    let seen = compare(&mut worlds, Time::from_ns(1_000_000), &cells, "a row");
    compare_states(&worlds, "a row");
    (seen.outcomes, seen.longest)
}

#[test]
fn a_row_goes_on_behind_a_damaged_pdu() {
    let mut kinds = [GOOD; 20];
    kinds[8] = Kind::Damaged;
    let (outcomes, longest) = row(receive(Notification::Polled), 4_096, &kinds);
    let mut expected = [CellOutcome::Delivered; 20];
    expected[8] = CellOutcome::Discarded(Discard::CrcError);
    assert_eq!(outcomes, expected);
    assert_eq!(longest, 11);
}

#[test]
fn a_row_begins_behind_a_pdu_in_progress() {
    let mut kinds = [GOOD; 20];
    kinds[0] = Kind::Middle;
    let contract = Receive {
        max_sdu: 80,
        ..receive(Notification::Polled)
    };
    let (outcomes, longest) = row(contract, 4_096, &kinds);
    assert_eq!(outcomes[0], CellOutcome::Accepted);
    assert_eq!(outcomes[1], CellOutcome::Discarded(Discard::CrcError));
    assert_eq!(outcomes[2..], [CellOutcome::Delivered; 18]);
    assert_eq!(longest, 18);
}

#[test]
fn a_row_ends_where_the_buffer_or_the_queue_is_full() {
    for (buffer, room, reason) in [
        (1_024, 16, Discard::BufferFull),
        (4_096, SLOTS as usize, Discard::QueueFull),
    ] {
        let (outcomes, longest) = row(receive(Notification::Polled), buffer, &[GOOD; 40]);
        assert_eq!(outcomes[..room], vec![CellOutcome::Delivered; room]);
        let refused = CellOutcome::Discarded(reason);
        assert_eq!(outcomes[room..], vec![refused; 40 - room]);
        assert_eq!(longest as usize, room);
    }
}

#[test]
fn a_row_beyond_the_contract_is_refused_from_the_same_pdu_on() {
    // The first counts from the earliest arrival, 15 PDU times ago; CDVT, a PDU and the clump are
    // tolerated beyond: 1 + 15 + 5 + 1 + 3.
    let contract = Receive {
        rate: CellRate::new(1_000_000),
        cdvt_ns: 5_000,
        ..receive(Notification::Polled)
    };
    let (outcomes, _) = row(contract, 4_096, &[GOOD; 30]);
    assert_eq!(outcomes[..25], [CellOutcome::Delivered; 25]);
    let refused = CellOutcome::Discarded(Discard::NonConforming);
    assert_eq!(outcomes[25..], [refused; 5]);
}
