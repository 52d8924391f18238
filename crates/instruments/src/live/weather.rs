//! When a live run says nothing: the machine kept somebody from running for longer than is
//! admitted. Such a run is void, and tried again.

/// Tries of a run, the void ones included.
pub(crate) const TRIES_MAX: u32 = 3;

/// The longest stall of an adapter that must cost nobody anything.
pub(crate) const GAP_MAX_NS: u64 = 30_000_000;

/// Why a run says nothing in which somebody did not run, as `what` tells, for longer than is
/// admitted.
pub(crate) fn too_long(what: &str, is_ns: u64, may_ns: u64) -> Option<String> {
    let (is, may) = (ms(is_ns), ms(may_ns));
    (is_ns > may_ns).then(|| format!("{what} for {is}, admitted are {may}"))
}

/// Milliseconds, as people read them.
pub(crate) fn ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

/// Tries until a try is not void, [`TRIES_MAX`] times at most: the last try.
///
/// # Errors
/// Those of a try.
pub(crate) fn until_sound<T>(
    mut try_once: impl FnMut(u32) -> anyhow::Result<T>,
    is_void: impl Fn(&T) -> bool,
) -> anyhow::Result<T> {
    let mut number = 1;
    loop {
        let tried = try_once(number)?;
        if number == TRIES_MAX || !is_void(&tried) {
            return Ok(tried);
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_void_beyond_what_is_admitted() {
        assert_eq!(too_long("it stood still", GAP_MAX_NS, GAP_MAX_NS), None);
        let told = "it stood still for 31.0 ms, admitted are 30.0 ms";
        assert_eq!(
            too_long("it stood still", 31_000_000, GAP_MAX_NS).as_deref(),
            Some(told)
        );
    }

    #[test]
    fn a_void_run_is_tried_again_three_times_at_most() {
        for (sound_from, last) in [(1, 1), (3, 3), (4, 3)] {
            let mut numbers = Vec::new();
            let try_once = |number| {
                numbers.push(number);
                Ok(number)
            };
            let tried = until_sound(try_once, |number| *number < sound_from);
            assert_eq!(tried.ok(), Some(last));
            assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
        }
    }
}
