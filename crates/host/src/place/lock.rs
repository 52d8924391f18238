use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};

use cellgate_core::server::Former;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::directory::{Directory, Identity};

/// The lock's name in the state directory.
const NAME: &str = "lock";

/// A state directory that is this process's, as long as this stands. A file that a cleaner can
/// take away does not decide who governs an adapter: the adapter does.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    identity: Identity,
}

impl Lock {
    /// Takes the directory, and says what is known of the server that had it before.
    ///
    /// # Errors
    /// Another server has it.
    pub(crate) fn take(directory: &Directory) -> io::Result<(Self, Former)> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        let is_new = directory.find(OsStr::new(NAME))?.is_none();
        let name = OsStr::new(NAME);
        let file = directory.open_file(name, flags, 0o600).or_else(|error| {
            // A disk that takes nothing more still tells whose it is.
            let readable = directory.open_file(name, OFlags::RDONLY, 0);
            readable.map_err(|_| error)
        })?;
        let mut file = File::from(file);
        let mut text = String::new();
        // Whoever has it may have written anything.
        let _ = (&mut file).take(20).read_to_string(&mut text);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(taken(text.trim())),
            Err(error) => return Err(error.into()),
        }
        let identity = Identity::of(&file)?;
        let mut lock = Self { file, identity };
        // On a full disk it says nothing of its holder.
        let _ = lock.write(&format!("{}\n", std::process::id()));
        Ok((lock, Former::of((!is_new).then_some(&*text))))
    }

    /// Takes it again if somebody has removed it.
    ///
    /// # Errors
    /// Another server has it.
    pub(crate) fn look(&mut self, directory: &Directory) -> io::Result<bool> {
        let found = directory.find(OsStr::new(NAME))?;
        if found.is_some_and(|found| Identity::from(&found) == self.identity) {
            return Ok(false);
        }
        *self = Self::take(directory)?.0;
        Ok(true)
    }

    /// Says that its holder ends in order.
    pub(crate) fn let_go(&mut self) {
        let _ = self.write(Former::ENDED);
    }

    /// Writes over what it says: a full disk has room for that. Where that fails, too, it says
    /// nothing, rather than what was true of another.
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.file.rewind()?;
        let written = self.file.write_all(text.as_bytes());
        let len = written.as_ref().map_or(0, |()| text.len() as u64);
        self.file.set_len(len)?;
        written
    }
}

fn taken(holder: &str) -> io::Error {
    let who = match holder.parse::<u32>() {
        Ok(pid) => format!(", process {pid},"),
        Err(_) => String::new(),
    };
    let why = format!("another server{who} has it: end it, or name another state_dir");
    io::Error::new(io::ErrorKind::AddrInUse, why)
}
