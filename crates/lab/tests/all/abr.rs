//! ABR at two adapters with a line between them each way, and whatever happens to RM cells there.

use cellgate_core::Time;
use cellgate_core::adapter::{
    AbrStats, Adapter, Assumptions, AttachmentIndex, Command, Config, Interleaving, Marks,
    Notification, Outcome, Planted, PortConfig, PortIndex, Terms, VcId, VcStats,
};
use cellgate_core::contract::{AbrRate, CellRate, RateReason, TrafficContract};
use cellgate_core::queue::layout::{SLOTS, attachment, connection};
use cellgate_core::queue::{Doorbell, TransmitDescriptor, Words};
use cellgate_core::wire::{CellFormat, Header, HeaderForm, Pti, Rm, RmRate, VpiVci};
use cellgate_lab::memory::{LabAttachment, LabRegion, RegionSizes};
use cellgate_lab::{LabBoard, LabCommand, OF_ABR, Trace};

use cellgate_core::adapter::{Attachment, Region};

const PORT: PortIndex = PortIndex(0);
const STEP_NS: u64 = 50_000;
const TRANSMIT_SLOTS: u32 = 64;
/// From here to there.
const DELAY_NS: u64 = 200_000;
/// 9 cells.
const SDU: u32 = 400;

type Checked = Result<(), String>;
type Cell = [u8; 52];

fn same<T: PartialEq + core::fmt::Debug>(what: &str, is: T, should: T) -> Checked {
    match is == should {
        true => Ok(()),
        false => Err(format!("{what}: {is:?}, not {should:?}")),
    }
}

fn check(what: &str, holds: bool, is: impl core::fmt::Debug) -> Checked {
    match holds {
        true => Ok(()),
        false => Err(format!("{what}: {is:?}")),
    }
}

/// A VC of an end, and whether its client always has something to send and reads what comes.
struct Open {
    id: VcId,
    region: LabRegion,
    sends: bool,
    reads: bool,
}

struct End {
    adapter: Adapter<LabRegion, LabAttachment>,
    board: LabBoard,
    client: LabAttachment,
    vcs: Vec<Open>,
    /// What it has sent.
    sent: Vec<Cell>,
}

struct World {
    ends: [End; 2],
    now: Time,
}

impl End {
    /// An end that is overloaded by so many cells that wait, if it ever is: then it takes five
    /// cells a step.
    fn new(line: u32, overload_cells: u32, planted: Option<Planted>) -> Self {
        let config = Config {
            vcs: 16,
            leaves: 2,
            attachments: 1,
            ports: vec![PortConfig {
                form: HeaderForm::Nni,
                format: CellFormat::NoHec,
                budget: if overload_cells > 0 { 5 } else { 512 },
                discard_unread: false,
                real_time: false,
                line_rate: CellRate::new(line).unwrap(),
            }],
            gap_max_ns: 0,
            clump_cells: 64,
            overload_cells,
        };
        let client = LabAttachment::new(64, 16);
        let mut end = Self {
            adapter: Adapter::new(config, Time::ZERO).unwrap(),
            board: LabBoard::new(1, planted),
            client: client.clone(),
            vcs: Vec::new(),
            sent: Vec::new(),
        };
        end.ask(Command::Attach {
            ticket: 0,
            attachment: client,
        });
        end
    }

    fn ask(&mut self, command: LabCommand) -> Outcome {
        self.board.order(0, command);
        self.board.trace.clear();
        self.board.poll(Time::ZERO, 0);
        self.adapter.step(Time::ZERO, &mut self.board);
        let ended = self.board.trace.drain(..).find_map(|trace| match trace {
            Trace::Completed(completion) => Some(completion.result),
            _ => None,
        });
        ended.expect("ended at once").expect("not refused")
    }

    fn open(&mut self, vci: u16, contract: &str, sends: bool, line: u32) {
        let contract: TrafficContract = contract.parse().unwrap();
        let assumptions = Assumptions {
            line: CellRate::new(line).unwrap(),
            cdvt_ns: 1_000_000,
            interleaving: Interleaving {
                mids: 1,
                reassembly_timeout_ns: 0,
            },
            notification: Notification::Polled,
            marks: Marks::None,
            transmit_pdus: None,
            receive_pdus: 0,
            wake_up_ns: 0,
            gap_max_ns: 0,
            clump_cells: 64,
        };
        let terms = Terms::of(&contract, &assumptions).unwrap();
        let region = LabRegion::new(RegionSizes {
            receive_buffer: 1 << 16,
            receive_slots: 128,
            transmit_slots: TRANSMIT_SLOTS,
            transmit_len: 4_096,
            stable: true,
        });
        let address = VpiVci::new(0, vci).unwrap();
        let outcome = self.ask(Command::Open {
            ticket: 0,
            request: terms.request(address, PORT, AttachmentIndex(0)),
            region: region.clone(),
        });
        let Outcome::Vc(id) = outcome else {
            panic!("{outcome:?}");
        };
        for slot in 0..TRANSMIT_SLOTS {
            let descriptor = TransmitDescriptor {
                offset: 0,
                len: SDU,
                uu: 0,
                cpi: 0,
                clp: false,
                mid: 0,
                generation: id.generation,
            };
            let at = SLOTS + slot as usize * 16;
            region.from_client().copy_in(at, &descriptor.emit());
        }
        self.vcs.push(Open {
            id,
            region,
            sends,
            reads: true,
        });
    }

    /// The clients send, and read.
    fn work(&mut self) {
        for open in &self.vcs {
            let (mine, theirs) = (open.region.from_client(), open.region.from_adapter());
            if open.reads {
                let head = theirs.load(connection::RECEIVE_HEAD);
                mine.store(connection::RECEIVE_TAIL, head);
            }
            if open.sends {
                let tail = theirs.load(connection::TRANSMIT_TAIL);
                let head = tail + u64::from(TRANSMIT_SLOTS);
                mine.store(connection::TRANSMIT_HEAD, head);
                let words = self.client.from_client();
                let head = words.load(attachment::DOORBELL_HEAD);
                let bells = self.client.from_adapter();
                if head - bells.load(attachment::DOORBELL_TAIL) < 16 {
                    let bell = Doorbell {
                        vc: open.id.index.0.into(),
                        generation: open.id.generation,
                    };
                    words.copy_in(SLOTS + (head % 16) as usize * 8, &bell.emit());
                    words.store(attachment::DOORBELL_HEAD, head + 1);
                }
            }
        }
        let events = self.client.from_adapter().load(attachment::EVENT_HEAD);
        let words = self.client.from_client();
        words.store(attachment::EVENT_TAIL, events);
    }

    fn stats(&self, vc: usize) -> VcStats {
        self.adapter.info(self.vcs[vc].id.index).unwrap().stats
    }

    fn abr(&self) -> AbrStats {
        self.stats(0).abr.unwrap()
    }
}

impl World {
    /// Two ends with a VC of this contract at each; the first sends.
    fn new(contract: &str, line: u32, planted: Option<Planted>) -> Self {
        Self::between(
            [contract, contract].map(str::to_owned),
            line,
            [0, 0],
            planted,
        )
    }

    /// Two ends with a contract each, and how many cells overload each.
    fn between(
        contracts: [String; 2],
        line: u32,
        overload_cells: [u32; 2],
        planted: Option<Planted>,
    ) -> Self {
        let mut ends = overload_cells.map(|cells| End::new(line, cells, planted));
        for ((end, contract), sends) in ends.iter_mut().zip(contracts).zip([true, false]) {
            end.open(100, &contract, sends, line);
        }
        Self {
            ends,
            now: Time::from_ns(1_000_000_000),
        }
    }

    /// So many milliseconds; `line` changes, or loses, what passes from an end.
    fn run(&mut self, ms: u64, mut line: impl FnMut(usize, &mut Cell) -> bool) -> Checked {
        for _ in 0..ms * 1_000_000 / STEP_NS {
            self.now = self.now.plus_ns(STEP_NS);
            for from in 0..2 {
                let end = &mut self.ends[from];
                end.work();
                end.board.trace.clear();
                end.board.poll(self.now, 256);
                end.adapter.step(self.now, &mut end.board);
                let traces = end.board.trace.drain(..);
                let cells = traces.filter_map(|trace| match trace {
                    Trace::Transmitted { cells, .. } => Some(cells),
                    _ => None,
                });
                let mut passed = Vec::new();
                for cell in cells.collect::<Vec<_>>().concat().as_chunks::<52>().0 {
                    end.sent.push(*cell);
                    let mut cell = *cell;
                    if line(from, &mut cell) {
                        passed.push(cell);
                    }
                }
                for cell in passed {
                    let at = self.now.plus_ns(DELAY_NS);
                    self.ends[1 - from].board.arrive(at, PORT, cell);
                }
                check(
                    "conserved",
                    self.ends[from].adapter.stats().is_conserved(),
                    self.ends[from].adapter.stats(),
                )?;
            }
        }
        Ok(())
    }

    /// Cells a second that the VC of the first end sends in so many milliseconds.
    fn rate(
        &mut self,
        vc: usize,
        ms: u64,
        line: fn(usize, &mut Cell) -> bool,
    ) -> Result<u64, String> {
        let before = self.ends[0].stats(vc).cells_transmitted;
        self.run(ms, line)?;
        Ok((self.ends[0].stats(vc).cells_transmitted - before) * 1_000 / ms)
    }
}

fn header(cell: &Cell) -> Header {
    Header::parse(*cell.first_chunk().unwrap())
}

fn rm(cell: &Cell) -> Option<Rm> {
    let is_rm = header(cell).pti() == Pti::ResourceManagement;
    is_rm.then(|| Rm::parse(cell.last_chunk().unwrap()).valid().unwrap())
}

fn rewrite(cell: &mut Cell, rm: Rm) {
    cell[4..].copy_from_slice(&rm.emit());
}

fn clean(_: usize, _: &mut Cell) -> bool {
    true
}

/// All data is marked.
fn marking(_: usize, cell: &mut Cell) -> bool {
    if let Pti::User { .. } = header(cell).pti() {
        cell[3] |= 0b0100;
    }
    true
}

/// Nothing comes back.
fn silent(from: usize, _: &mut Cell) -> bool {
    from == 0
}

/// The network names a rate of nothing.
fn closed(from: usize, cell: &mut Cell) -> bool {
    if from == 1
        && let Some(found) = rm(cell)
    {
        let er = RmRate(0);
        rewrite(cell, Rm { er, ..found });
    }
    true
}

const LINE: u32 = 100_000;
const ABR: &str = "abr,aal5:pcr=50000,min_pcr=1000,icr=4000,tbe=128,max_sdu=400";

/// RM cells leave in their places and come back turned; ACR rises to what they name; no SDU has
/// any of them.
fn places(bug: Option<Planted>) -> Checked {
    let mut world = World::new(ABR, LINE, bug);
    world.run(200, clean)?;
    let [a, b] = &world.ends;
    let at = |cell: &Cell| rm(cell).is_some_and(|rm| !rm.backward);
    let forward: Vec<usize> = (0..a.sent.len()).filter(|n| at(&a.sent[*n])).collect();
    check(
        "the first is forward",
        forward.first() == Some(&0),
        &forward,
    )?;
    let apart = forward
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect::<Vec<_>>();
    check("every 32nd", apart.iter().all(|cells| *cells == 32), &apart)?;
    check("many", forward.len() > 100, forward.len())?;
    let sequence = b.sent.iter().filter_map(rm);
    let back: Vec<_> = sequence.filter(|rm| rm.backward).collect();
    check(
        "they come back",
        back.len() + 20 >= forward.len(),
        back.len(),
    )?;
    check("in order", back.is_sorted_by_key(|rm| rm.ccr.0), ())?;
    let (sent, got) = (a.stats(0), b.stats(0));
    same(
        "answered",
        got.cells_answered,
        b.abr().forward_received + b.abr().backward_received,
    )?;
    same("nothing is thrown away", got.cells_discarded.total(), 0)?;
    let rms = a.abr().forward_sent + a.abr().backward_sent;
    let data = sent.cells_transmitted - rms;
    let on_way = 60;
    let arrived = got.cells_delivered + got.cells_held;
    check(
        "data arrives",
        arrived <= data && arrived + on_way >= data,
        (arrived, data),
    )?;
    let peak = AbrRate::of_rm(RmRate::at_most(50_000)).cell_s();
    same("ACR", a.abr().allowed_cell_s, peak)?;
    same("why", a.abr().reason, RateReason::Increase)?;
    let rate = world.rate(0, 100, clean)?;
    check("kept", rate.abs_diff(peak.into()) <= 20, rate)
}

/// EFCI lowers the rate to MCR, and cells leave at that; without it the rate rises.
fn marks(bug: Option<Planted>) -> Checked {
    let mut world = World::new(ABR, LINE, bug);
    world.run(100, clean)?;
    let high = world.ends[0].abr().allowed_cell_s;
    world.run(600, marking)?;
    let abr = world.ends[0].abr();
    same("down to MCR", abr.allowed_cell_s, 1_000)?;
    same("why", abr.reason, RateReason::Congestion)?;
    let rate = world.rate(0, 200, marking)?;
    check("sent", (980..=1_020).contains(&rate), rate)?;
    world.run(2_000, clean)?;
    check(
        "up",
        world.ends[0].abr().allowed_cell_s >= high,
        world.ends[0].abr(),
    )
}

/// A source whose RM cells are lost is at MCR when it was computed to be.
fn silence(bug: Option<Planted>) -> Checked {
    let mut world = World::new(ABR, LINE, bug);
    world.run(100, clean)?;
    let from = world.ends[0].abr();
    let terms = world.ends[0]
        .adapter
        .info(world.ends[0].vcs[0].id.index)
        .unwrap();
    let source = terms.request.transmit.unwrap().abr.unwrap().transmit;
    let most = source
        .forwards_to_floor(AbrRate::of_cell_s(from.allowed_cell_s + 1))
        .unwrap();
    // Each forward RM cell is 32 cells, at no less than MCR.
    let most_ms = most * 32 * 1_000 / 1_000 + 10;
    let mut passed = 0;
    while world.ends[0].abr().allowed_cell_s > 1_000 && passed <= most_ms {
        world.run(1, silent)?;
        passed += 1;
    }
    let abr = world.ends[0].abr();
    same("MCR", abr.allowed_cell_s, 1_000)?;
    same("why", abr.reason, RateReason::Silence)?;
    let sent = abr.forward_sent - from.forward_sent;
    check(
        "no sooner, no later",
        sent.abs_diff(most) <= 2,
        (sent, most),
    )?;
    let rate = world.rate(0, 200, silent)?;
    check("MCR is kept", (980..=1_020).contains(&rate), rate)
}

/// Forged RM cells are counted by reason; the VC keeps its floor, and the others all they have.
fn forged(bug: Option<Planted>) -> Checked {
    let mut world = World::new(ABR, LINE, bug);
    let (voice, mut times) = ("cbr,aal5:pcr=20000,max_sdu=400", 0_u64);
    for (end, sends) in world.ends.iter_mut().zip([true, false]) {
        end.open(101, voice, sends, LINE);
    }
    world.run(100, clean)?;
    let before = (world.ends[0].abr(), world.ends[1].stats(1).pdus_delivered);
    let address = VpiVci::new(0, 100).unwrap();
    let back = Rm {
        protocol: Rm::ABR,
        backward: true,
        er: RmRate(0x7fff),
        ..Rm::default()
    };
    let forge = |rm: Rm, broken: bool| {
        let header = Header::new(address, Pti::ResourceManagement, false);
        let mut cell = [0; 52];
        cell[..4].copy_from_slice(&header.emit());
        cell[4..].copy_from_slice(&rm.emit());
        cell[20] ^= u8::from(broken);
        cell
    };
    let er = RmRate(0);
    let kinds = [
        forge(back, true),
        forge(
            Rm {
                protocol: 2,
                ..back
            },
            false,
        ),
        forge(back, false),
        forge(Rm { er, ..back }, false),
    ];
    for kind in kinds {
        for _ in 0..3 {
            times += 1;
            let at = world.now.plus_ns(times * 1_000_000);
            world.ends[0].board.arrive_between(at, PORT, kind);
        }
    }
    world.run(20, |from, _| from == 0)?;
    let abr = world.ends[0].abr();
    same("bad CRC", abr.crc_error, 3)?;
    same("wrong protocol", abr.wrong_protocol, 3)?;
    same("below the floor", abr.below_floor, 3)?;
    same("at the floor", abr.allowed_cell_s, 1_000)?;
    // More than anybody may send: thrown away, and none of the others notices.
    for _ in 0..200 {
        let at = world.now.plus_ns(1_000_000);
        world.ends[0].board.arrive_between(at, PORT, kinds[2]);
    }
    world.run(80, |from, _| from == 0)?;
    let abr = world.ends[0].abr();
    check("too many", abr.too_many > 30, abr.too_many)?;
    check("unasked", abr.unasked > 0, abr.unasked)?;
    let discarded = world.ends[0].stats(0).cells_discarded.total();
    same(
        "by reason",
        discarded,
        abr.crc_error + abr.wrong_protocol + abr.too_many,
    )?;
    let pdus = world.ends[1].stats(1).pdus_delivered - before.1;
    // 20,000 cells/s are 2,222 PDUs/s.
    check("voice", (220..=224).contains(&pdus), pdus)
}

/// MCR is kept beside guaranteed VCs and greedy best effort, which lose nothing by it.
fn floor(bug: Option<Planted>) -> Checked {
    let mut world = World::new("abr,aal5:pcr=50000,min_pcr=5000,max_sdu=400", LINE, bug);
    for (end, sends) in world.ends.iter_mut().zip([true, false]) {
        end.open(101, "cbr,aal5:pcr=80000,max_sdu=400", sends, LINE);
        end.open(102, "ubr,aal5:min_pcr=100000000,max_sdu=400", sends, LINE);
    }
    world.run(50, clean)?;
    let before = [0, 1, 2].map(|vc| world.ends[0].stats(vc).cells_transmitted);
    world.run(500, clean)?;
    let sent = [0, 1, 2].map(|vc| 2 * (world.ends[0].stats(vc).cells_transmitted - before[vc]));
    check("MCR", (5_000..=5_060).contains(&sent[0]), sent)?;
    check("guaranteed", (79_990..=80_010).contains(&sent[1]), sent)?;
    check("best effort has the rest", sent[2] >= 14_900, sent)
}

/// A receiver that is overloaded takes as much as MCR, and hardly more from a peer that sends more.
fn overload(bug: Option<Planted>) -> Checked {
    // Its adapter takes as many cells a step as the line brings: it never catches up.
    let mut world = World::between(
        ["20000", "5000"].map(|floor| format!("abr,aal5:pcr=50000,min_pcr={floor},max_sdu=400")),
        LINE,
        [0, 200],
        bug,
    );
    for (end, sends) in world.ends.iter_mut().zip([true, false]) {
        end.open(101, "cbr,aal5:pcr=30000,max_sdu=400", sends, LINE);
        end.open(102, "ubr,aal5:max_sdu=400", sends, LINE);
    }
    world.run(100, clean)?;
    let before = [0, 1, 2].map(|vc| world.ends[1].stats(vc));
    world.run(500, clean)?;
    let after = [0, 1, 2].map(|vc| world.ends[1].stats(vc));
    let pdus = [0, 1, 2].map(|vc| 2 * (after[vc].pdus_delivered - before[vc].pdus_delivered));
    let lost = |vc: usize| after[vc].pdus_discarded.total() - before[vc].pdus_discarded.total();
    check("guaranteed", lost(1) == 0 && pdus[1] > 3_300, pdus)?;
    check("best effort gives way", lost(2) > 2 * pdus[2], pdus)?;
    // MCR is 555 PDUs/s, and best effort is let in now and then, an eighth of what it sends.
    check("MCR", (550..=1_000).contains(&pdus[0]), pdus)
}

/// A source that has no rate, and no floor, asks out of rate, and goes on when it may.
fn probes(bug: Option<Planted>) -> Checked {
    let mut world = World::new("abr,aal5:pcr=50000,max_sdu=400", LINE, bug);
    world.run(100, clean)?;
    world.run(300, closed)?;
    same("no rate", world.ends[0].abr().allowed_cell_s, 0)?;
    let sent = world.ends[0].sent.len();
    world.run(1_000, closed)?;
    let probes = &world.ends[0].sent[sent..];
    let are_low = probes
        .iter()
        .all(|cell| rm(cell).is_some() && header(cell).clp());
    check("of low priority", are_low, ())?;
    // The other end has no rate, either: it asks, too, and is answered.
    for backward in [false, true] {
        let rms = probes.iter().filter_map(rm);
        let sent = rms.filter(|rm| rm.backward == backward).count();
        check("10 a second", (9..=11).contains(&sent), (backward, sent))?;
    }
    // It rests until the next of them.
    let end = &world.ends[0];
    let rest = end.adapter.rest(world.now, &end.board).until();
    let soon = world.now.plus_ns(100_000_000);
    check("rests until then", rest.is_some_and(|at| at <= soon), rest)?;
    world.run(1_000, clean)?;
    check(
        "goes on",
        world.ends[0].abr().allowed_cell_s > 40_000,
        world.ends[0].abr(),
    )
}

/// A reader that is too slow slows its sender, unasked at first.
fn slow_reader(bug: Option<Planted>) -> Checked {
    let mut world = World::new(ABR, LINE, bug);
    world.run(100, clean)?;
    world.ends[1].vcs[0].reads = false;
    let high = world.ends[0].abr().allowed_cell_s;
    // Forward RM cells get lost: only notices come.
    let only_notices = |from: usize, cell: &mut Cell| {
        rm(cell).is_none_or(|rm| from == 1 && rm.backward_notification)
    };
    world.run(450, only_notices)?;
    let abr = world.ends[0].abr();
    let noticed = world.ends[1].sent.iter().filter_map(rm);
    let noticed = noticed.filter(|rm| rm.backward_notification).count();
    check("noticed", (2..=5).contains(&noticed), noticed)?;
    check(
        "slower",
        abr.allowed_cell_s < high,
        (abr.allowed_cell_s, high),
    )
}

/// A source that its reader has stopped in the middle of a PDU goes on when the reader does.
fn stopped_reader(bug: Option<Planted>) -> Checked {
    let contract = "abr,aal5:pcr=50000,rdf=1,max_sdu=4000";
    let mut world = World::new(contract, LINE, bug);
    world.run(100, clean)?;
    for _ in 0..5 {
        world.ends[1].vcs[0].reads = false;
        world.run(700, clean)?;
        world.ends[1].vcs[0].reads = true;
        world.run(1_500, clean)?;
        let abr = world.ends[0].abr();
        check("goes on", abr.allowed_cell_s > 40_000, abr)?;
    }
    Ok(())
}

type Scene = (&'static str, fn(Option<Planted>) -> Checked);

const SCENES: [Scene; 9] = [
    ("places", places),
    ("marks", marks),
    ("silence", silence),
    ("forged", forged),
    ("floor", floor),
    ("overload", overload),
    ("probes", probes),
    ("slow_reader", slow_reader),
    ("stopped_reader", stopped_reader),
];

#[test]
fn abr_follows_the_network_and_keeps_its_floor() {
    for (scene, holds) in SCENES {
        assert_eq!(holds(None), Ok(()), "{scene}");
    }
}

#[test]
fn every_bug_of_abr_is_found() {
    for bug in OF_ABR {
        let found = SCENES.iter().find(|(_, holds)| holds(Some(*bug)).is_err());
        assert!(found.is_some(), "{bug:?} survives");
        println!("{bug:?}: {}", found.map_or("", |(scene, _)| scene));
    }
}
