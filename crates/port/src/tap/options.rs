//! The options of a TAP port.
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::str::FromStr;

use virtio::net::MacAddress;

use crate::spec::{Spec, SpecError};

/// Queues that one TAP may have: `MAX_TAP_QUEUES` of Linux.
pub const MAX_QUEUE_PAIRS: u16 = 256;

/// An address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// The number of its bits that name the network.
    pub bits: u8,
}

/// The text is not an address, a slash and a prefix length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write an address with its prefix length, like 10.0.0.1/24 or fd00::1/64")]
pub struct NotAPrefix;

impl FromStr for Prefix {
    type Err = NotAPrefix;

    fn from_str(text: &str) -> Result<Self, NotAPrefix> {
        let (address, bits) = text.split_once('/').ok_or(NotAPrefix)?;
        let address: IpAddr = address.parse().map_err(|_| NotAPrefix)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= most).ok_or(NotAPrefix)?;
        Ok(Prefix { address, bits })
    }
}

/// Descriptors that were opened for us, one for each queue pair: `5` or `5:6`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Descriptors(Vec<RawFd>);

impl FromStr for Descriptors {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        // 0, 1 and 2 are the standard streams.
        let fd = |part: &str| part.parse().ok().filter(|fd| *fd > 2);
        let fds = text.split(':').map(fd).collect::<Option<_>>();
        fds.map(Descriptors).ok_or("write the numbers of open descriptors above 2, like 5 or 5:6")
    }
}

/// `tap:NAME` with `queue-pairs=N`, `fd=N[:N]…`, `mtu=BYTES`, `mac=ADDRESS`, `address=IP/PREFIX`,
/// `up=on|off` and `offloads=on|off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapOptions {
    /// The interface. An existing one is used and kept. Otherwise one is made, which is removed with the port.
    pub name: String,
    /// Queue pairs.
    pub queue_pairs: u16,
    /// Descriptors of a TAP that another program has opened, one for each queue pair. If empty, the port opens the
    /// TAP.
    pub descriptors: Vec<RawFd>,
    /// The longest IP packet in bytes; `None` leaves the interface's setting.
    pub mtu_bytes: Option<u32>,
    /// The kernel's address on this link; `None` leaves the interface's setting.
    pub mac: Option<MacAddress>,
    /// The IP address of the kernel on this link; `None` leaves the interface's setting.
    pub address: Option<Prefix>,
    /// Whether to set the interface up. The default is yes if an address is given.
    pub up: bool,
    /// Whether checksums and segmentation may be left to the receiver, in both directions. If not, all frames are
    /// complete.
    pub offloads: bool,
}

impl TapOptions {
    /// A port with one queue pair that leaves the interface's settings unchanged.
    pub fn new(name: impl Into<String>) -> Self {
        TapOptions {
            name: name.into(),
            queue_pairs: 1,
            descriptors: Vec::new(),
            mtu_bytes: None,
            mac: None,
            address: None,
            up: false,
            offloads: true,
        }
    }
}

impl TryFrom<Spec> for TapOptions {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        let mut options = spec.options;
        let Descriptors(descriptors) = options.value("fd")?.unwrap_or_default();
        let default = descriptors.len().clamp(1, usize::from(MAX_QUEUE_PAIRS)) as u16;
        let queue_pairs = options.number("queue-pairs", 1..=MAX_QUEUE_PAIRS)?.unwrap_or(default);
        if !descriptors.is_empty() && descriptors.len() != usize::from(queue_pairs) {
            return Err(SpecError::Value {
                key: "fd",
                value: descriptors.iter().map(RawFd::to_string).collect::<Vec<_>>().join(":"),
                expected: format!("write as many descriptors as queue pairs, here {queue_pairs}"),
            });
        }
        let address = options.value("address")?;
        let read = TapOptions {
            name: spec.target,
            queue_pairs,
            descriptors,
            mtu_bytes: options.number("mtu", 68..=65_521)?,
            mac: options.value("mac")?,
            address,
            up: options.switch("up", address.is_some())?,
            offloads: options.switch("offloads", true)?,
        };
        options.finish("tap")?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TapOptions, SpecError> {
        text.parse::<Spec>().and_then(TapOptions::try_from)
    }

    #[test]
    fn options_are_read() {
        assert_eq!(read("tap:tap0").unwrap(), TapOptions::new("tap0"));
        let all = read("tap:t,queue-pairs=2,fd=5:6,mtu=9000,mac=52:54:00:00:00:01,address=10.0.0.1/24");
        let expected = TapOptions {
            queue_pairs: 2,
            descriptors: vec![5, 6],
            mtu_bytes: Some(9000),
            mac: Some(MacAddress([0x52, 0x54, 0, 0, 0, 1])),
            address: Some(Prefix { address: [10, 0, 0, 1].into(), bits: 24 }),
            up: true,
            ..TapOptions::new("t")
        };
        assert_eq!(all.unwrap(), expected);
        assert_eq!(read("tap:t,fd=5:6").unwrap().queue_pairs, 2);
        assert!(!read("tap:t,address=fd00::1/64,up=off").unwrap().up);
        assert!(!read("tap:t,offloads=off").unwrap().offloads);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        for (text, said) in [
            ("tap:t,queue-pairs=257", "1 to 256"),
            ("tap:t,fd=0", "above 2"),
            ("tap:t,fd=5:x", "5:6"),
            ("tap:t,fd=5,queue-pairs=2", "here 2"),
            ("tap:t,address=10.0.0.1", "10.0.0.1/24"),
            ("tap:t,address=10.0.0.1/33", "10.0.0.1/24"),
            ("tap:t,mtu=65522", "68 to 65521"),
            ("tap:t,netns=x", "no option 'netns'"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
