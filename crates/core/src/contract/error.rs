/// A text that is no contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} (at octet {at})", self.reason())]
pub struct ContractError {
    /// Octets of the text before the mistake.
    pub at: usize,
    pub kind: ContractErrorKind,
    /// What was probably meant by what stands there; none: nothing is near.
    pub meant: Option<&'static str>,
}

impl ContractError {
    /// What is wrong, and what was probably meant.
    pub fn reason(&self) -> String {
        match self.meant {
            Some(meant) => format!("{}; did you mean {meant}?", self.kind),
            None => self.kind.to_string(),
        }
    }
}

/// What is wrong at the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContractErrorKind {
    /// No service category or AAL where one must be. Here, as below, the words that can stand at
    /// the place.
    #[error("expected a service category or an AAL: {0}")]
    ExpectedCategory(&'static str),
    /// libatm knows the word and refuses it.
    #[error("vbr is not part of libatm's contracts")]
    VbrInStrict,
    /// The text names an AAL only.
    #[error("a service category is missing: {0}")]
    NoCategory(&'static str),
    /// Something other than `:` follows the word before.
    #[error("expected ':'")]
    ExpectedColon,
    /// The text ends where a parameter should be.
    #[error("expected a parameter: {0}")]
    ExpectedParameter(&'static str),
    /// Neither a parameter that can stand here nor a direction.
    #[error("no such parameter here; expected {0}")]
    UnknownParameter(&'static str),
    /// Something follows a value.
    #[error("expected ',' or the end")]
    ExpectedComma,
    /// `tx:` after `rx:`.
    #[error("tx: must come before rx:")]
    TransmitAfterReceive,
    /// Something other than `rx:` follows `tx:none`.
    #[error("expected rx:")]
    ExpectedReceive,
    /// A multiplier without unit: cells or bits?
    #[error("a multiplier needs a unit: cps or bps")]
    NoUnit,
    /// More cells/s than 2^31 - 1.
    #[error("the rate is out of range (0 to 2147483647 cells/s)")]
    RateRange,
    /// `min_pcr=max` or `scr=max`.
    #[error("max is no value for this rate")]
    MaxRate,
    /// An SDU size that is none.
    #[error("the SDU size is out of range (0 to 2147483647 octets)")]
    SduRange,
    /// Not a number of cells from 1 to 2^32 - 1.
    #[error("expected a number of cells, 1 to 4294967295")]
    ExpectedCells,
    /// A sustainable rate of less than one cell/s.
    #[error("the rate is less than one cell/s")]
    NoRate,
    /// Not a time.
    #[error("expected a time with its unit, such as 250us (units: ns, us, ms, s)")]
    ExpectedTime,
    /// A time that is finer than a nanosecond, or longer than 2^64 - 1 of them.
    #[error("the time is out of range (whole nanoseconds, 0 to 18446744073709551615)")]
    TimeRange,
    /// A word that the parameter does not have.
    #[error("expected one of: {0}")]
    ExpectedWord(&'static str),
    /// A parameter of the whole contract in the list of one direction.
    #[error("this belongs to the whole contract: it goes before tx: and rx:")]
    NotInDirection,
    /// `mids=` or `reassembly=` of another AAL.
    #[error("this belongs to aal34: no other AAL puts several PDUs together at once")]
    NotAal34,
    /// A word of ABR under another category.
    #[error("this belongs to abr: no other category has a rate that the network sets")]
    NotAbr,
    /// Not a part of a rate.
    #[error("expected a part, 1 over a power of two: 1, 1/2, 1/4 to 1/32768")]
    ExpectedPart,
    /// Not a cutoff decrease factor.
    #[error("expected 0, or 1 over a power of two: 1, 1/2, 1/4 to 1/64")]
    CutoffRange,
    /// Not an Nrm.
    #[error("expected a power of two, 2 to 256 cells")]
    NrmRange,
    /// Not a Trm.
    #[error("expected 781250ns to 100ms")]
    TrmRange,
    /// Not an ADTF.
    #[error("expected 10ms to 10.23s")]
    AdtfRange,
    /// Not a TBE.
    #[error("expected a number of cells, 0 to 16777215")]
    TbeRange,
    /// Not an FRTT.
    #[error("expected a time up to 16.7s")]
    FrttRange,
    /// Not a number of MIDs from 1 to 64.
    #[error("expected a number of PDUs that are received at once, 1 to 64")]
    MidsRange,
}
