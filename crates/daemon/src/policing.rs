//! Rate limits of a port's ingress, as users write them: `100kpps`, `1gbit`, or both.

use switch::Policing;

use crate::error::Invalid;

/// Units as those of tc(8), in powers of ten.
const UNITS: [(&str, u64); 7] = [
    ("mpps", 1_000_000),
    ("kpps", 1000),
    ("pps", 1),
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1000),
    ("bit", 1),
];

/// Reads the rates of one port: at most one of packets and one of bits a second.
///
/// # Errors
/// A rate has no unit, is no whole number, is 0 or above 100gbit or 100000mpps, or is the second of its kind.
pub fn read<'a>(rates: impl IntoIterator<Item = &'a str>) -> Result<Policing, Invalid> {
    let mut policing = Policing::default();
    for text in rates {
        let wrong = |why: &str| Invalid(format!("police {text}: {why}"));
        let (number, (unit, factor)) = UNITS
            .iter()
            .find_map(|unit| text.strip_suffix(unit.0).map(|number| (number, *unit)))
            .ok_or_else(|| wrong("write packets or bits a second, as 100kpps or 1gbit"))?;
        let rate = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        let rate = rate
            .filter(|rate| (1..=Policing::MOST_PER_SECOND).contains(rate))
            .ok_or_else(|| wrong("write a whole number, up to 100gbit or 100000mpps"))?;
        let kind = match unit.ends_with("pps") {
            true => &mut policing.packets_per_second,
            false => &mut policing.bits_per_second,
        };
        if kind.replace(rate).is_some() {
            return Err(wrong("this port has a rate of the same kind already"));
        }
    }
    Ok(policing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let both = Policing { packets_per_second: Some(100_000), bits_per_second: Some(1_000_000_000) };
        assert_eq!(read(["100kpps", "1gbit"]).unwrap(), both);
        assert_eq!(read([]).unwrap(), Policing::default());
        assert_eq!(read(["7bit"]).unwrap().bits_per_second, Some(7));
    }

    #[test]
    fn what_is_no_rate_is_named() {
        for (rates, said) in [
            (&["100"][..], "write packets or bits"),
            (&["fastpps"], "whole number"),
            (&["0pps"], "whole number"),
            (&["101gbit"], "up to 100gbit"),
            (&["1pps", "2kpps"], "2kpps: this port has"),
        ] {
            let error = read(rates.iter().copied()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
