//! A contract that changes while data flows, and the counters of the adapter at the end.
//!
//! Needs a server with interfaces `a` and `b`, joined by a memory link. Prints:
//!
//! ```text
//! cbr,aal5:pcr=10000,max_sdu=500
//! cbr,aal5:pcr=40000,max_sdu=4000
//! 10 SDUs of 500 octets, then 10 of 4000
//! the adapter has sent 20 PDUs
//! ```

use std::time::Duration;

use cellgate::{Connection, Error};

fn main() -> Result<(), Error> {
    let contract = "cbr,aal5:pcr=10000,max_sdu=500";
    let a = Connection::open("a.0.100", contract)?;
    let b = Connection::open("b.0.100", contract)?;
    println!("{}", a.contract());
    for _ in 0..10 {
        a.send(&[1; 500])?;
    }

    // The receiver first: it must have room for what is to come.
    b.set_contract("cbr,aal5:pcr=40000,max_sdu=4000")?;
    a.set_contract("cbr,aal5:pcr=40000,max_sdu=4000")?;
    println!("{}", a.contract());
    for _ in 0..10 {
        a.send(&[2; 4000])?;
    }

    let mut lengths = [0; 20];
    for len in &mut lengths {
        *len = b.next_pdu()?.len();
    }
    let of = |len| lengths.iter().filter(|l| **l == len).count();
    println!("{} SDUs of 500 octets, then {} of 4000", of(500), of(4000));
    let stats = a.close(Duration::from_secs(10))?;
    println!("the adapter has sent {} PDUs", stats.pdus_transmitted);
    Ok(())
}
