//! Fifty connections over one control socket: they share one descriptor to wait at, and the
//! threshold of silent events counts those of all of them.
//!
//! Needs a server with interfaces `a` and `b`, joined by a memory link. Prints:
//!
//! ```text
//! 50 PDUs of 50 connections
//! ```

use cellgate::{Connection, Error, Notification, Session};

const CONNECTIONS: usize = 50;

fn open(session: &Session, interface: &str) -> Result<Vec<Connection>, Error> {
    // One wake-up for 50 PDUs, or 20 ms after the first.
    let silent = Notification::Silent {
        threshold: CONNECTIONS as u32,
        longest_delay_ns: 20_000_000,
    };
    let builder = Connection::builder().contract("cbr,aal5:pcr=100,max_sdu=40");
    let builder = builder.notification(silent);
    let open = |n| {
        session.open(
            &builder
                .clone()
                .address(format!("{interface}.0.{}", 100 + n)),
        )
    };
    (0..CONNECTIONS).map(open).collect()
}

fn main() -> Result<(), Error> {
    let session = Session::new()?;
    let (senders, readers) = (open(&session, "a")?, open(&session, "b")?);
    for sender in &senders {
        sender.send(b"to each")?;
    }
    let (mut pdus, mut buffer) = (0, [0; 40]);
    while pdus < CONNECTIONS {
        let ready = session.wait(None)?;
        let ready = |reader: &&Connection| ready.contains(&reader.number());
        for reader in readers.iter().filter(ready) {
            loop {
                match reader.try_recv(&mut buffer) {
                    Ok(_) => pdus += 1,
                    Err(error) if error.is_would_block() => break,
                    Err(error) => return Err(error),
                }
            }
        }
    }
    println!("{pdus} PDUs of {} connections", readers.len());
    Ok(())
}
