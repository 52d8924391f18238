use std::os::fd::AsFd;

/// Makes an eventfd readable.
pub(crate) fn ring(eventfd: impl AsFd) {
    // It fails only when the count would overflow, and then the eventfd is readable already.
    let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
}

/// Makes an eventfd unreadable.
pub(crate) fn silence(eventfd: impl AsFd) {
    // It fails only when the eventfd was not readable.
    let _ = rustix::io::read(eventfd, &mut [0; 8]);
}
