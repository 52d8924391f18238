//! AAL5 (I.363.5): the CPCS-PDU is the SDU, 0 to 47 octets of pad and the trailer, in whole cells.
//!
//! ```text
//! +-------------------------- ... ---+-----+----+-----+--------+-----+
//! |               SDU                | pad | UU | CPI | length | CRC |
//! +-------------------------- ... ---+-----+----+-----+--------+-----+
//!  1 to 65,535 octets                 0-47   1    1       2       4     a multiple of 48
//! ```

mod reassembler;
mod segmenter;

pub use reassembler::{Error, Reassembler, Sdu, only};
pub use segmenter::Segmenter;
