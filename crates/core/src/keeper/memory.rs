//! What an adapter holds of a connection beside the files that it shares.

use crate::aal::aal34;
use crate::adapter::{Aal, OpenRequest};
use crate::queue::ConnectionGeometry;

/// Room for the largest AAL5 PDU on its way out: 1,366 cells carry 65,535 octets and the trailer.
const STAGING_LEN: usize = 1_366 * 48;

/// The same of AAL3/4: 1,490 cells, each with 44 octets of the PDU.
const STAGING_LEN_AAL34: usize = aal34::cells(u16::MAX) as usize * 48;

/// The adapter's private memory for a connection: sizes of what lies in no file.
#[derive(Clone, Copy, Debug)]
pub struct PrivateMemory {
    /// Octets for a PDU on its way out.
    pub staging_len: usize,
    /// What an AAL3/4 VC that receives may hold.
    pub limits: Option<aal34::Limits>,
}

impl PrivateMemory {
    /// For a VC that is opened, or modified, like this.
    pub fn of(request: &OpenRequest, geometry: &ConnectionGeometry) -> Self {
        let sizes = geometry.sizes();
        let staging_len = match (sizes.transmit_len, request.aal) {
            (0, _) => 0,
            (_, Aal::Aal0 | Aal::Aal5) => STAGING_LEN,
            (_, Aal::Aal34(_)) => STAGING_LEN_AAL34,
        };
        Self {
            staging_len,
            limits: request.aal34_limits(sizes.receive_len, sizes.receive_slots),
        }
    }

    /// Octets in all.
    pub fn octets(&self) -> usize {
        let reassembler = self.limits.as_ref().map(aal34::Reassembler::memory_len);
        self.staging_len + reassembler.unwrap_or(0)
    }
}
