//! Feature bits of a network device (VIRTIO 1.3 §5.1.3).

use std::fmt;

use crate::Features;

/// A set of feature bits of a network device, for printing; its constants are the bits that only network devices have.
/// Bits 0 to 23 and 50 to 127 have another meaning for each type of device (VIRTIO 1.3 §2.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NetFeatures(pub Features);

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl NetFeatures {
            $($(#[$doc])* pub const $name: Features = Features::from_bits_retain(1 << $bit);)*

            /// Each bit with the name under which it is printed.
            const NAMES: &[(Features, &str)] = &[$((Self::$name, concat!("NET_", stringify!($name)))),*];
        }
    };
}

bits! {
    /// The device handles packets with partial checksum (§5.1.3).
    CSUM = 0;
    /// The driver handles packets with partial checksum.
    GUEST_CSUM = 1;
    /// Offloads can be reconfigured by the control queue.
    CTRL_GUEST_OFFLOADS = 2;
    /// The device reports its maximum MTU.
    MTU = 3;
    /// The device has a given MAC address.
    MAC = 5;
    /// The driver can receive TSOv4.
    GUEST_TSO4 = 7;
    /// The driver can receive TSOv6.
    GUEST_TSO6 = 8;
    /// The driver can receive TSO with ECN.
    GUEST_ECN = 9;
    /// The driver can receive UFO.
    GUEST_UFO = 10;
    /// The device can receive TSOv4.
    HOST_TSO4 = 11;
    /// The device can receive TSOv6.
    HOST_TSO6 = 12;
    /// The device can receive TSO with ECN.
    HOST_ECN = 13;
    /// The device can receive UFO.
    HOST_UFO = 14;
    /// The driver can merge receive buffers.
    MRG_RXBUF = 15;
    /// The configuration's status field is available.
    STATUS = 16;
    /// A control channel is available.
    CTRL_VQ = 17;
    /// The control channel sets receive modes.
    CTRL_RX = 18;
    /// The control channel filters VLANs.
    CTRL_VLAN = 19;
    /// The control channel sets further receive modes.
    CTRL_RX_EXTRA = 20;
    /// The driver can send gratuitous packets.
    GUEST_ANNOUNCE = 21;
    /// Multiple queue pairs with automatic receive steering.
    MQ = 22;
    /// The MAC address is set through the control channel.
    CTRL_MAC_ADDR = 23;
    /// The driver can receive USO over IPv4.
    GUEST_USO4 = 54;
    /// The driver can receive USO over IPv6.
    GUEST_USO6 = 55;
    /// The device can receive USO.
    HOST_USO = 56;
    /// The device reports a packet's hash.
    HASH_REPORT = 57;
    /// The driver gives exact header lengths.
    GUEST_HDRLEN = 59;
    /// Receive-side scaling.
    RSS = 60;
    /// Another device with the same MAC stands by.
    STANDBY = 62;
    /// Speed and duplex are reported.
    SPEED_DUPLEX = 63;
}

impl fmt::Display for NetFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_with(f, |bit| Self::NAMES.iter().find(|(named, _)| *named == bit).map(|(_, name)| *name))
    }
}

impl fmt::Debug for NetFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_of_network_devices_is_named_for_them_alone() {
        let set = NetFeatures::CSUM.union(Features::VERSION_1);
        assert_eq!(set.to_string(), "bit 0+VERSION_1");
        assert_eq!(NetFeatures(set).to_string(), "NET_CSUM+VERSION_1");
    }

    #[test]
    fn no_two_names_share_a_bit() {
        let mut seen = Features::all().iter_names().fold(Features::empty(), |seen, (_, bit)| seen | bit);
        for (bit, name) in NetFeatures::NAMES {
            assert!(!seen.intersects(*bit), "{name}");
            seen |= *bit;
        }
    }
}
