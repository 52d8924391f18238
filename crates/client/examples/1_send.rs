//! An SDU from one end of a connection to the other, one copy on either side.
//!
//! Needs a server with interfaces `a` and `b`, joined by a memory link. Prints:
//!
//! ```text
//! a.0.100: cbr,aal5:pcr=20000,max_sdu=1000
//! 13 octets: Hello, world!
//! 1 copy to send, 1 to receive
//! ```

use cellgate::{Connection, Error};

fn main() -> Result<(), Error> {
    let contract = "cbr,aal5:pcr=20000,max_sdu=1000";
    let a = Connection::open("a.0.100", contract)?;
    let b = Connection::open("b.0.100", contract)?;
    println!("{}: {}", a.address(), a.contract());

    a.send(b"Hello, world!")?;

    let mut buffer = [0; 1000];
    let received = b.recv(&mut buffer)?;
    let text = String::from_utf8_lossy(&buffer[..received.len]);
    println!("{} octets: {text}", received.len);
    let (sent, got) = (a.counters(), b.counters());
    println!(
        "{} copy to send, {} to receive",
        sent.send_copies, got.receive_copies
    );
    Ok(())
}
