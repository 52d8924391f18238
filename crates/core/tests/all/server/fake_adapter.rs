//! An adapter that answers what a server asks, and keeps what it is to keep.

use std::collections::BTreeMap;

use cellgate_core::adapter::{
    AttachmentIndex, OpenRequest, PortIndex, Refusal, VcId, VcIndex, VcInfo, VcStats,
};
use cellgate_core::keeper::{Answer, Ask, ReceiveInto};
use cellgate_core::queue::{AttachmentSizes, ConnectionSizes};
use cellgate_core::server::{
    AdapterAnswer, AdapterAsk, AdapterRefusal, ClientId, InterfaceSpec, Record, Reopens,
};

use super::world::LINE;

/// A VC that the adapter has.
#[derive(Clone)]
pub(crate) struct KeptVc {
    pub(crate) request: OpenRequest,
    pub(crate) sizes: ConnectionSizes,
    /// The VC in whose transmit buffer it receives.
    pub(crate) into: Option<VcId>,
    pub(crate) files_generation: u32,
    pub(crate) record: Record,
}

/// An adapter that keeps its VCs in a table, and stops a server that asks for nonsense.
#[derive(Default)]
pub(crate) struct FakeAdapter {
    pub(crate) attachments: BTreeMap<AttachmentIndex, (AttachmentSizes, u32)>,
    pub(crate) kept: BTreeMap<AttachmentIndex, ClientId>,
    /// Of these, whose connection is to be open again.
    pub(crate) reopens: BTreeMap<AttachmentIndex, Reopens>,
    pub(crate) vcs: BTreeMap<VcId, KeptVc>,
    pub(crate) links: BTreeMap<PortIndex, InterfaceSpec>,
    pub(crate) made: u32,
}

impl FakeAdapter {
    fn new_generation(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    fn check(&self, request: &OpenRequest, besides: Option<VcId>) -> Result<(), AdapterRefusal> {
        assert!(
            self.attachments.contains_key(&request.attachment),
            "an attachment that is not there: {request:?}"
        );
        let others = self.vcs.iter().filter(|(vc, _)| Some(**vc) != besides);
        let same_port = others.filter(|(_, kept)| kept.request.port == request.port);
        let rate = |request: &OpenRequest| {
            let rate = request.transmit.and_then(|transmit| transmit.guaranteed());
            rate.map_or(0, |rate| u64::from(rate.cell_s()))
        };
        let mut sum = rate(request);
        for (_, kept) in same_port {
            if kept.request.address == request.address {
                return Err(Refusal::AddressInUse.into());
            }
            sum += rate(&kept.request);
        }
        assert!(sum <= LINE.into(), "guaranteed beyond the line: {sum}");
        Ok(())
    }

    /// The VC whose buffer that is.
    fn buffer_of(&self, into: ReceiveInto) -> Option<VcId> {
        match into {
            ReceiveInto::Own => None,
            ReceiveInto::TransmitBufferOf(vc) => {
                assert!(self.vcs.contains_key(&vc), "{vc:?} has no buffer");
                Some(vc)
            }
            ReceiveInto::File => panic!("a server gives no files"),
        }
    }

    fn keep_record(record: &Record) -> Record {
        let json = serde_json::to_string(record).expect("a record is JSON");
        assert!(json.len() <= 4096, "a record of {} octets", json.len());
        serde_json::from_str(&json).expect("a record reads itself")
    }

    pub(crate) fn carry_out(&mut self, ask: AdapterAsk) -> Result<AdapterAnswer, AdapterRefusal> {
        let (ask, record) = match ask {
            AdapterAsk::Keeper(ask, record) => (ask, record),
            AdapterAsk::Link { port, spec } => {
                let was = self.links.insert(port, spec.clone());
                let is_same = |was: InterfaceSpec| {
                    let line = spec.line.clone();
                    InterfaceSpec { line, ..was } == spec
                };
                assert!(was.is_none_or(is_same), "two links on {port:?}");
                return Ok(AdapterAnswer::Linked { up: true });
            }
            AdapterAsk::Unlink { port } => {
                assert!(self.links.remove(&port).is_some(), "no link on {port:?}");
                return Ok(AdapterAnswer::Keeper(Answer::Done));
            }
        };
        let record = || record.as_deref().map(Self::keep_record).expect("a record");
        let answer = match ask {
            Ask::Attach { sizes, .. } => {
                let index = (0..).map(AttachmentIndex);
                let attachment = index
                    .into_iter()
                    .find(|i| !self.attachments.contains_key(i));
                let attachment = attachment.expect("65,536 of them");
                let files_generation = self.new_generation();
                self.attachments
                    .insert(attachment, (sizes, files_generation));
                Answer::Attached {
                    attachment,
                    sizes,
                    files_generation,
                }
            }
            Ask::Detach { attachment } => {
                let mut vcs = self.vcs.values();
                assert!(
                    !vcs.any(|kept| kept.request.attachment == attachment),
                    "an attachment with VCs is detached"
                );
                let was = self.attachments.remove(&attachment);
                assert!(was.is_some(), "detached twice: {attachment:?}");
                self.kept.remove(&attachment);
                self.reopens.remove(&attachment);
                Answer::Done
            }
            Ask::Open {
                request,
                sizes,
                receive_into,
                ..
            } => {
                self.check(&request, None)?;
                let files_generation = self.new_generation();
                let vc = VcId {
                    index: VcIndex(files_generation as u16),
                    generation: files_generation,
                };
                let kept = KeptVc {
                    request,
                    sizes,
                    into: self.buffer_of(receive_into),
                    files_generation,
                    record: record(),
                };
                self.vcs.insert(vc, kept);
                opened(vc, sizes, files_generation)
            }
            Ask::Modify {
                vc,
                request,
                region,
                ..
            } => {
                let mut kept = self.vcs.get(&vc).expect("modified is what is open").clone();
                self.check(&request, Some(vc))?;
                assert_eq!(request.attachment, kept.request.attachment);
                self.vcs.remove(&vc);
                let mut now = vc;
                if let Some(region) = region {
                    kept.sizes = region.sizes;
                    kept.files_generation = self.new_generation();
                    now.generation = kept.files_generation;
                }
                kept.request = request;
                kept.record = record();
                let answer = opened(now, kept.sizes, kept.files_generation);
                self.vcs.insert(now, kept);
                answer
            }
            Ask::Reattach { vc, attachment, .. } => {
                assert!(self.attachments.contains_key(&attachment), "moved nowhere");
                let kept = self.vcs.get_mut(&vc).expect("moved is what is open");
                kept.request.attachment = attachment;
                kept.record = record();
                opened(vc, kept.sizes, kept.files_generation)
            }
            Ask::Close { vc } => {
                let feeds = self.vcs.values().any(|kept| kept.into == Some(vc));
                assert!(!feeds, "{vc:?} is closed before who receives into it");
                let kept = self.vcs.remove(&vc).expect("closed is what is open");
                let stats = VcStats {
                    cells_received: 7,
                    ..VcStats::default()
                };
                Answer::Closed(Box::new(VcInfo {
                    vc,
                    request: kept.request,
                    stats,
                }))
            }
            Ask::Lease { .. } => Answer::Done,
            Ask::Loopback { .. } => Answer::Returned {
                round_trip_ns: 5_000,
            },
            other => panic!("a server asks for {other:?}"),
        };
        Ok(AdapterAnswer::Keeper(answer))
    }
}

fn opened(vc: VcId, sizes: ConnectionSizes, files_generation: u32) -> Answer {
    Answer::Opened {
        vc,
        sizes,
        receive_into: ReceiveInto::Own,
        files_generation,
    }
}
