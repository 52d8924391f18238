//! What another server has left with an adapter, as it is told piece by piece.

use std::collections::BTreeMap;

use crate::adapter::{AttachmentIndex, PortIndex, VcId, VcInfo};
use crate::keeper::{Handle, TakenUp};
use crate::queue::AttachmentSizes;
use crate::server::{InterfaceSpec, Record, TakenVc};

/// What another server has left with the adapter: an attachment, its application's socket or what
/// its worker carries, and a VC of it.
#[derive(Debug)]
pub struct Left {
    /// What was kept with the attachment: the receiver's from now on.
    pub kept: Vec<Handle>,
    /// What these are, if they are no socket; of a socket, whether its connection was to be open
    /// again.
    pub record: Option<String>,
    pub attachment: AttachmentIndex,
    pub sizes: AttachmentSizes,
    pub files_generation: u32,
    pub vc: Option<TakenVc>,
}

/// What has come so far.
#[derive(Debug, Default)]
pub(super) struct TakeUp {
    /// Requests that have found nothing left.
    ended: usize,
    attachments: BTreeMap<AttachmentIndex, (TakenUp, Vec<Handle>)>,
    vcs: Vec<TakenUp>,
    listed: BTreeMap<VcId, VcInfo>,
    /// What was kept with each port.
    ports: BTreeMap<PortIndex, Option<InterfaceSpec>>,
}

impl TakeUp {
    /// Requests that are on their way at once.
    pub(super) const AT_ONCE: usize = 8;

    /// An attachment or a VC has come, and what was kept with it.
    pub(super) fn take(&mut self, taken: TakenUp, kept: Vec<Handle>) {
        match taken {
            TakenUp::Attachment { attachment, .. } => {
                self.attachments.insert(attachment, (taken, kept));
            }
            _ => self.vcs.push(taken),
        }
    }

    /// Another request has found nothing left; whether all have.
    pub(super) fn is_complete(&mut self) -> bool {
        self.ended += 1;
        self.ended == Self::AT_ONCE
    }

    /// How VCs were opened.
    pub(super) fn list(&mut self, vcs: Vec<VcInfo>) {
        self.listed
            .extend(vcs.into_iter().map(|info| (info.vc, info)));
    }

    /// What was kept with a port; how many have been told of.
    pub(super) fn port(&mut self, port: PortIndex, record: Option<String>) -> usize {
        let spec = record.and_then(|record| serde_json::from_str(&record).ok());
        self.ports.insert(port, spec);
        self.ports.len()
    }

    /// The links that there are, and the ports that have none.
    pub(super) fn links(&mut self) -> (Vec<(PortIndex, InterfaceSpec)>, Vec<PortIndex>) {
        let (mut links, mut bare) = (Vec::new(), Vec::new());
        for (port, spec) in core::mem::take(&mut self.ports) {
            match spec {
                Some(spec) => links.push((port, spec)),
                None => bare.push(port),
            }
        }
        (links, bare)
    }

    /// One for each VC and for each attachment without one; and VCs that nobody can be told of.
    pub(super) fn finish(mut self) -> (Vec<Left>, Vec<VcId>) {
        let (mut left, mut nobodys) = (Vec::new(), Vec::new());
        let mut used = Vec::new();
        for taken in core::mem::take(&mut self.vcs) {
            let TakenUp::Vc { vc, attachment, .. } = taken else {
                continue;
            };
            match self.taken_vc(taken) {
                Some(found) => {
                    used.push(attachment);
                    left.extend(self.left(attachment, Some(found)));
                }
                None => nobodys.push(vc),
            }
        }
        let attachments: Vec<_> = self.attachments.keys().copied().collect();
        for attachment in attachments
            .into_iter()
            .filter(|index| !used.contains(index))
        {
            left.extend(self.left(attachment, None));
        }
        (left, nobodys)
    }

    fn taken_vc(&self, taken: TakenUp) -> Option<TakenVc> {
        let TakenUp::Vc {
            vc,
            attachment,
            sizes,
            files_generation,
            record,
            ..
        } = taken
        else {
            return None;
        };
        let record = Record::parse(&record?)?;
        self.attachments.get(&attachment)?;
        Some(TakenVc {
            vc,
            request: self.listed.get(&vc)?.request,
            sizes,
            files_generation,
            record,
        })
    }

    fn left(&mut self, index: AttachmentIndex, vc: Option<TakenVc>) -> Option<Left> {
        // What was kept goes with the first VC: whoever takes it up knows it for the others.
        let (taken, kept) = self.attachments.get_mut(&index)?;
        match taken {
            TakenUp::Attachment {
                attachment,
                sizes,
                files_generation,
                record,
            } => Some(Left {
                kept: core::mem::take(kept),
                record: record.take(),
                attachment: *attachment,
                sizes: *sizes,
                files_generation: *files_generation,
                vc,
            }),
            _ => None,
        }
    }
}
