//! Two connections in one poll: try, arm, wait for the descriptor, try again. An asynchronous
//! runtime does the same with its own poll.
//!
//! Needs a server with interfaces `a` and `b`, joined by a memory link. Prints:
//!
//! ```text
//! b.0.100: ping
//! a.0.100: pong
//! ```

use cellgate::{Connection, Error, Interest};
use rustix::event::{PollFd, PollFlags, poll};

/// The next SDU of either; where it came from.
fn next(connections: &[Connection; 2], buffer: &mut [u8]) -> Result<(usize, usize), Error> {
    loop {
        let mut armed = 0;
        for (i, connection) in connections.iter().enumerate() {
            match connection.try_recv(buffer) {
                Ok(received) => return Ok((i, received.len)),
                Err(error) if error.is_would_block() => {}
                Err(error) => return Err(error),
            }
            armed += usize::from(connection.arm(Interest::RECEIVE)?);
        }
        if armed == connections.len() {
            let [a, b] = connections;
            let mut fds = [PollFd::new(a, PollFlags::IN), PollFd::new(b, PollFlags::IN)];
            poll(&mut fds, None).map_err(std::io::Error::from)?;
        }
    }
}

fn main() -> Result<(), Error> {
    let contract = "cbr,aal5:pcr=20000,max_sdu=1000";
    let open = |address| Connection::open(address, contract);
    let connections = [open("a.0.100")?, open("b.0.100")?];
    let mut buffer = [0; 1000];
    connections[0].send(b"ping")?;
    for _ in 0..2 {
        let (from, len) = next(&connections, &mut buffer)?;
        let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
        println!("{}: {text}", connections[from].address());
        if text == "ping" {
            connections[from].send(b"pong")?;
        }
    }
    Ok(())
}
