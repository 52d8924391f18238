use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use cellgate_core::Time;
use cellgate_core::adapter::{
    AttachmentIndex, Board, Command, Completion, Config, Outcome, PduEnd, PortIndex, PortStats,
};
use cellgate_core::wire::{CellFormat, VpiVci};

use super::due::{Class, Due};
use super::memory::{HostAttachment, HostRegion};
use super::sources::Sources;
use super::wake::ring;
use super::wakers::{Call, FirmwareCpu};
use crate::link::{CellSink, CellSource, PortLine, QueueCounters, ReceiveEnd, Shown, TransmitEnd};
use crate::sys::probes;

/// What the service thread asks of the firmware thread.
pub(super) enum HostCommand {
    /// Something for the adapter.
    Adapter(Command<HostRegion, HostAttachment>),
    /// A new client, and how it is woken.
    Attach {
        ticket: u64,
        /// The client's memory.
        attachment: HostAttachment,
        /// Wakes the client.
        bell: Call,
    },
    /// A port receives from, or transmits into, something else from now on.
    Port {
        ticket: u64,
        port: PortIndex,
        /// Its new ends.
        ends: [Option<PortEnd>; 2],
    },
    /// The line on which a port receives is impaired so from now on, or clean.
    Line {
        ticket: u64,
        port: PortIndex,
        line: Option<Box<PortLine>>,
    },
}

/// The adapter's end of one direction of a port, and where it counts.
pub(super) enum PortEnd {
    /// Cells come from here.
    Receive(ReceiveEnd, Arc<QueueCounters>),
    /// Cells go there.
    Transmit(TransmitEnd, Arc<QueueCounters>),
    /// Nothing comes from here.
    Silence,
    /// Nobody has the other end: so many cells went there and were dropped.
    DeadLine(u64, Arc<QueueCounters>),
}

impl PortEnd {
    /// The socket of a pseudowire.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Receive(source, _) => source.socket(),
            Self::Transmit(sink, _) => sink.socket(),
            Self::Silence | Self::DeadLine(..) => None,
        }
    }
}

/// The end of a [`HostCommand`], with all that the firmware thread has given up: the service
/// thread frees it.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation of the firmware thread"
)]
pub(super) enum HostCompletion {
    Adapter(Completion<HostRegion, HostAttachment>, Option<Call>),
    /// Of a port's new ends: those used before.
    Port {
        ticket: u64,
        /// The former ends, or the new ones if there is no such port.
        former: [Option<PortEnd>; 2],
    },
    /// Of a port's new line: the one before.
    Line {
        ticket: u64,
        /// The former line, or the new one if there is no such port.
        former: Option<Box<PortLine>>,
    },
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepWork {
    /// Cells received and transmitted.
    pub(super) cells: usize,
    /// Commands taken and interrupts made.
    pub(super) others: usize,
    /// Cells came that this adapter has not sent, or a command.
    pub(super) came: bool,
}

impl StepWork {
    pub(super) const fn is_idle(self) -> bool {
        self.cells == 0 && self.others == 0
    }
}

/// One port. It begins with a dead line: nothing arrives, and what is sent is dropped and counted.
struct BoardPort {
    receive: Option<PortEnd>,
    strays: Arc<Shown<PortStats>>,
    line: Option<Box<PortLine>>,
    transmit: PortEnd,
    /// The port of this board that receives what this one transmits.
    leads_to: Option<usize>,
    /// A port of this board transmits what this one receives.
    is_fed_here: bool,
    full_since: Option<Time>,
}

impl BoardPort {
    fn new((line, strays): (Arc<QueueCounters>, Arc<Shown<PortStats>>)) -> Self {
        Self {
            receive: None,
            strays,
            line: None,
            transmit: PortEnd::DeadLine(0, line),
            leads_to: None,
            is_fed_here: false,
            full_since: None,
        }
    }

    #[inline(always)]
    fn receiver(&mut self) -> Option<&mut ReceiveEnd> {
        match &mut self.receive {
            Some(PortEnd::Receive(receiver, _)) => Some(receiver),
            _ => None,
        }
    }

    #[inline(always)]
    fn sender(&mut self) -> Option<&mut TransmitEnd> {
        match &mut self.transmit {
            PortEnd::Transmit(sender, _) => Some(sender),
            _ => None,
        }
    }

    /// Whether cells wait that a step at `now` would take.
    fn waits(&self, now: Time) -> bool {
        let here = match &self.receive {
            Some(PortEnd::Receive(receiver, _)) => receiver.waiting() > 0 || !receiver.is_drained(),
            _ => false,
        };
        let line = self.line.as_ref();
        let due = line.and_then(|line| line.impaired.next_deadline());
        here || due.is_some_and(|due| due <= now)
    }

    /// Whether nothing can be transmitted at `now`.
    fn is_held(&self, now: Time) -> bool {
        let held = |since| now.since_ns(since) < HostBoard::HOLD_MAX_NS;
        self.full_since.is_some_and(held)
    }

    /// When the port wants a step at the latest: a cell comes off its line, a datagram waits, or
    /// its reader, who wakes nobody, may have made room.
    fn next_deadline(&self, now: Time) -> Option<Time> {
        let line = self.line.as_ref();
        let line = line.and_then(|line| line.impaired.next_deadline());
        let sender = match &self.transmit {
            PortEnd::Transmit(sender, _) => sender.next_deadline(),
            _ => None,
        };
        let room = self.is_held(now).then(|| now.plus_ns(HostBoard::ROOM_NS));
        line.into_iter().chain(sender).chain(room).min()
    }

    /// Shows the counters of both ends to other threads.
    #[inline(always)]
    fn publish(&mut self, now: Time) {
        if let Some(PortEnd::Receive(receiver, counters)) = &mut self.receive {
            receiver.publish(now, counters);
        }
        if let Some(line) = &self.line {
            line.publish();
        }
        match &self.transmit {
            PortEnd::Transmit(sender, counters) => sender.publish(counters),
            PortEnd::DeadLine(dropped, counters) => counters.publish_dropped(*dropped),
            PortEnd::Receive(..) | PortEnd::Silence => {}
        }
    }
}

/// A bell whose client the adapter adds or removes just now.
enum Changing {
    Attach(u64, Call),
    Detach(u64, AttachmentIndex),
}

/// The firmware's world: ports, commands from the service thread, eventfds.
pub(super) struct HostBoard {
    now: Time,
    work: StepWork,
    steps: u32,
    /// When the counters were shown last, and whether this step shows them.
    shown: Time,
    shows: bool,
    ports: Vec<BoardPort>,
    /// Ports from this one on have never been connected to anything.
    connected: usize,
    bells: Vec<Option<Call>>,
    /// Clients to wake at the end of the step, and whether each is among them.
    due: Due,
    changing: Option<Changing>,
    commands: Receiver<HostCommand>,
    posted: Arc<AtomicU64>,
    taken: u64,
    completions: SyncSender<HostCompletion>,
    service: Arc<OwnedFd>,
    cpu: Arc<FirmwareCpu>,
}

/// The firmware's ends of the channels to the service thread.
pub(super) struct BoardChannels {
    pub(super) commands: Receiver<HostCommand>,
    /// How many were ever sent: looking at this costs less than looking into the channel.
    pub(super) posted: Arc<AtomicU64>,
    /// Completions; the channel has room for as many as there can be commands on their way.
    pub(super) completions: SyncSender<HostCompletion>,
    /// Wakes the service thread.
    pub(super) service: Arc<OwnedFd>,
    /// Where the firmware thread runs.
    pub(super) cpu: Arc<FirmwareCpu>,
}

impl HostBoard {
    /// How long a full transmit queue holds the port back. A reader that does not read for longer
    /// is a dead line, and a line drops.
    const HOLD_MAX_NS: u64 = 100_000_000;

    /// How soon a full transmit queue is looked at again in a rest.
    const ROOM_NS: u64 = 100_000;

    /// Steps from one look at the ports' counters to the next.
    const PUBLISH_EVERY: u32 = 256;
    /// The same where steps are far apart, because others have the CPU.
    const PUBLISH_EVERY_NS: u64 = 10_000_000;

    /// What a dead line takes at once.
    const DEAD_LINE_CELLS: usize = 1024;

    /// A board whose ports count in `lines` what they send before anybody listens, and what belongs
    /// to no VC.
    pub(super) fn new(
        config: &Config,
        lines: Vec<(Arc<QueueCounters>, Arc<Shown<PortStats>>)>,
        channels: BoardChannels,
    ) -> Self {
        Self {
            now: Time::ZERO,
            work: StepWork::default(),
            steps: 0,
            shown: Time::ZERO,
            shows: false,
            ports: lines.into_iter().map(BoardPort::new).collect(),
            connected: 0,
            bells: (0..config.attachments).map(|_| None).collect(),
            due: Due::new(config.attachments),
            changing: None,
            commands: channels.commands,
            posted: channels.posted,
            taken: 0,
            completions: channels.completions,
            service: channels.service,
            cpu: channels.cpu,
        }
    }

    /// Looks at every port once; until the next look a step sees only the cells there are now.
    #[inline(always)]
    pub(super) fn poll(&mut self) {
        for port in &mut self.ports[..self.connected] {
            if let Some(receiver) = port.receiver() {
                receiver.poll(self.now);
            }
        }
    }

    #[inline(always)]
    pub(super) fn begin(&mut self, now: Time) {
        self.now = now;
        self.work = StepWork::default();
    }

    /// What the step did. Every so often the ports' counters are shown to other threads: a step
    /// that reads what senders count would slow both down.
    #[inline(always)]
    pub(super) fn end(&mut self) -> StepWork {
        self.wake_due();
        for port in &mut self.ports[..self.connected] {
            // Where both ends are here, this very step has received what was sent.
            let is_here = port.leads_to.is_some();
            if let Some(sender) = port.sender().filter(|_| !is_here) {
                sender.end_step(self.now);
            }
        }
        self.steps = self.steps.wrapping_add(1);
        self.shows = self.steps.is_multiple_of(Self::PUBLISH_EVERY)
            || self.now.since_ns(self.shown) >= Self::PUBLISH_EVERY_NS;
        if self.shows {
            self.cpu.note();
            self.publish();
        }
        self.work
    }

    fn publish(&mut self) {
        self.shown = self.now;
        for port in &mut self.ports {
            port.publish(self.now);
        }
    }

    /// Shows other threads the cells of no VC, as often as the ports' counters.
    #[inline(always)]
    pub(super) fn show_strays(&self, of: impl Fn(PortIndex) -> Option<PortStats>) {
        if self.shows {
            self.publish_strays(of);
        }
    }

    fn publish_strays(&self, of: impl Fn(PortIndex) -> Option<PortStats>) {
        for (at, port) in self.ports.iter().enumerate() {
            port.strays
                .publish(of(PortIndex(at as u8)).unwrap_or_default());
        }
    }

    /// Shows all counters before a rest.
    pub(super) fn show(&mut self, of: impl Fn(PortIndex) -> Option<PortStats>) {
        self.publish();
        self.publish_strays(of);
    }

    /// Looks at every port once more before a rest.
    pub(super) fn look(&mut self) {
        for port in &mut self.ports[..self.connected] {
            if let Some(receiver) = port.receiver() {
                receiver.look_again();
            }
        }
    }

    /// Has sockets that took nothing end the rest when they take more.
    pub(super) fn await_room(&self, sources: &Sources) {
        for port in &self.ports[..self.connected] {
            if let PortEnd::Transmit(sender, _) = &port.transmit
                && let Some(socket) = sender.full_socket()
            {
                sources.await_room(socket);
            }
        }
    }

    /// A rest was over at `now`.
    pub(super) fn resume(&mut self, now: Time) {
        self.now = now;
        for port in &mut self.ports[..self.connected] {
            if let Some(receiver) = port.receiver() {
                receiver.resume();
            }
        }
    }

    /// Has each client woken that the step interrupted, those of guaranteed connections first: a
    /// system call for each user and class at most.
    #[inline(always)]
    fn wake_due(&mut self) {
        self.due.drain(|index, class| {
            if let Some(Some(bell)) = self.bells.get_mut(usize::from(index.0)) {
                bell.wake(class);
            }
        });
    }

    /// Sends a completion. The channel cannot be full: the service thread has no more commands on
    /// their way than it has slots.
    fn finish(&mut self, completion: HostCompletion) {
        if self.completions.try_send(completion).is_ok() {
            ring(&self.service);
        }
    }

    fn settle(&mut self, completion: &Completion<HostRegion, HostAttachment>) -> Option<Call> {
        match self.changing.take() {
            Some(Changing::Attach(ticket, bell)) if ticket == completion.ticket => match completion
                .result
            {
                Ok(Outcome::Attached(index)) => match self.bells.get_mut(usize::from(index.0)) {
                    Some(slot) => slot.replace(bell),
                    None => Some(bell),
                },
                _ => Some(bell),
            },
            Some(Changing::Detach(ticket, index)) if ticket == completion.ticket => {
                match completion.result {
                    Ok(_) => self.bells.get_mut(usize::from(index.0))?.take(),
                    Err(_) => None,
                }
            }
            other => {
                self.changing = other;
                None
            }
        }
    }

    /// Gives a port other ends. The counters of the former ones stand as they are.
    fn connect(&mut self, ticket: u64, port: PortIndex, ends: [Option<PortEnd>; 2]) {
        let index = usize::from(port.0);
        let former = match self.ports.get_mut(index) {
            Some(port) => {
                self.connected = self.connected.max(index + 1);
                port.publish(self.now);
                port.full_since = None;
                let former = ends.map(|end| match end {
                    Some(end @ PortEnd::Receive(..)) => port.receive.replace(end),
                    Some(PortEnd::Silence) => port.receive.take(),
                    Some(end) => Some(std::mem::replace(&mut port.transmit, end)),
                    None => None,
                });
                self.trace_links(index);
                former
            }
            None => ends,
        };
        self.finish(HostCompletion::Port { ticket, former });
    }

    /// Finds out which links begin and end on this board, after the ends of a port have changed.
    fn trace_links(&mut self, changed: usize) {
        for from in 0..self.ports.len() {
            let to = match self.ports[from].leads_to {
                _ if from == changed => (0..self.ports.len()).find(|to| self.leads(from, *to)),
                _ if self.leads(from, changed) => Some(changed),
                was => was.filter(|to| *to != changed),
            };
            self.ports[from].leads_to = to;
        }
        for to in 0..self.ports.len() {
            let mut ports = self.ports.iter();
            self.ports[to].is_fed_here = ports.any(|port| port.leads_to == Some(to));
        }
    }

    /// Whether what port `from` transmits is received by port `to`.
    fn leads(&self, from: usize, to: usize) -> bool {
        match (&self.ports[from].transmit, &self.ports[to].receive) {
            (PortEnd::Transmit(sender, _), Some(PortEnd::Receive(receiver, _))) => {
                sender.ends_at(receiver)
            }
            _ => false,
        }
    }

    /// Gives a port another line, or a clean one.
    fn impair(&mut self, ticket: u64, port: PortIndex, line: Option<Box<PortLine>>) {
        let former = match self.ports.get_mut(usize::from(port.0)) {
            Some(port) => {
                port.publish(self.now);
                std::mem::replace(&mut port.line, line)
            }
            None => line,
        };
        self.finish(HostCompletion::Line { ticket, former });
    }
}

impl Board for HostBoard {
    type Region = HostRegion;
    type Attachment = HostAttachment;

    #[inline(always)]
    fn connected(&self) -> usize {
        self.connected
    }

    #[inline(always)]
    fn receive(&mut self, port: PortIndex, _format: CellFormat, fifo: &mut [u8]) -> usize {
        let Some(port) = self.ports.get_mut(usize::from(port.0)) else {
            return 0;
        };
        let cells = match (&mut port.receive, &mut port.line) {
            (Some(PortEnd::Receive(receiver, _)), None) => receiver.take(fifo),
            (Some(PortEnd::Receive(receiver, _)), Some(line)) => {
                line.receive(self.now, receiver, fifo)
            }
            (_, Some(line)) => line.hand_on(self.now, fifo),
            (_, None) => return 0,
        };
        self.work.cells += cells;
        self.work.came |= cells > 0 && !port.is_fed_here;
        cells
    }

    #[inline(always)]
    fn transmit_space(&mut self, port: PortIndex) -> usize {
        let Some(port) = self.ports.get_mut(usize::from(port.0)) else {
            return 0;
        };
        let Some(sender) = port.sender() else {
            return Self::DEAD_LINE_CELLS;
        };
        let (free, capacity) = (sender.free_for(Self::DEAD_LINE_CELLS), sender.capacity());
        if free > 0 {
            port.full_since = None;
            return free;
        }
        let since = *port.full_since.get_or_insert(self.now);
        if self.now.since_ns(since) < Self::HOLD_MAX_NS {
            0
        } else {
            capacity
        }
    }

    #[inline(always)]
    fn transmit(&mut self, port: PortIndex, format: CellFormat, cells: &[u8]) {
        if let Some(port) = self.ports.get_mut(usize::from(port.0)) {
            let count = format.cells_in(cells.len());
            match &mut port.transmit {
                // What does not fit is dropped and counted by the sender.
                PortEnd::Transmit(sender, _) => sender.send(cells),
                PortEnd::DeadLine(dropped, _) => *dropped += count as u64,
                PortEnd::Receive(..) | PortEnd::Silence => {}
            }
            self.work.cells += count;
            // They arrive now: this step receives them, not the next.
            if let Some(to) = port.leads_to
                && let Some(receiver) = self.ports.get_mut(to).and_then(BoardPort::receiver)
            {
                receiver.poll(self.now);
            }
        }
    }

    #[inline(always)]
    fn crossing(&self, port: PortIndex) -> Option<PortIndex> {
        let to = self.ports.get(usize::from(port.0))?.leads_to?;
        let end = self.ports.get(to)?;
        match &end.receive {
            Some(PortEnd::Receive(receiver, _))
                if end.line.is_none() && receiver.waiting() == 0 =>
            {
                Some(PortIndex(to as u8))
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn crossed(&mut self, from: PortIndex, to: PortIndex, cells: u32) {
        self.work.cells += 2 * cells as usize;
        let from = self.ports.get_mut(usize::from(from.0));
        if let Some(sender) = from.and_then(BoardPort::sender) {
            sender.count_crossed(cells);
        }
        let to = self.ports.get_mut(usize::from(to.0));
        if let Some(receiver) = to.and_then(BoardPort::receiver) {
            receiver.count_crossed(cells);
        }
    }

    fn waits(&self) -> bool {
        let posted = self.posted.load(Ordering::Acquire) != self.taken;
        let mut ports = self.ports[..self.connected].iter();
        posted || ports.any(|port| port.waits(self.now))
    }

    fn is_held(&self, port: PortIndex) -> bool {
        let port = self.ports.get(usize::from(port.0));
        port.is_some_and(|port| port.is_held(self.now))
    }

    fn next_deadline(&self) -> Option<Time> {
        let ports = self.ports[..self.connected].iter();
        ports.filter_map(|port| port.next_deadline(self.now)).min()
    }

    #[inline]
    fn interrupt(&mut self, index: AttachmentIndex, guaranteed: bool) {
        self.work.others += 1;
        self.due.note(index, Class::of(guaranteed));
    }

    #[inline(always)]
    fn command(&mut self) -> Option<Command<HostRegion, HostAttachment>> {
        // While a client comes or goes, the next command waits: one place for its bell is enough.
        if self.posted.load(Ordering::Acquire) == self.taken || self.changing.is_some() {
            return None;
        }
        let command = self.commands.try_recv().ok()?;
        self.taken += 1;
        self.work.others += 1;
        self.work.came = true;
        match command {
            HostCommand::Adapter(command) => {
                if let Command::Detach { ticket, index } = command {
                    self.changing = Some(Changing::Detach(ticket, index));
                }
                probes::command(&command);
                Some(command)
            }
            HostCommand::Attach {
                ticket,
                attachment,
                bell,
            } => {
                self.changing = Some(Changing::Attach(ticket, bell));
                let command = Command::Attach { ticket, attachment };
                probes::command(&command);
                Some(command)
            }
            HostCommand::Port { ticket, port, ends } => {
                self.connect(ticket, port, ends);
                None
            }
            HostCommand::Line { ticket, port, line } => {
                self.impair(ticket, port, line);
                None
            }
        }
    }

    #[inline(always)]
    fn ended(&mut self, port: PortIndex, address: VpiVci, end: PduEnd) {
        probes::pdu(port, address, end);
    }

    fn complete(&mut self, completion: Completion<HostRegion, HostAttachment>) {
        let bell = self.settle(&completion);
        self.finish(HostCompletion::Adapter(completion, bell));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use cellgate_core::adapter::PortConfig;
    use cellgate_core::contract::CellRate;
    use cellgate_core::line::ImpairedLine;
    use cellgate_core::queue::{PortGeometry, PortSizes};
    use cellgate_core::wire::{CELL_LEN_NO_HEC, HeaderForm};
    use cellgate_shm::{Files, wake_descriptor};

    use super::*;
    use crate::adapter::memory::make_receive_port;
    use crate::link::{CellSender, MemorySink, MemorySource};

    const CELL: [u8; CELL_LEN_NO_HEC] = [7; CELL_LEN_NO_HEC];
    const FORMAT: CellFormat = CellFormat::NoHec;

    fn board(ports: usize) -> HostBoard {
        let port = PortConfig {
            form: HeaderForm::Nni,
            format: FORMAT,
            budget: 8,
            discard_unread: false,
            real_time: false,
            line_rate: CellRate::OC3,
        };
        let config = Config {
            vcs: 1,
            leaves: 1,
            attachments: 1,
            ports: vec![port; ports],
            gap_max_ns: 0,
            clump_cells: 1,
            overload_cells: 0,
        };
        let (commands, completions) = (sync_channel(1), sync_channel(8));
        let channels = BoardChannels {
            commands: commands.1,
            posted: Arc::default(),
            completions: completions.0,
            service: Arc::new(wake_descriptor().unwrap()),
            cpu: Arc::new(FirmwareCpu::unknown()),
        };
        let lines = (0..ports)
            .map(|_| (Arc::default(), Arc::default()))
            .collect();
        HostBoard::new(&config, lines, channels)
    }

    /// A port that `to` receives from, and its files.
    fn receive_from(board: &mut HostBoard, to: u8) -> Arc<Files> {
        let (receiver, files) = make_receive_port(&geometry(), 1).unwrap();
        let end = PortEnd::Receive(ReceiveEnd::Memory(MemorySource(receiver)), Arc::default());
        board.connect(0, PortIndex(to), [Some(end), None]);
        files
    }

    fn transmit_into(board: &mut HostBoard, from: u8, files: &Files) {
        let sender = CellSender::open(files, &geometry(), 1).unwrap();
        let end = PortEnd::Transmit(
            TransmitEnd::Memory(MemorySink::new(sender, None)),
            Arc::default(),
        );
        board.connect(0, PortIndex(from), [None, Some(end)]);
    }

    fn geometry() -> PortGeometry {
        let sizes = PortSizes {
            cells: 8,
            format: FORMAT,
        };
        PortGeometry::new(sizes).unwrap()
    }

    /// Cells that port `to` has in the step in which port `from` transmits one.
    fn at_once(board: &mut HostBoard, from: u8, to: u8) -> usize {
        board.poll();
        board.begin(Time::from_ns(1));
        board.transmit(PortIndex(from), FORMAT, &CELL);
        let taken = board.receive(PortIndex(to), FORMAT, &mut [0; 8 * CELL_LEN_NO_HEC]);
        board.end();
        taken
    }

    #[test]
    fn a_link_between_two_ports_of_a_board_takes_no_step() {
        let mut board = board(3);
        let files = receive_from(&mut board, 1);
        transmit_into(&mut board, 0, &files);
        assert_eq!(at_once(&mut board, 0, 1), 1);
        // In whichever order the ends come.
        let other = receive_from(&mut board, 2);
        transmit_into(&mut board, 2, &other);
        assert_eq!(at_once(&mut board, 2, 2), 1);
        assert_eq!(at_once(&mut board, 0, 1), 1);
    }

    /// Else its deadline would stay in the past, and the adapter would never rest again.
    #[test]
    fn a_cell_on_its_way_comes_off_its_line_when_the_link_has_gone() {
        let mut board = board(2);
        let files = receive_from(&mut board, 1);
        transmit_into(&mut board, 0, &files);
        let line = PortLine {
            impaired: ImpairedLine::new("delay 1us".parse().unwrap(), FORMAT),
            counters: Arc::default(),
        };
        board.impair(0, PortIndex(1), Some(Box::new(line)));
        assert_eq!(at_once(&mut board, 0, 1), 0);
        board.connect(0, PortIndex(1), [Some(PortEnd::Silence), None]);
        let due = Time::from_ns(1_001);
        assert_eq!(board.next_deadline(), Some(due));
        board.begin(due);
        assert!(board.waits());
        let mut fifo = [0; 8 * CELL_LEN_NO_HEC];
        assert_eq!(board.receive(PortIndex(1), FORMAT, &mut fifo), 1);
        assert_eq!(fifo[..CELL_LEN_NO_HEC], CELL);
        assert_eq!((board.waits(), board.next_deadline()), (false, None));
    }

    #[test]
    fn what_others_send_waits_for_the_next_look_whoever_received_it_before() {
        let mut board = board(2);
        let files = receive_from(&mut board, 1);
        transmit_into(&mut board, 0, &files);
        // Port 1 receives from somebody else.
        let others = receive_from(&mut board, 1);
        let mut sender = CellSender::open(&others, &geometry(), 1).unwrap();
        board.poll();
        board.begin(Time::from_ns(1));
        assert_eq!(sender.send(&CELL), 1);
        board.transmit(PortIndex(0), FORMAT, &CELL);
        let mut fifo = [0; 8 * CELL_LEN_NO_HEC];
        assert_eq!(board.receive(PortIndex(1), FORMAT, &mut fifo), 0);
        board.poll();
        assert_eq!(board.receive(PortIndex(1), FORMAT, &mut fifo), 1);
    }
}
