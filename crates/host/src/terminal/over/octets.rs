//! A stream of octets both ways, as the kernel or a library has it.

use std::io;
use std::time::Duration;

use cellgate_core::Time;

/// A stream of octets both ways. It keeps order and loses nothing, and never waits but where it is
/// told to.
pub trait Octets {
    /// Reads what has come: how many octets, 0 if the other end sends no more.
    ///
    /// # Errors
    /// Nothing has come ([`io::ErrorKind::WouldBlock`]), or the stream is broken.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Takes octets to be sent: how many.
    ///
    /// # Errors
    /// There is no room ([`io::ErrorKind::WouldBlock`]), or the stream is broken.
    fn write(&mut self, octets: &[u8]) -> io::Result<usize>;

    /// Waits until something can be read or written, as far as that is asked for, or `until`.
    ///
    /// # Errors
    /// The kernel refuses.
    fn wait(&mut self, reads: bool, writes: bool, until: Time) -> io::Result<()>;

    /// Says that nothing is sent any more, and waits for the other end to say so, too: then all
    /// has come there.
    fn finish(&mut self, timeout: Duration);
}
