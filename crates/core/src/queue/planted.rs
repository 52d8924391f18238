//! The bugs that tests plant in the queues.

use crate::planted::planted;

planted! {
    /// Bugs that a test's memory can switch on in the queues ([`super::Words::planted`]), to
    /// prove that the tests would notice them. Memory of products never does, and the compiler
    /// removes the switches.
    pub enum Planted {
        /// Where a queue wraps, its head is published with the next slot.
        HeadLate,
        /// Where a queue wraps, its head is published before the next slot is filled.
        HeadEarly,
        /// Where a queue wraps, its tail gives back a slot that has not been read.
        TailEarly,
        /// A full queue takes one more.
        FullByOne,
        /// Who goes on with another's queue begins where that began.
        ResumedFromStart,
        /// A reader does not see the last PDU in its queue.
        LastUnseen,
        /// A reader keeps a slot of those that it gives back.
        GivenBackShort,
        /// A transmit descriptor is written after its publication.
        DescriptorLate,
        /// Once an SDU has been sent, the space of all is taken back.
        SpaceTakenEarly,
        /// A client does not hear that events were lost.
        LostEventsIgnored,
    }
}
