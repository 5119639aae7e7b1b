//! Ethernet addresses.
use std::fmt;
use std::str::FromStr;

/// A 48-bit Ethernet address (IEEE 802.3 §3.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// All stations.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    /// The address in the low 48 bits, with the first octet highest.
    #[inline(always)]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address in the low 48 bits of `bits`.
    pub const fn from_u64(bits: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        MacAddress([a, b, c, d, e, f])
    }

    /// Whether the address names a group of stations: the broadcast address or a multicast address.
    #[inline(always)]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text is not six pairs of hexadecimal digits with colons between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAMacAddress(pub String);

impl std::error::Error for NotAMacAddress {}

impl fmt::Display for NotAMacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a MAC address; write it like 52:54:00:00:00:01", self.0)
    }
}

impl FromStr for MacAddress {
    type Err = NotAMacAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || NotAMacAddress(text.to_owned());
        let mut octets = text.split(':');
        let mut address = [0; 6];
        for octet in &mut address {
            let hex = |digits: &&str| digits.len() == 2 && digits.bytes().all(|d| d.is_ascii_hexdigit());
            let digits = octets.next().filter(hex).ok_or_else(error)?;
            *octet = u8::from_str_radix(digits, 16).map_err(|_| error())?;
        }
        octets.next().is_none().then_some(MacAddress(address)).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let mac: MacAddress = "52:54:00:0a:Ff:01".parse().unwrap();
        assert_eq!(mac.to_string(), "52:54:00:0a:ff:01");
        assert_eq!(MacAddress::from_u64(mac.to_u64()), mac);
        assert_eq!(mac.to_u64(), 0x5254_000a_ff01);
        assert!(!mac.is_group() && MacAddress::BROADCAST.is_group());
        for wrong in ["", "52:54:00:0a:ff", "52:54:00:0a:ff:01:02", "5:54:00:0a:ff:01", "52:54:00:0a:ff:+1"] {
            assert!(wrong.parse::<MacAddress>().is_err(), "{wrong}");
        }
    }
}
