//! Bugs on purpose in how slots are counted, charged and compared.

use crate::planted::{flaws, planted};

planted! {
    /// Bugs that a test can switch on, to prove that the tests would notice them.
    pub enum Planted {
        /// The slot that begins with the connection is not counted.
        FirstSlotForgotten,
        /// A change of contract loses the part of a slot that has passed.
        PartLost,
        /// A change of contract counts the slots before it twice.
        SlotsTwice,
        /// A change of contract keeps the rate.
        RateKept,
        /// A connection whose contract reserved nothing has no slot at once when it reserves some.
        FirstReserveForgotten,
        /// Cells of CLP 0 alone occupy reserved slots.
        LowPriorityUnoccupied,
        /// Cells of CLP 1 count as cells of CLP 0, too.
        LowPriorityTwice,
        /// CLP 0 and CLP 1 are mixed up.
        PrioritiesMixed,
        /// Cells beyond what was reserved are taken off the unoccupied slots of later on.
        BurstClippedLate,
        /// Reserved slots without a cell cost nothing.
        UnoccupiedFree,
        /// Cells of CLP 1 have the price of CLP 0.
        PriceOfHighPriority,
        /// A price is cut to six decimals.
        PriceCut,
        /// The set-up is charged for each direction.
        SetUpTwice,
        /// Cells that were answered count as received.
        AnsweredReceived,
        /// Cells of resource management are left out of what was received.
        ManagingForgotten,
        /// Cells of a PDU in progress have no reason.
        HeldForgotten,
        /// Cells that came twice are lost ones.
        TwiceIsLost,
        /// Cells of the sender whose VC the receiver has not open are left out.
        OthersForgotten,
        /// Cells that the line has lost stand as those that its queue had no room for.
        ReasonsMixed,
        /// A VC is compared with that of another address.
        AddressIgnored,
    }
}

flaws! {}
