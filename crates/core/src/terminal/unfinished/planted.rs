use crate::planted::planted;

planted! {
    /// Bugs that a test can switch on in how files are received, to prove that the tests would
    /// notice them.
    pub enum Planted {
        /// The journal says that octets are there before they are synced.
        JournalBeforeOctets,
    }
}
