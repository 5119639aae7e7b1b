//! Rate limits of a port's ingress, as users write them: `100kpps`, `1gbit`, or both; each with a burst, if one is given:
//! `100kpps/2000`, `1gbit/8mbit`.

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
/// A rate has no unit, is no whole number, is 0 or above 100gbit or 100000mpps, or is the second of its kind. A burst
/// is not of the same kind, is no whole number, or is 0 or above 4 gbit or 4,000,000,000 packets.
pub fn read<'a>(rates: impl IntoIterator<Item = &'a str>) -> Result<Policing, Invalid> {
    let mut policing = Policing::default();
    for text in rates {
        let wrong = |why: &str| Invalid(format!("police {text}: {why}"));
        let (rate, burst) = text.split_once('/').map_or((text, None), |(rate, burst)| (rate, Some(burst)));
        let (number, (unit, factor)) =
            measure(rate).ok_or_else(|| wrong("write packets or bits a second, as 100kpps or 1gbit"))?;
        let whole = |number: &str, factor: u64, most: u64| {
            let value = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
            value.filter(|value| (1..=most).contains(value))
        };
        let rate = whole(number, factor, Policing::MOST_PER_SECOND)
            .ok_or_else(|| wrong("write a whole number, up to 100gbit or 100000mpps"))?;
        let is_packets = unit.ends_with("pps");
        let read_burst = |burst| match is_packets {
            true => whole(burst, 1, Policing::MOST_BURST),
            false => measure(burst)
                .filter(|(_, (unit, _))| !unit.ends_with("pps"))
                .and_then(|(number, (_, factor))| whole(number, factor, Policing::MOST_BURST)),
        };
        let burst = burst.map(|burst| {
            read_burst(burst)
                .ok_or_else(|| wrong("write the burst as 100kpps/2000 or 1gbit/8mbit, up to 4gbit"))
        });
        let burst = burst.transpose()?;
        let Policing { packets_per_second, packets_burst, bits_per_second, bits_burst } = &mut policing;
        let (kind, its_burst) = match is_packets {
            true => (packets_per_second, packets_burst),
            false => (bits_per_second, bits_burst),
        };
        if kind.replace(rate).is_some() {
            return Err(wrong("this port has a rate of the same kind already"));
        }
        *its_burst = burst;
    }
    Ok(policing)
}

/// A number and its unit.
fn measure(text: &str) -> Option<(&str, (&'static str, u64))> {
    UNITS.iter().find_map(|unit| text.strip_suffix(unit.0).map(|number| (number, *unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let both = Policing {
            packets_per_second: Some(100_000),
            bits_per_second: Some(1_000_000_000),
            ..Policing::default()
        };
        assert_eq!(read(["100kpps", "1gbit"]).unwrap(), both);
        let bursts = Policing { packets_burst: Some(2000), bits_burst: Some(8_000_000), ..both };
        assert_eq!(read(["100kpps/2000", "1gbit/8mbit"]).unwrap(), bursts);
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
            (&["1kpps/"], "as 100kpps/2000"),
            (&["1kpps/1kpps"], "as 100kpps/2000"),
            (&["1kbit/1kpps"], "1gbit/8mbit"),
            (&["1kbit/0kbit"], "1gbit/8mbit"),
            (&["1kbit/5gbit"], "up to 4gbit"),
        ] {
            let error = read(rates.iter().copied()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
