//! The judge of an adapter whose clients act by themselves: it is told what they do, and looks at
//! the same memory. Where both write a word, they write the same.

use cellgate_core::adapter::{AttachmentIndex, OpenRequest, VcId};
use cellgate_core::queue::SduOptions;

use super::{Judge, none_or};
use crate::memory::{LabAttachment, LabRegion, RegionSizes};
use crate::plan::{Order, VcName};
use crate::reference::Submission;

impl Judge {
    /// A client is to be attached.
    pub(crate) fn attaches(&mut self, ticket: u64, memory: &LabAttachment) {
        self.clients.add_attachment(ticket, memory);
        let (events, doorbells) = memory.sizes();
        self.ordered(ticket, Order::Attach(events, doorbells), None);
    }

    /// A VC is to be opened.
    pub(crate) fn opens(
        &mut self,
        ticket: u64,
        request: &OpenRequest,
        sizes: RegionSizes,
        region: &LabRegion,
    ) {
        self.clients.add_connection(ticket, region);
        self.ordered(ticket, Order::Open(*request, sizes), None);
    }

    /// A VC is to be lent so many PDUs.
    pub(crate) fn lends(&mut self, ticket: u64, vc: VcId, pdus: u32, expires_in_ns: u64) {
        let order = Order::Lease(VcName::Raw(vc), pdus, expires_in_ns);
        self.ordered(ticket, order, Some(vc));
    }

    /// A VC is to be closed.
    pub(crate) fn closes(&mut self, ticket: u64, vc: VcId) {
        self.ordered(ticket, Order::Close(VcName::Raw(vc)), Some(vc));
    }

    /// A VC is to be changed, and gets other memory if some comes along.
    pub(crate) fn modifies(
        &mut self,
        ticket: u64,
        vc: VcId,
        request: &OpenRequest,
        region: Option<&LabRegion>,
    ) {
        if let Some(region) = region {
            self.clients.add_connection(ticket, region);
        }
        let sizes = region.map(LabRegion::sizes);
        let order = Order::Modify(VcName::Raw(vc), *request, sizes);
        self.ordered(ticket, order, Some(vc));
    }

    /// A VC is to be handed to another client.
    pub(crate) fn reattaches(&mut self, ticket: u64, vc: VcId, attachment: AttachmentIndex) {
        let order = Order::Reattach(VcName::Raw(vc), attachment);
        self.ordered(ticket, order, Some(vc));
    }

    /// A client is to be removed.
    pub(crate) fn detaches(&mut self, ticket: u64, index: AttachmentIndex) {
        self.ordered(ticket, Order::Detach(index), None);
    }

    /// The client that `ticket` has attached is about to take all its events.
    pub(crate) fn takes_events(&mut self, ticket: u64) -> Result<(), String> {
        self.take_events(ticket, u32::MAX)
    }

    /// The owner of `memory` has read a PDU and is about to release it.
    pub(crate) fn takes(&mut self, memory: u64) -> Result<(), String> {
        if self.lawless.contains(&memory) {
            return Ok(());
        }
        let freed = self.reference.accepted_tail(memory);
        none_or(self.clients.take(memory, 1, freed))
    }

    /// An SDU was handed over.
    pub(crate) fn submitted(&mut self, vc: VcId, sdu: Vec<u8>, options: SduOptions) {
        self.output.submit(vc, Submission::new(sdu, options));
    }

    /// The client that `ticket` has attached has rung for a VC.
    pub(crate) fn rang(&mut self, ticket: u64, vc: VcId) {
        self.ring(ticket, vc);
    }

    /// Cells whose outcome was compared.
    pub(crate) fn cells(&self) -> u64 {
        self.report.cells
    }
}
