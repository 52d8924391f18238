//! What lies in the file system: directories, sockets and files, each found once and used by
//! descriptor.
//!
//! Whoever may write a directory may put anything at a name in it at any time: a link, another
//! program's socket, nothing. So no name is trusted twice, no link of another user is followed, and
//! root acts as the user before it touches what the user owns.

mod directory;
mod disk;
mod entrance;
mod identity;
mod lock;
#[cfg(test)]
mod tests;

pub(crate) use directory::Directory;
pub(crate) use entrance::{Entrance, Look, call};
pub(crate) use identity::{Actor, acting_as};
pub(crate) use lock::Lock;
