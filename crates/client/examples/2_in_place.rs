//! An echo without copies: what is received is read where it lies, what is sent is written where
//! it is sent from. Several PDUs are held at once.
//!
//! Needs a server with interfaces `a` and `b`, joined by a memory link. Prints:
//!
//! ```text
//! held: first, second, third
//! echoed: FIRST
//! echoed: THIRD
//! echoed: SECOND
//! 0 copies
//! ```

use cellgate::{Connection, Error};

fn write(connection: &Connection, octets: impl ExactSizeIterator<Item = u8>) -> Result<(), Error> {
    let mut space = connection.reserve(octets.len())?;
    for (to, octet) in space.iter_mut().zip(octets) {
        *to = octet;
    }
    space.submit()
}

fn main() -> Result<(), Error> {
    let contract = "cbr,aal5:pcr=20000,max_sdu=1000";
    let a = Connection::open("a.0.100", contract)?;
    let b = Connection::open("b.0.100", contract)?;
    for word in ["first", "second", "third"] {
        write(&a, word.bytes())?;
    }

    let (first, second, third) = (b.next_pdu()?, b.next_pdu()?, b.next_pdu()?);
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    println!(
        "held: {}, {}, {}",
        text(&first),
        text(&second),
        text(&third)
    );
    for pdu in [first, third, second] {
        write(&b, pdu.iter().map(u8::to_ascii_uppercase))?;
        // Dropped here, and so given back: in another order than they came.
    }

    for _ in 0..3 {
        println!("echoed: {}", text(&a.next_pdu()?));
    }
    let counted = [a.counters(), b.counters()];
    let copies: u64 = counted
        .iter()
        .map(|c| c.send_copies + c.receive_copies)
        .sum();
    println!("{copies} copies");
    Ok(())
}
