//! Durations in the syntax of the command line: a number and its unit, as in `60us`, `1.5s` or `10min`.
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Units with their nanoseconds. Where one name ends with another, the longer comes first.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A parser for clap that accepts durations within these bounds.
pub fn between(
    bounds: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let duration = parse(text).ok_or("write a number with its unit, as in 60us, 200ms, 1.5s or 10min")?;
        if bounds.contains(&duration) {
            return Ok(duration);
        }
        Err(format!("write a duration from {} to {}", show(*bounds.start()), show(*bounds.end())))
    }
}

/// Parses a number with its unit; a 0 needs none.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (number, unit) =
        UNITS.iter().find_map(|(name, nanoseconds)| Some((text.strip_suffix(name)?, *nanoseconds)))?;
    let (whole, fraction) = number.trim_end().split_once('.').unwrap_or((number.trim_end(), "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Further digits would be below a nanosecond, whatever the unit.
    if !digits(whole) || !digits(fraction) || fraction.len() > 15 {
        return None;
    }
    let part = u128::from(unit) * fraction.parse::<u128>().ok()? / 10u128.pow(fraction.len() as u32);
    let nanoseconds = whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(part as u64)?;
    Some(Duration::from_nanos(nanoseconds))
}

/// The duration in that syntax, in the largest unit that needs no fraction.
pub fn show(duration: Duration) -> impl Display {
    let nanoseconds = duration.as_nanos();
    let fits = |(_, unit): &&(&str, u64)| nanoseconds.is_multiple_of(u128::from(*unit));
    let named = UNITS.iter().filter(|(name, _)| !["µs", "m"].contains(name));
    match named.filter(fits).max_by_key(|(_, unit)| *unit) {
        Some((name, unit)) if nanoseconds > 0 => format!("{}{name}", nanoseconds / u128::from(*unit)),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("0s", 0),
            ("7ns", 7),
            ("60us", 60_000),
            ("60µs", 60_000),
            ("200ms", 200_000_000),
            ("1.5s", 1_500_000_000),
            ("0.25 ms", 250_000),
            ("10min", 600_000_000_000),
            ("10m", 600_000_000_000),
            ("2h", 7_200_000_000_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanoseconds)), "{text}");
        }
        for text in
            ["", "s", "60", "-1s", "+1s", "1.s", ".5s", "1e3s", "1s2", "1 d", "99999999999h", "1.5.2s"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_told_the_bounds() {
        let read = between(Duration::from_millis(10)..=Duration::from_secs(3600));
        assert_eq!(read("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(read("2h").unwrap_err(), "write a duration from 10ms to 1h");
        assert!(read("1000").unwrap_err().contains("60us"));
        for text in ["0", "60us", "90s", "36ms", "1h", "10min"] {
            assert_eq!(show(parse(text).unwrap()).to_string(), text);
        }
    }
}
