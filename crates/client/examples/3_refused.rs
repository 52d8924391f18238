//! What admission says when there is not enough, and how to take what there is.
//!
//! Needs a server whose interface `a` sends 1,000,000 cells/s. Prints:
//!
//! ```text
//! transmit bandwidth: 5000000 cells/s needed, 1000000 free
//! it would take cbr,aal5:pcr=1000000
//! open: cbr,aal5:pcr=1000000
//! ```

use cellgate::{Connection, Error, Refused};

fn main() -> Result<(), Error> {
    let error = Connection::open("a.0.100", "cbr,aal5:pcr=5000000").unwrap_err();
    let Error::Refused(Refused::Admission(refused)) = error else {
        return Err(error);
    };
    let (resource, unit) = (refused.resource, refused.resource.unit());
    println!(
        "{resource}: {} {unit} needed, {} free",
        refused.needed, refused.free
    );

    let Some(offer) = refused.offer else {
        return Ok(());
    };
    println!("it would take {offer}");
    let connection = Connection::open("a.0.100", &offer)?;
    println!("open: {}", connection.contract());
    Ok(())
}
