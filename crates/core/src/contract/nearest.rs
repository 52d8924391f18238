//! The word that was probably meant.

/// The known word that is nearest to `said`, letters in either case: at a distance of one letter
/// that is missing, added, another or exchanged with the next, two in a word of five or more. None:
/// none is so near.
///
/// Work: the product of both lengths for each known word; longer words than 24 octets have none.
pub(super) fn nearest<'a>(said: &str, known: &[&'a str]) -> Option<&'a str> {
    const LEN_MAX: usize = 24;
    if said.is_empty() || said.len() > LEN_MAX {
        return None;
    }
    let allowed = if said.len() < 5 { 1 } else { 2 };
    let each = known.iter().map(|known| (distance(said, known), *known));
    let (distance, nearest) = each.min_by_key(|(distance, _)| *distance)?;
    (distance <= allowed && distance < said.len()).then_some(nearest)
}

/// The least number of such changes (the restricted distance of Damerau and Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let lower = |text: &str| text.to_ascii_lowercase().into_bytes();
    let (one, other) = (lower(one), lower(other));
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut next = vec![i];
        for j in 1..=other.len() {
            let differs = usize::from(one[i - 1] != other[j - 1]);
            let mut least = (row[j] + 1).min(next[j - 1] + 1).min(row[j - 1] + differs);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            next.push(least);
        }
        before = core::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_near_that_a_finger_missed() {
        let known = ["pcr", "max_sdu", "Mbit/s", "kbit/s", "video"];
        for (said, near) in [
            ("pcr", Some("pcr")),
            ("pc", Some("pcr")),
            ("prc", Some("pcr")),
            ("PCR", Some("pcr")),
            ("max_sud", Some("max_sdu")),
            ("maxsdu", Some("max_sdu")),
            ("Mbits/s", Some("Mbit/s")),
            ("vidoe", Some("video")),
            ("xyz", None),
            ("p", None),
            ("", None),
            ("a_word_that_is_much_too_long", None),
        ] {
            assert_eq!(nearest(said, &known), near, "{said}");
        }
    }
}
