use super::Words;

/// The first word of every file: `cellgate` in ASCII, read as little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"cellgate");
/// The version of these byte maps.
pub const VERSION: u32 = 2;
/// Octets of the header.
pub const HEADER_LEN: usize = 24 + 8 * GEOMETRY_WORDS;
/// Words of geometry in the header.
pub const GEOMETRY_WORDS: usize = 5;

/// Which of the shared files this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FileKind {
    /// A connection's, written by the adapter.
    ConnectionFromAdapter = 1,
    /// A connection's, written by the client.
    ConnectionFromClient = 2,
    /// An attachment's, written by the adapter.
    AttachmentFromAdapter = 3,
    /// An attachment's, written by the client.
    AttachmentFromClient = 4,
    /// A port's, written by the sender of cells.
    PortFromSender = 5,
    /// A port's, written by the receiver of cells.
    PortFromReceiver = 6,
    /// A server's counters.
    Counters = 7,
    /// An adapter's page: whether its firmware sleeps.
    Adapter = 8,
}

impl FileKind {
    /// The header of an adapter's page. Of one whose firmware never sleeps the first word of
    /// geometry is 0: nobody has to look whether it does.
    pub const fn adapter_header(rests: bool) -> Header {
        Header {
            kind: Self::Adapter,
            generation: 1,
            geometry: [rests as u64, 0, 0, 0, 0],
        }
    }
}

/// What a shared file says of itself, for people and tools that look at it. Neither party takes a
/// size from it: both know the geometry from the control channel.
///
/// ```text
///  0       8         12     16           24                                64
/// +-------+---------+------+------------+----------------------------------+
/// | magic | version | kind | generation | geometry: 5 words, as the kind has |
/// +-------+---------+------+------------+----------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: FileKind,
    /// Of the region; a replaced region has another.
    pub generation: u32,
    /// As the kind has it; unused words are 0.
    pub geometry: [u64; GEOMETRY_WORDS],
}

/// Why octets are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The first word is not [`MAGIC`].
    #[error("not a cellgate file")]
    Magic,
    /// Made by another version.
    #[error("version {0} of the shared memory, this is {VERSION}")]
    Version(u32),
    /// No file of this kind.
    #[error("no file kind {0}")]
    Kind(u32),
}

impl Header {
    /// Writes the header, once, before the other party sees the file.
    pub fn write<W: Words>(&self, file: &W) {
        for (i, word) in self.geometry.into_iter().enumerate() {
            file.store(24 + 8 * i, word);
        }
        file.store(16, u64::from(self.generation));
        file.store(8, u64::from(VERSION) | (self.kind as u64) << 32);
        file.store(0, MAGIC);
    }

    /// Reads a header.
    pub fn read<W: Words>(file: &W) -> Result<Self, HeaderError> {
        if file.load(0) != MAGIC {
            return Err(HeaderError::Magic);
        }
        let word = file.load(8);
        if word as u32 != VERSION {
            return Err(HeaderError::Version(word as u32));
        }
        let kind = match (word >> 32) as u32 {
            1 => FileKind::ConnectionFromAdapter,
            2 => FileKind::ConnectionFromClient,
            3 => FileKind::AttachmentFromAdapter,
            4 => FileKind::AttachmentFromClient,
            5 => FileKind::PortFromSender,
            6 => FileKind::PortFromReceiver,
            7 => FileKind::Counters,
            8 => FileKind::Adapter,
            other => return Err(HeaderError::Kind(other)),
        };
        Ok(Self {
            kind,
            generation: file.load(16) as u32,
            geometry: core::array::from_fn(|i| file.load(24 + 8 * i)),
        })
    }
}
