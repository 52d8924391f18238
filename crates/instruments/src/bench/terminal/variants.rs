//! Variants of a pair that take turns.

use super::pair::{Pair, Spec};
use crate::bench::measure::{Contestant, Sizes, Times};
use crate::bench::report::Report;

/// Times of each variant, whose receivers write `memory` octets again and again: a pass of each in
/// turn, `where_and_how` behind its name.
pub(super) fn take_turns(
    report: &mut Report,
    sizes: Sizes,
    memory: usize,
    where_and_how: &str,
    variants: &[(&str, Spec)],
    pass: impl Fn(&mut Pair) + Copy,
) -> anyhow::Result<Vec<Times>> {
    let pairs = variants
        .iter()
        .map(|(_, spec)| Pair::of_memory(*spec, memory));
    let mut pairs = pairs.collect::<anyhow::Result<Vec<_>>>()?;
    let contestants = variants.iter().zip(&mut pairs).map(|((name, _), pair)| {
        let name = format!("{name}, {where_and_how}");
        Contestant::whole(name, sizes.cells, move || pass(pair))
    });
    let contestants: Vec<_> = contestants.collect();
    let times = report.take_turns(contestants, sizes.repeats);
    for pair in &mut pairs {
        pair.ensure()?;
    }
    Ok(times)
}
