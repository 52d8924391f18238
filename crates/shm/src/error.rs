use cellgate_core::queue::{FileKind, HeaderError};
use rustix::io::Errno;

/// Why shared memory could not be made or was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShmError {
    /// The kernel refused a call.
    #[error("{call}: {errno}")]
    System {
        /// The system call.
        call: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
    /// The descriptor is no memory that can be sealed: a file on disk, a pipe, a device. Its owner
    /// could shorten it under whoever maps it.
    #[error("the descriptor is no memory file that can be sealed")]
    NotSealable,
    /// The file lacks seals.
    #[error("the memory file lacks seals (has {has:#x}, needs {needs:#x})")]
    NotSealed {
        /// `F_SEAL_*` bits it has.
        has: u32,
        /// `F_SEAL_*` bits it needs.
        needs: u32,
    },
    /// The file has another length than the geometry says.
    #[error("the memory file has {has} octets, needs {needs}")]
    Length {
        /// Octets of the file.
        has: u64,
        /// Octets due.
        needs: u64,
    },
    /// The file does not begin with a header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The file is another one of ours, or of another generation.
    #[error("the memory file is {has:?} of generation {generation}")]
    WrongFile {
        /// Which it is.
        has: FileKind,
        generation: u32,
    },
    /// The receive buffer named does not go with the geometry.
    #[error("the receive buffer does not go with the geometry")]
    ReceiveBuffer,
}

impl ShmError {
    pub(crate) fn system(call: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::System { call, errno }
    }
}
