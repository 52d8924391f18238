//! Contract text.

use cellgate_core::contract::{CellRate, Strictness, TrafficContract};

/// A text: what is parsed, printed and parsed again is the same, the canonical text is a fixpoint,
/// and a text that libatm takes means the same with our words added, unless numbers wrap.
pub fn contract(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let strict = TrafficContract::parse(text, Strictness::Strict);
    let extended = TrafficContract::parse(text, Strictness::Extended);
    if let Ok(contract) = strict
        && !may_wrap(text)
    {
        assert_eq!(extended, Ok(contract), "{text:?}");
    }
    for error in [strict.err(), extended.as_ref().err().cloned()]
        .into_iter()
        .flatten()
    {
        assert!(text.is_char_boundary(error.at), "{text:?}: {error:?}");
        assert!(!error.to_string().is_empty());
    }
    let Ok(contract) = extended else { return };
    let canonical = contract.to_string();
    let again = TrafficContract::parse(&canonical, Strictness::Extended);
    assert_eq!(again, Ok(contract), "{text:?} printed as {canonical:?}");
    if let Some(libatm) = contract.libatm_text() {
        let strict = TrafficContract::parse(&libatm, Strictness::Strict);
        assert_eq!(strict, Ok(contract), "{text:?} printed as {libatm:?}");
    }
    let line = CellRate::OC3;
    for descriptor in [contract.transmit, contract.receive].into_iter().flatten() {
        assert!(descriptor.peak().on(line) <= line);
        assert!(descriptor.sustained(line) <= descriptor.peak().on(line));
        let _ = descriptor.burst_tolerance_ns(line);
    }
}

/// Whether a number may be beyond 32 bits.
fn may_wrap(text: &str) -> bool {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    text.contains('-') || text.contains(['g', 'G']) || numbers.any(|digits| digits.len() > 3)
}
