//! The process that an adapter lives in: it carries out what a server asks, and keeps what the next
//! server needs.

use std::collections::BTreeMap;

use cellgate_core::adapter::{AttachmentIndex, OpenRequest, Outcome, PortIndex, Refusal, VcId};
use cellgate_core::keeper::{self, Ask, ReceiveInto};
use cellgate_core::queue::{AttachmentSizes, ConnectionSizes};
use cellgate_core::server::{
    AdapterAnswer, AdapterAsk, AdapterRefusal, ClientId, InterfaceSpec, Record, Ticket,
};

use crate::memory::RegionSizes;
use crate::world::endpoint::Handles;
use crate::world::host::{Answer, Brought};

/// Descriptors that a transmit queue of the lab's memory holds.
const TRANSMIT_SLOTS_MAX: u32 = 512;

/// The lab's memory for the sizes that are asked for.
pub(super) fn region_sizes(sizes: ConnectionSizes) -> RegionSizes {
    RegionSizes {
        receive_buffer: sizes.receive_len,
        receive_slots: sizes.receive_slots,
        transmit_slots: sizes.transmit_slots.min(TRANSMIT_SLOTS_MAX),
        transmit_len: sizes.transmit_len,
        stable: true,
    }
}

/// A client at the adapter.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptAttachment {
    /// Its number at the host.
    pub(super) client: usize,
    pub(super) sizes: AttachmentSizes,
    pub(super) files_generation: u32,
}

/// The memory of a VC.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) generation: u32,
    /// Ticket of the command that brought it.
    pub(super) memory: u64,
    pub(super) handles: Handles,
}

/// A VC at the adapter.
#[derive(Clone, Debug)]
pub(super) struct KeptVc {
    pub(super) request: OpenRequest,
    pub(super) sizes: ConnectionSizes,
    pub(super) files: Files,
    pub(super) record: Record,
}

/// A command that the adapter has not ended.
#[derive(Debug)]
struct Asked {
    /// Of the server that asked.
    life: u32,
    ticket: Ticket,
    ask: AdapterAsk,
    brought: Brought,
}

/// What the server hears of a command.
#[derive(Debug)]
pub(super) struct Heard {
    /// Of the server that asked.
    pub(super) life: u32,
    pub(super) ticket: Ticket,
    pub(super) answer: Result<AdapterAnswer, AdapterRefusal>,
    /// Memory that comes along.
    pub(super) news: News,
}

/// What a server gets along with an answer.
#[derive(Debug, Default)]
pub(super) enum News {
    #[default]
    None,
    /// A client's memory.
    Attachment(AttachmentIndex, usize),
    /// It is no more.
    NoAttachment(AttachmentIndex),
    /// A VC's memory, and how it was opened.
    Vc(VcId, Files, OpenRequest),
}

#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) attachments: BTreeMap<AttachmentIndex, KeptAttachment>,
    /// Sockets of applications, by their attachments; whether their connections were to be open
    /// again.
    pub(super) kept: BTreeMap<AttachmentIndex, (ClientId, bool)>,
    pub(super) vcs: BTreeMap<VcId, KeptVc>,
    pub(super) links: BTreeMap<PortIndex, InterfaceSpec>,
    asked: BTreeMap<u64, Asked>,
    /// Files that were made.
    made: u32,
}

impl Process {
    /// The adapter dies, and another begins: it has nothing.
    pub(super) fn clear(&mut self) {
        *self = Self {
            made: self.made,
            ..Self::default()
        };
    }

    /// Commands that the adapter has not ended.
    pub(super) fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// The same themselves.
    pub(super) fn asks(&self) -> impl Iterator<Item = &AdapterAsk> {
        self.asked.values().map(|asked| &asked.ask)
    }

    /// The adapter has been given a command.
    pub(super) fn ordered(
        &mut self,
        order: u64,
        (life, ticket, ask): (u32, Ticket, AdapterAsk),
        brought: Brought,
    ) {
        let asked = Asked {
            life,
            ticket,
            ask,
            brought,
        };
        self.asked.insert(order, asked);
    }

    /// What concerns links and loopback is not the adapter's here.
    pub(super) fn carry_out(&mut self, ask: &AdapterAsk) -> Result<AdapterAnswer, AdapterRefusal> {
        let done = AdapterAnswer::Keeper(keeper::Answer::Done);
        match ask {
            AdapterAsk::Link { port, spec } => {
                self.links.insert(*port, spec.clone());
                Ok(AdapterAnswer::Linked { up: true })
            }
            AdapterAsk::Unlink { port } => {
                self.links.remove(port);
                Ok(done)
            }
            AdapterAsk::Keeper(Ask::Loopback { .. }, _) => Err(AdapterRefusal::NoReturn),
            AdapterAsk::Keeper(..) => Ok(done),
        }
    }

    /// The adapter has ended a command: what the server hears. None: nobody gave it.
    pub(super) fn ended(&mut self, (order, result): Answer) -> Option<Heard> {
        let Asked {
            life,
            ticket,
            ask,
            brought,
        } = self.asked.remove(&order)?;
        let gone = match &ask {
            AdapterAsk::Keeper(Ask::Detach { attachment }, _) => News::NoAttachment(*attachment),
            _ => News::None,
        };
        let answer = match result {
            Ok(outcome) => self.has_done(order, ask, brought, outcome),
            Err(refusal) => Err(AdapterRefusal::Refused(refusal)),
        };
        let news = match &answer {
            Ok(AdapterAnswer::Keeper(keeper::Answer::Attached { attachment, .. })) => {
                let client = self.attachments.get(attachment).map_or(0, |one| one.client);
                News::Attachment(*attachment, client)
            }
            Ok(AdapterAnswer::Keeper(keeper::Answer::Opened { vc, .. })) => {
                self.vcs.get(vc).map_or(News::None, |kept| {
                    News::Vc(*vc, kept.files.clone(), kept.request)
                })
            }
            _ => gone,
        };
        Some(Heard {
            life,
            ticket,
            answer,
            news,
        })
    }

    fn new_files(&mut self, memory: u64, handles: Handles) -> Files {
        self.made += 1;
        Files {
            generation: self.made,
            memory,
            handles,
        }
    }

    fn has_done(
        &mut self,
        order: u64,
        ask: AdapterAsk,
        brought: Brought,
        outcome: Outcome,
    ) -> Result<AdapterAnswer, AdapterRefusal> {
        let none = || AdapterRefusal::Refused(Refusal::StaleVc);
        let AdapterAsk::Keeper(ask, record) = ask else {
            return Err(none());
        };
        let record = || record.map(|record| *record).ok_or_else(none);
        let answer = match (ask, outcome) {
            (Ask::Attach { sizes, .. }, Outcome::Attached(attachment)) => {
                self.made += 1;
                let files_generation = self.made;
                let one = KeptAttachment {
                    client: brought.client.unwrap_or(0),
                    sizes,
                    files_generation,
                };
                self.attachments.insert(attachment, one);
                keeper::Answer::Attached {
                    attachment,
                    sizes,
                    files_generation,
                }
            }
            (Ask::Detach { attachment }, _) => {
                self.attachments.remove(&attachment);
                self.kept.remove(&attachment);
                keeper::Answer::Done
            }
            (Ask::Open { request, sizes, .. }, Outcome::Vc(vc)) => {
                let handles = brought.handles.ok_or_else(none)?;
                let kept = KeptVc {
                    request,
                    sizes,
                    files: self.new_files(order, handles),
                    record: record()?,
                };
                self.keeps(vc, kept)
            }
            (
                Ask::Modify {
                    vc: before,
                    request,
                    region,
                    ..
                },
                Outcome::Vc(vc),
            ) => {
                let mut kept = self.vcs.remove(&before).ok_or_else(none)?;
                if let (Some(region), Some(handles)) = (region, brought.handles) {
                    kept.files = self.new_files(order, handles);
                    kept.sizes = region.sizes;
                }
                let attachment = kept.request.attachment;
                kept.request = OpenRequest {
                    attachment,
                    ..request
                };
                kept.record = record()?;
                self.keeps(vc, kept)
            }
            (Ask::Reattach { vc, attachment, .. }, _) => {
                let mut kept = self.vcs.remove(&vc).ok_or_else(none)?;
                kept.request.attachment = attachment;
                kept.record = record()?;
                self.keeps(vc, kept)
            }
            (Ask::Close { vc }, Outcome::Closed(info)) => {
                self.vcs.remove(&vc);
                keeper::Answer::Closed(Box::new(info))
            }
            _ => keeper::Answer::Done,
        };
        Ok(AdapterAnswer::Keeper(answer))
    }

    fn keeps(&mut self, vc: VcId, kept: KeptVc) -> keeper::Answer {
        let (sizes, files_generation) = (kept.sizes, kept.files.generation);
        self.vcs.insert(vc, kept);
        keeper::Answer::Opened {
            vc,
            sizes,
            receive_into: ReceiveInto::Own,
            files_generation,
        }
    }
}

/// Whether a command begins or changes something, and so can find no room.
pub(super) fn can_be_refused(ask: &AdapterAsk) -> bool {
    matches!(
        ask,
        AdapterAsk::Keeper(
            Ask::Attach { .. } | Ask::Open { .. } | Ask::Modify { .. } | Ask::Reattach { .. },
            _
        )
    )
}
