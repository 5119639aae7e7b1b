//! The values in a policy: ports and addresses.
use std::net::IpAddr;

use toml::Spanned;

use crate::mistake::Wrong;

/// An IP version in flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V4,
    V6,
}

/// Addresses with a common prefix, as flows name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub version: Version,
    /// The first address, `/` and the length in bits.
    pub text: String,
}

/// Reads an address with or without prefix length.
pub fn prefix(value: &Spanned<String>) -> Result<Prefix, Wrong> {
    let text = value.as_ref().as_str();
    let (address, length) = text.split_once('/').map_or((text, None), |(one, two)| (one, Some(two)));
    let wrong = || {
        let what = format!("'{text}' is no address and no set; write 10.0.0.0/24, or a name of [sets]");
        Wrong::new(value.span(), what)
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let (version, all, bits) = match address {
        IpAddr::V4(address) => (Version::V4, u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (Version::V6, address.to_bits(), 128),
    };
    let length = match length {
        Some(length) => length.parse::<u8>().ok().filter(|length| *length <= bits).ok_or_else(wrong)?,
        None => bits,
    };
    // A host's address with a short prefix would allow far more than its writer meant.
    if all.checked_shl(length.into()).unwrap_or_default() != 0 {
        let what = format!(
            "'{text}' has bits behind its prefix; write {address}, or the first address of the prefix"
        );
        return Err(Wrong::new(value.span(), what));
    }
    Ok(Prefix { version, text: format!("{address}/{length}") })
}

/// Reads a list of ports. Returns values with masks, as flows match them.
pub fn ports(value: &Spanned<String>) -> Result<Vec<String>, Wrong> {
    let wrong = || {
        let what = format!("ports '{}': write numbers and ranges, as in 80,8000-8099", value.as_ref());
        Wrong::new(value.span(), what)
    };
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
    let mut all = Vec::new();
    for part in value.as_ref().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(wrong());
        }
        all.extend(masked(from, to));
    }
    Ok(all)
}

/// Values with masks that together are the numbers of a range.
fn masked(from: u16, to: u16) -> Vec<String> {
    let (mut at, end, mut all) = (u32::from(from), u32::from(to) + 1, Vec::new());
    while at < end {
        let mut size = 1;
        while at.is_multiple_of(size * 2) && at + size * 2 <= end {
            size *= 2;
        }
        all.push(format!("{at:#x}/{:#x}", 0x1_0000 - size));
        at += size;
    }
    all
}

/// Reads a protocol. Returns its number in IPv4 and in IPv6.
pub fn protocol(value: &Spanned<String>) -> Result<[u8; 2], Wrong> {
    Ok(match value.as_ref().as_str() {
        "tcp" => [6; 2],
        "udp" => [17; 2],
        "sctp" => [132; 2],
        "icmp" => [1, 58],
        number => {
            let wrong = |_| {
                let what = format!("protocol '{number}': write tcp, udp, sctp, icmp or a number up to 255");
                Wrong::new(value.span(), what)
            };
            [number.parse().map_err(wrong)?; 2]
        }
    })
}

/// Whether connections of a protocol have ports.
pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 132)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_becomes_the_masks_that_cover_it_and_nothing_else() {
        for (from, to) in [(0, 65_535), (80, 80), (1, 1023), (1000, 2000), (65_535, 65_535), (0, 0)] {
            let hex = |text: &str| u16::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
            let masks: Vec<(u16, u16)> = masked(from, to)
                .iter()
                .map(|text| text.split_once('/').map(|(value, mask)| (hex(value), hex(mask))).unwrap())
                .collect();
            for port in 0..=u16::MAX {
                let matches = masks.iter().filter(|(value, mask)| port & mask == *value).count();
                assert_eq!(matches, usize::from((from..=to).contains(&port)), "{port} in {from}-{to}");
            }
            assert!(masks.len() <= 30);
        }
    }

    #[test]
    fn prefixes_are_read_whole() {
        let read = |text: &str| prefix(&Spanned::new(0..1, text.to_owned())).map(|prefix| prefix.text);
        for (text, is) in [
            ("10.0.0.7", "10.0.0.7/32"),
            ("10.0.0.0/24", "10.0.0.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("fd00::/64", "fd00::/64"),
            ("fd00::1", "fd00::1/128"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(read(text).unwrap(), is);
        }
        for text in
            ["10.0.0.7/24", "10.0.0.7/0", "10.0.0.0/33", "10.0.0/8", "10.0.0.1/", "fd00::1/64", "::1/0", ""]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
