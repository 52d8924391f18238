use core::net::Ipv4Addr;
use std::path::PathBuf;

use cellgate::{Connection, Marks, Notification, TrafficContract};
use cellgate_core::aal::mssar::CELLS_MAX;

use crate::cells::Cells;
use crate::path::Path;
use crate::{Access, Error};

/// A host of the network, and its place on this machine.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub(crate) host: Ipv4Addr,
    pub(crate) access: Access,
    interface: Option<String>,
    socket: Option<PathBuf>,
}

impl NodeConfig {
    /// A host of this number. Of packets, it is an IPv4 address of this machine.
    pub const fn new(host: Ipv4Addr, access: Access) -> Self {
        Self {
            host,
            access,
            interface: None,
            socket: None,
        }
    }

    /// On this interface of the daemon's. A daemon of one interface needs no name.
    #[must_use]
    pub fn on(mut self, interface: impl Into<String>) -> Self {
        self.interface = Some(interface.into());
        self
    }

    /// With the daemon at this control socket. Without: the usual one.
    #[must_use]
    pub fn at(mut self, socket: impl Into<PathBuf>) -> Self {
        self.socket = Some(socket.into());
        self
    }

    /// The host's number.
    pub const fn host(&self) -> Ipv4Addr {
        self.host
    }

    /// The way of blocks on a circuit.
    pub(crate) fn open(
        &self,
        vci: u16,
        contract: &TrafficContract,
        notification: Notification,
    ) -> Result<Path, Error> {
        let shape = match self.access {
            Access::Cells => Shape::blocks(notification),
            Access::Aal5 | Access::Packets => Shape {
                notification,
                marks: Marks::None,
                cells: None,
            },
        };
        let connection = self.connection(vci, contract, shape)?;
        Ok(match self.access {
            Access::Cells => Path::Cells(Box::new(Cells::new(connection, vci))),
            Access::Aal5 | Access::Packets => Path::Pdus(Box::new(connection)),
        })
    }

    pub(crate) fn connection(
        &self,
        vci: u16,
        contract: &TrafficContract,
        shape: Shape,
    ) -> Result<Connection, Error> {
        let itf = self.interface.as_ref();
        let address = itf.map_or(format!("0.{vci}"), |itf| format!("{itf}.0.{vci}"));
        let mut builder = Connection::builder()
            .address(&address)
            .contract(contract)
            .notification(shape.notification)
            .marks(shape.marks)
            // Cells that have left would wake a reader.
            .completions(false);
        if let Some(socket) = &self.socket {
            builder = builder.socket(socket);
        }
        if let Some(cells) = shape.cells {
            builder = builder.receive_pdus(cells).transmit_pdus(cells);
        }
        Ok(builder.open()?)
    }
}

/// The events of a connection, and the cells that it has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    notification: Notification,
    marks: Marks,
    cells: Option<u32>,
}

impl Shape {
    /// A block on its way while another is read or written.
    const CELLS: u32 = 2 * CELLS_MAX as u32;

    /// Of cells that carry blocks.
    pub(crate) const fn blocks(notification: Notification) -> Self {
        Self {
            notification,
            marks: Marks::Mssar,
            cells: Some(Self::CELLS),
        }
    }

    /// Of cells one by one.
    pub(crate) const fn cells() -> Self {
        Self {
            notification: Notification::EveryCell,
            marks: Marks::None,
            cells: Some(Self::CELLS),
        }
    }
}
