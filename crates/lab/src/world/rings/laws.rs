//! Laws of rings, each judged by itself from the books: who owns a slot, what becomes of cells, how
//! long they wait, what the RAM does, which cells interrupt, what time is spent for.

mod known;

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::upper::msna::Notify;
use cellgate_core::wire::Mssar;

use super::application::Application;
use super::build::{self, Action, Plan};
use super::scenario::Load;
use crate::cbn::{Presence, Release, Reuse, RingDeed, RingSpec, SlotDeed, SlotHarm};
use crate::machine::v1s::{Deed, HostSpec, Network, Order, V1sSpec, Word};
use crate::world::scenario::Scenario;
use crate::world::{Ps, Violation};

const WORDS: usize = V1sSpec::WORDS;

/// A station, as the laws know it.
struct Known {
    spec: V1sSpec,
    host: HostSpec,
    conditions: BTreeMap<u16, Notify>,
    /// Circuits that were closed, and how long each is to rest.
    closed: BTreeMap<u16, Ps>,
    /// Circuits of which a bridge sends on what comes.
    by_cell: BTreeSet<u16>,
    hold: Ps,
    /// The RAM's last access ends then.
    free: Ps,
    /// Cells with a place in the receive FIFO; words of the one that comes, and of the one that
    /// goes to the host.
    places: usize,
    coming: Vec<Word>,
    going: usize,
    is_raised: bool,
    is_unheard: bool,
    /// An interrupt that its cell is still to explain.
    unexplained: Option<Ps>,
    stopped_until: Ps,
    passed: u64,
    overflowed: u64,
    reset: u64,
    read_words: u64,
    /// Words that the host has written of a cell, by now.
    writing: Vec<Word>,
    /// By circuit, the header that must come next.
    headers: BTreeMap<u16, Mssar>,
    pub(super) waits: Vec<Ps>,
}

pub(super) struct Laws {
    ring: RingSpec,
    /// The channel of each circuit's receiver.
    channels: BTreeMap<u16, u8>,
    /// Stations that send, by channel.
    senders: Vec<usize>,
    /// Whether slots are passed on, and nothing happens to them.
    is_fair: bool,
    /// The source of each full slot, and its frame's number when it was filled.
    owners: BTreeMap<(u64, u8), (usize, u64)>,
    /// The frames in which each station has slots to empty, by channel.
    counting: BTreeMap<(usize, u8), BTreeSet<u64>>,
    /// Slots that are stuck full.
    stuck: BTreeSet<(u64, u8)>,
    known: Vec<Known>,
    sent: u64,
    copies: u64,
    pub(super) false_cells: u64,
    /// Bits that have changed in full slots: each may spoil a block.
    pub(super) flips: u64,
    /// Stations that were away: their slots come round again.
    pub(super) was_bypassed: bool,
    /// When a station has last emptied a slot that another had filled.
    pub(super) robbed: Option<Ps>,
}

fn wrong<T>(law: &str, at: Ps, text: String) -> Result<T, Violation> {
    Err(Violation::new(law, at, text))
}

impl Laws {
    pub(super) fn of(scenario: &Scenario, plan: &Plan, ring: usize) -> Self {
        let spec = build::ring_spec(&scenario.rings[ring]);
        let on_it = |station: &str| {
            let station = build::station(scenario, station);
            plan.seats[station].0 == ring
        };
        let associations = scenario.associations.iter();
        let here: Vec<_> = associations.filter(|one| on_it(&one.to)).collect();
        let channel = |to: &str| scenario.stations[build::station(scenario, to)].channel;
        let mut senders = vec![BTreeSet::new(); spec.channels.into()];
        for one in &here {
            senders[usize::from(channel(&one.to))].insert(&*one.from);
        }
        for traffic in &scenario.traffic {
            if let Load::False { channels, .. } = traffic.load
                && on_it(&traffic.on)
            {
                for senders in &mut senders[..usize::from(channels)] {
                    senders.insert(&traffic.on);
                }
            }
        }
        let happens = |(_, at, action): &(Ps, usize, Action)| {
            let all = matches!(
                action,
                Action::Slot(_) | Action::Presence(..) | Action::Reset(_)
            );
            *at == ring && all
        };
        let known = plan.seated[ring].iter().map(|n| {
            let one = &scenario.stations[*n];
            let own = here.iter().filter(|circuit| circuit.to == one.name);
            Known {
                spec: build::station_spec(scenario, one, &spec),
                host: build::host_spec(one),
                conditions: own.map(|one| (one.vci, one.notify)).collect(),
                closed: BTreeMap::new(),
                by_cell: build::by_cell(scenario, &one.name),
                hold: build::hold(scenario, one),
                free: Ps::ZERO,
                places: 0,
                coming: Vec::new(),
                going: 0,
                is_raised: false,
                is_unheard: false,
                unexplained: None,
                stopped_until: Ps::ZERO,
                passed: 0,
                overflowed: 0,
                reset: 0,
                read_words: 0,
                writing: Vec::new(),
                headers: BTreeMap::new(),
                waits: Vec::new(),
            }
        });
        Self {
            channels: here.iter().map(|one| (one.vci, channel(&one.to))).collect(),
            senders: senders.iter().map(BTreeSet::len).collect(),
            is_fair: spec.reuse == Reuse::PassedOn
                && spec.release == Release::Source
                && spec.outstanding == 0
                && !plan.actions.iter().any(happens),
            owners: BTreeMap::new(),
            counting: BTreeMap::new(),
            stuck: BTreeSet::new(),
            known: known.collect(),
            sent: 0,
            copies: 0,
            false_cells: 0,
            flips: 0,
            was_bypassed: false,
            robbed: None,
            ring: spec,
        }
    }

    /// The waits for slots of a station.
    pub(super) fn waits(&self, seat: usize) -> &[Ps] {
        &self.known[seat].waits
    }

    pub(super) fn acts(&mut self, at: Ps, action: Action) {
        match action {
            Action::Slot(SlotHarm::Cut(_)) => self.was_bypassed = true,
            Action::Slot(SlotHarm::Stuck {
                frame,
                channel,
                is_stuck,
            }) => {
                let slot = (u64::from(frame), channel);
                match is_stuck {
                    true => drop(self.stuck.insert(slot)),
                    false => drop(self.stuck.remove(&slot)),
                }
            }
            Action::Slot(_) => {}
            Action::Reset(seat) => {
                self.was_bypassed = true;
                self.counting.retain(|(who, _), _| *who != seat);
                self.known[seat].is_reset();
            }
            Action::Presence(_, presence) => self.was_bypassed |= presence != Presence::Works,
            Action::NodeDies(..) => {}
            Action::Unheard(seat, is_unheard) => self.known[seat].is_unheard = is_unheard,
            Action::Stop(seat, until) => {
                let known = &mut self.known[seat];
                known.stopped_until = known.stopped_until.max(until).max(at);
            }
        }
    }

    /// R1: a full slot has one owner, who empties it one rotation later, if nobody else must.
    pub(super) fn slot(&mut self, deed: &RingDeed) -> Result<(), Violation> {
        let frames = u64::from(self.ring.frames);
        let key = (deed.number % frames, deed.channel);
        let owner = self.owners.get(&key).copied();
        let (at, who) = (deed.at, deed.who);
        let slot = format!("slot {} of channel {}", key.0, key.1);
        match deed.what {
            SlotDeed::Filled => {
                if self.stuck.contains(&key) {
                    return wrong(
                        "R1",
                        at,
                        format!("{slot} is stuck full, and filled by {who}"),
                    );
                }
                self.sent += 1;
                let free = deed.number + frames;
                if let Some((owner, _)) = owner {
                    return wrong(
                        "R1",
                        at,
                        format!("{slot} of station {owner} is filled by {who}"),
                    );
                }
                self.owners.insert(key, (who, free));
                let counting = self.counting.entry((who, deed.channel)).or_default();
                counting.retain(|due| *due > deed.number);
                counting.insert(free);
                let count = counting.len();
                if self.ring.outstanding > 0 && count > self.ring.outstanding as usize {
                    return wrong("R1", at, format!("station {who} has {count} slots"));
                }
                return Ok(());
            }
            SlotDeed::Taken => {
                self.copies += 1;
                let due = owner.filter(|(source, free)| deed.number > *free && *source != who);
                if let Some((source, _)) = due
                    && !self.was_bypassed
                {
                    return wrong(
                        "R1",
                        at,
                        format!("{slot} comes round past station {source}"),
                    );
                }
                return Ok(());
            }
            SlotDeed::Flipped => {
                self.flips += 1;
                return Ok(());
            }
            SlotDeed::Stuck => return Ok(()),
            // Its own may be gone, and another's be there: it counts, and does not look.
            SlotDeed::Emptied if self.counts(who, deed) => {
                if owner.is_some_and(|(owner, _)| owner != who) {
                    self.robbed = Some(at);
                }
            }
            SlotDeed::Emptied => {
                return wrong(
                    "R1",
                    at,
                    format!("{slot} is emptied by {who}, not {owner:?}"),
                );
            }
            SlotDeed::Released if self.ring.release == Release::Destination => {}
            SlotDeed::Released => {
                return wrong("R1", at, format!("{slot} is emptied by its destination"));
            }
            SlotDeed::Cleared if owner.is_some() && !self.was_bypassed => {
                return wrong(
                    "R1",
                    at,
                    format!("the monitor empties {slot}, which is {owner:?}'s"),
                );
            }
            SlotDeed::Cleared | SlotDeed::Lost => {}
            SlotDeed::Damaged => self.flips += u64::from(owner.is_some()),
        }
        let owner = self.owners.remove(&key);
        if let (SlotDeed::Released, Some((source, free))) = (deed.what, owner)
            && let Some(counting) = self.counting.get_mut(&(source, deed.channel))
        {
            counting.remove(&free);
        }
        Ok(())
    }

    /// Whether a station has filled this slot a rotation ago.
    fn counts(&self, who: usize, deed: &RingDeed) -> bool {
        let counting = self.counting.get(&(who, deed.channel));
        counting.is_some_and(|counting| counting.contains(&deed.number))
    }

    pub(super) fn station(&mut self, seat: usize, deed: &Deed) -> Result<(), Violation> {
        let known = &mut self.known[seat];
        let here = |text: String| format!("station {seat}: {text}");
        if let (Some(at), false) = (known.unexplained, matches!(deed, Deed::Access { .. })) {
            return wrong(
                "R8",
                at,
                here("it interrupts for no cell that has come".into()),
            );
        }
        match deed {
            Deed::Passes { at, cell, is_full } => {
                known.passed += 1;
                let must = known.places >= known.spec.fifo;
                if *is_full != must {
                    let text = format!("{} places are taken, full: {is_full}", known.places);
                    return wrong("R7", *at, here(text));
                }
                if !known.conditions.contains_key(&cell.vci) {
                    let text = format!("it takes circuit {}, nobody's", cell.vci);
                    return wrong("R2", *at, here(text));
                }
                known.overflowed += u64::from(*is_full);
                known.places += usize::from(!is_full);
            }
            Deed::Fills {
                at,
                channel,
                since,
                cell,
            } => {
                let wait = at.since(*since);
                known.waits.push(wait);
                let senders = self.senders[usize::from(*channel)] as u64;
                let most = Ps::new((senders + 1) * self.ring.rotation.ps());
                if self.is_fair && wait > most {
                    let text = format!("a cell has waited {} ns, {senders} send", wait.ns());
                    return wrong("R6", *at, here(text));
                }
                let due = self.channels.get(&cell.vci);
                if due.is_some_and(|due| due != channel) {
                    let text = format!("circuit {} leaves on channel {channel}", cell.vci);
                    return wrong("R3", *at, here(text));
                }
            }
            Deed::FalseCell { .. } => self.false_cells += 1,
            Deed::Access {
                begun,
                access,
                word,
            } => known
                .accesses(*begun, *access, *word)
                .map_err(|(law, text)| Violation::new(law, *begun, here(text)))?,
            Deed::Interrupts { at } => {
                if known.is_raised {
                    return wrong("R8", *at, here("it interrupts before it was heard".into()));
                }
                known.is_raised = true;
                known.unexplained = Some(*at);
            }
            Deed::Wrote { at, word, .. } => {
                known
                    .host_acts(*at)
                    .or_else(|text| wrong("R9", *at, here(text)))?;
                known
                    .wrote(*word)
                    .or_else(|text| wrong("R3", *at, here(text)))?;
            }
            Deed::Read { at, .. } => {
                known
                    .host_acts(*at)
                    .or_else(|text| wrong("R9", *at, here(text)))?;
                known.read_words += 1;
                let is_amid = !known.writing.is_empty() && known.host.order == Order::InTurn;
                if is_amid && known.host.dma.is_none() {
                    return wrong("R8", *at, here("it reads amid a cell, out of turn".into()));
                }
            }
            Deed::Listens { at, vci, notify } => {
                let rested = known.listens(*at, *vci, *notify);
                rested.or_else(|text| wrong("R10", *at, here(text)))?;
                if notify.is_some() {
                    self.channels.insert(*vci, known.spec.channel);
                }
            }
            Deed::Acknowledged { at } => {
                known
                    .host_acts(*at)
                    .or_else(|text| wrong("R9", *at, here(text)))?;
                known.is_raised = false;
            }
        }
        Ok(())
    }

    /// R2, R7, R9: what only the end shows.
    pub(super) fn ends(&self, at: Ps, network: &Network<Application>) -> Result<(), Violation> {
        let ring = network.ring();
        let counts = ring.counts();
        let told = (
            counts.sent,
            counts.copies,
            counts.ended() + ring.under_way(),
        );
        let own = (self.sent, self.copies, self.sent);
        if told != own {
            return wrong(
                "R2",
                at,
                format!("sent, taken, ended: {told:?}, seen {own:?}"),
            );
        }
        let stations = network.stations().iter().map(|one| one.counts());
        let sent = stations.clone().map(|one| one.sent).sum::<u64>() + self.false_cells;
        let passed: u64 = stations.map(|one| one.passed).sum();
        if (sent, passed) != (self.sent, self.copies) {
            let text = format!("stations have sent {sent}, taken {passed}; the ring {own:?}");
            return wrong("R2", at, text);
        }
        let all = network.stations().iter().zip(network.hosts());
        for (seat, (known, (station, host))) in self.known.iter().zip(all).enumerate() {
            let counts = station.counts();
            let kept = counts.overflowed + counts.read + counts.reset + station.held() as u64;
            let lost = (counts.overflowed, counts.reset);
            let told = (counts.passed, lost, station.held(), kept);
            let lost = (known.overflowed, known.reset);
            let own = (known.passed, lost, known.places, known.passed);
            if told != own {
                let text =
                    format!("station {seat}: passed, lost, held, all {told:?}, seen {own:?}");
                return wrong("R2", at, text);
            }
            known
                .spent(host)
                .or_else(|text| wrong("R9", at, format!("host {seat}: {text}")))?;
        }
        Ok(())
    }
}
