//! An adapter of a trial's own, with one port, and what its connections are opened with.

use cellgate_core::adapter::{
    Aal, AttachmentIndex, Config, Excess, Marks, Notification, OpenRequest, PortConfig, PortIndex,
    Receive, Transmit,
};
use cellgate_core::contract::CellRate;
use cellgate_core::queue::AttachmentSizes;
use cellgate_core::server::Idle;
use cellgate_core::wire::{CellFormat, HeaderForm, VpiVci};
use cellgate_host::adapter::{AdapterOptions, AdapterProcess};
use cellgate_host::client::{Attached, Control, OpenVc, memory_for};

use super::actor::Role;
use super::weather::GAP_MAX_NS;

/// An OC-3 that carries cells as pseudowires do, without HEC.
pub(crate) const fn port(budget: u16) -> PortConfig {
    PortConfig {
        form: HeaderForm::Nni,
        format: CellFormat::NoHec,
        budget,
        discard_unread: false,
        real_time: false,
        line_rate: CellRate::OC3,
    }
}

/// The configuration of an adapter with one VC, on an OC-3.
pub(crate) fn one_vc() -> Config {
    Config {
        // All 28 bits of VPI and VCI are addresses.
        vcs: 1,
        leaves: 1,
        attachments: 1,
        ports: vec![port(1024)],
        gap_max_ns: GAP_MAX_NS,
        // Cells of a memory link come one by one.
        clump_cells: 1,
        overload_cells: 0,
    }
}

/// Receives whatever comes, guaranteed; nobody polices it.
pub(crate) const fn receive(max_sdu: u16, notification: Notification) -> Receive {
    Receive {
        marks: Marks::None,
        sustained: None,
        rate: None,
        cdvt_ns: 0,
        max_sdu,
        fixed_sdu: false,
        excess: Excess::Discard,
        notification,
        queue_threshold: 0,
        guaranteed: true,
    }
}

/// Transmits at a guaranteed rate; without one, what others leave of the line.
pub(crate) const fn transmit(rate: Option<CellRate>, cdvt_ns: u64, max_sdu: u16) -> Transmit {
    Transmit {
        rate,
        cdvt_ns,
        weight: 1,
        abr: None,
        peak: None,
        max_sdu,
        burst: 1,
        sustained: None,
        interrupt_on_completion: false,
    }
}

/// A VC of the first attachment on the first port.
pub(crate) const fn request(
    address: VpiVci,
    receive: Option<Receive>,
    transmit: Option<Transmit>,
) -> OpenRequest {
    OpenRequest {
        address,
        port: PortIndex(0),
        aal: Aal::Aal5,
        attachment: AttachmentIndex(0),
        receive,
        transmit,
    }
}

/// A process with one port and room for one VC, and an attachment of ours.
pub(crate) struct Rig {
    pub(crate) process: AdapterProcess,
    pub(crate) control: Control,
    pub(crate) attached: Attached,
}

impl Rig {
    /// Starts it on a CPU. Its lines hold `port_cells`, if that is said.
    pub(crate) fn start(idle: Idle, cpu: usize, port_cells: Option<u32>) -> anyhow::Result<Self> {
        let mut options = AdapterOptions::new(one_vc());
        (options.scheduling.idle, options.scheduling.cpu) = (idle, Some(cpu));
        options.port_cells = port_cells.unwrap_or(options.port_cells);
        let (process, mut control) = AdapterProcess::spawn(Role::Adapter.program()?, &options)?;
        let sizes = AttachmentSizes {
            event_slots: 4_096,
            doorbell_slots: 64,
        };
        let attached = control.attach(sizes, false)?;
        Ok(Self {
            process,
            control,
            attached,
        })
    }

    /// Opens its VC, with room for so many PDUs to receive and to transmit.
    pub(crate) fn open(
        &mut self,
        request: OpenRequest,
        sdu: u16,
        [receive, transmit]: [u32; 2],
    ) -> anyhow::Result<OpenVc> {
        let request = OpenRequest {
            attachment: self.attached.index(),
            ..request
        };
        let memory = memory_for(sdu, receive, transmit);
        Ok(self.control.open(request, memory)?)
    }

    /// Ends it in order.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        self.control.shutdown()?;
        self.process.wait()?;
        Ok(())
    }
}
