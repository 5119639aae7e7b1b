//! Feature bits (VIRTIO 1.3 §2.2, §5.1.3, §6; vhost-user's own bits).

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

/// A set of feature bits as offered, accepted or negotiated.
///
/// A set, never a bare `u64`: membership is asked by [`Feature`], and printing one names its bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Features(u64);

/// One feature bit.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Feature(u8);

impl Feature {
    /// The bit's number, 0 to 63.
    pub const fn bit(self) -> u8 {
        self.0
    }

    /// The name without its `VIRTIO_` prefix, where the number is known here.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(feature, _)| *feature == self).map(|(_, name)| *name)
    }
}

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Feature {
            $($(#[$doc])* pub const $name: Feature = Feature($bit);)*
        }
        const NAMES: &[(Feature, &str)] = &[$((Feature::$name, stringify!($name))),*];
    };
}

features! {
    /// The device handles packets with partial checksum (§5.1.3).
    NET_CSUM = 0;
    /// The driver handles packets with partial checksum.
    NET_GUEST_CSUM = 1;
    /// Offloads can be reconfigured by the control queue.
    NET_CTRL_GUEST_OFFLOADS = 2;
    /// The device reports its maximum MTU.
    NET_MTU = 3;
    /// The device has a given MAC address.
    NET_MAC = 5;
    /// The driver can receive TSOv4.
    NET_GUEST_TSO4 = 7;
    /// The driver can receive TSOv6.
    NET_GUEST_TSO6 = 8;
    /// The driver can receive TSO with ECN.
    NET_GUEST_ECN = 9;
    /// The driver can receive UFO.
    NET_GUEST_UFO = 10;
    /// The device can receive TSOv4.
    NET_HOST_TSO4 = 11;
    /// The device can receive TSOv6.
    NET_HOST_TSO6 = 12;
    /// The device can receive TSO with ECN.
    NET_HOST_ECN = 13;
    /// The device can receive UFO.
    NET_HOST_UFO = 14;
    /// The driver can merge receive buffers.
    NET_MRG_RXBUF = 15;
    /// The configuration's status field is available.
    NET_STATUS = 16;
    /// A control channel is available.
    NET_CTRL_VQ = 17;
    /// The control channel sets receive modes.
    NET_CTRL_RX = 18;
    /// The control channel filters VLANs.
    NET_CTRL_VLAN = 19;
    /// The control channel sets further receive modes.
    NET_CTRL_RX_EXTRA = 20;
    /// The driver can send gratuitous packets.
    NET_GUEST_ANNOUNCE = 21;
    /// Multiple queue pairs with automatic receive steering.
    NET_MQ = 22;
    /// The MAC address is set through the control channel.
    NET_CTRL_MAC_ADDR = 23;
    /// vhost: dirty pages are logged (vhost-user, "Migration").
    VHOST_LOG_ALL = 26;
    /// Descriptors may point to tables of descriptors (§2.7.5.3, §2.8.7).
    RING_INDIRECT_DESC = 28;
    /// Notifications are suppressed by position (§2.7.7, §2.7.8, §2.8.10).
    RING_EVENT_IDX = 29;
    /// vhost-user: protocol features can be negotiated.
    VHOST_PROTOCOL_FEATURES = 30;
    /// Compliance with VIRTIO 1.0 and later (§6).
    VERSION_1 = 32;
    /// The device's accesses go through the platform's address translation (§6).
    ACCESS_PLATFORM = 33;
    /// The packed ring layout (§2.8).
    RING_PACKED = 34;
    /// Buffers are used in the order in which they were made available (§2.7.9, §2.8.8).
    IN_ORDER = 35;
    /// Memory accesses are ordered as the platform describes (§6).
    ORDER_PLATFORM = 36;
    /// Available-buffer notifications carry data (§2.9).
    NOTIFICATION_DATA = 38;
    /// A queue can be reset by itself (§2.6.1).
    RING_RESET = 40;
    /// The driver can receive USO over IPv4.
    NET_GUEST_USO4 = 54;
    /// The driver can receive USO over IPv6.
    NET_GUEST_USO6 = 55;
    /// The device can receive USO.
    NET_HOST_USO = 56;
    /// The device reports a packet's hash.
    NET_HASH_REPORT = 57;
    /// The driver gives exact header lengths.
    NET_GUEST_HDRLEN = 59;
    /// Receive-side scaling.
    NET_RSS = 60;
    /// Another device with the same MAC stands by.
    NET_STANDBY = 62;
    /// Speed and duplex are reported.
    NET_SPEED_DUPLEX = 63;
}

impl Features {
    /// No feature.
    pub const NONE: Features = Features(0);

    /// The set as it stands in a message or register; unknown bits are kept.
    pub const fn from_bits(bits: u64) -> Self {
        Features(bits)
    }

    /// The set as a message or register carries it.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether the feature is in the set.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & (1 << feature.0) != 0
    }

    /// The set with one more feature.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        Features(self.0 | 1 << feature.0)
    }

    /// The set without a feature.
    #[must_use]
    pub const fn without(self, feature: Feature) -> Self {
        Features(self.0 & !(1 << feature.0))
    }

    /// Whether every feature of `other` is in this set.
    pub const fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }

    /// The members, lowest bit first.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        (0..64).map(Feature).filter(move |&feature| self.has(feature))
    }
}

impl BitAnd for Features {
    type Output = Features;
    fn bitand(self, other: Features) -> Features {
        Features(self.0 & other.0)
    }
}

impl BitOr for Features {
    type Output = Features;
    fn bitor(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
}

impl Sub for Features {
    type Output = Features;
    fn sub(self, other: Features) -> Features {
        Features(self.0 & !other.0)
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        features.into_iter().fold(Features::NONE, Features::with)
    }
}

impl fmt::Debug for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "bit {}", self.0),
        }
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        for (i, feature) in self.iter().enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            write!(f, "{feature}")?;
        }
        Ok(())
    }
}

impl From<Feature> for Features {
    fn from(feature: Feature) -> Features {
        Features(1 << feature.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_names_its_bits_and_keeps_unknown_ones() {
        let set = Features::from_bits(1 << 32 | 1 << 50).with(Feature::IN_ORDER);
        assert_eq!(set.to_string(), "VERSION_1+IN_ORDER+bit 50");
        assert_eq!(Features::from_bits(set.bits()), set);
        assert!(set.has(Feature::VERSION_1) && !set.has(Feature::RING_PACKED));
        assert!(set.contains(Feature::IN_ORDER.into()));
        assert_eq!(set - Feature::IN_ORDER.into(), set.without(Feature::IN_ORDER));
        assert_eq!(Features::NONE.to_string(), "none");
    }

    #[test]
    fn no_two_names_share_a_bit() {
        for (i, (feature, name)) in NAMES.iter().enumerate() {
            assert!(NAMES[i + 1..].iter().all(|(other, _)| other != feature), "{name}");
        }
    }
}
