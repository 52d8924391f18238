//! Rates in bit/s, as people write them.

/// Reads bit/s of SDU with a decimal multiplier: `400M`, `400Mbps`, `2.5G`, `400000000`.
///
/// # Errors
/// What is expected, in words.
pub fn bit_s(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let number = ["bit/s", "bps"]
        .iter()
        .find_map(|unit| lower.strip_suffix(unit));
    let number = number.unwrap_or(&lower);
    let (digits, multiplier) = match number.char_indices().last() {
        Some((at, 'k')) => (&number[..at], 1e3),
        Some((at, 'm')) => (&number[..at], 1e6),
        Some((at, 'g')) => (&number[..at], 1e9),
        _ => (number, 1.0),
    };
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    match digits.parse::<f64>() {
        //  10^12 bit/s is beyond any memory bus.
        Ok(value) if plain && value * multiplier <= 1e12 => Ok((value * multiplier).round() as u64),
        _ => Err("expected bit/s of SDU such as 400M, at most 1000G".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rates() {
        for (text, rate) in [
            ("400M", 400_000_000),
            ("400Mbps", 400_000_000),
            ("2.5Gbit/s", 2_500_000_000),
            ("64k", 64_000),
            ("0", 0),
            ("12345678", 12_345_678),
            ("0001.50000000000000000000k", 1_500),
            ("1000G", 1_000_000_000_000),
        ] {
            assert_eq!(bit_s(text), Ok(rate), "{text}");
        }
        for text in [
            "", "M", "-5M", "fast", "1e3", "10T", "9999999G", "1000.1G", "1.2.3", "max",
        ] {
            assert!(bit_s(text).is_err(), "{text}");
        }
    }
}
