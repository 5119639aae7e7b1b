//! Feature bits (VIRTIO 1.3 §2.2, §5.1.3, §6; vhost-user's own bits).

use std::fmt;

use bitflags::bitflags;

bitflags! {
    /// A set of feature bits as offered, accepted or negotiated. Bits without a name in this type are kept. Printing
    /// a set names its bits, except those of one type of device: [`NetFeatures`] names those of a network device.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub struct Features: u64 {
        /// The device handles packets with partial checksum (§5.1.3).
        const NET_CSUM = 1 << 0;
        /// The driver handles packets with partial checksum.
        const NET_GUEST_CSUM = 1 << 1;
        /// Offloads can be reconfigured by the control queue.
        const NET_CTRL_GUEST_OFFLOADS = 1 << 2;
        /// The device reports its maximum MTU.
        const NET_MTU = 1 << 3;
        /// The device has a given MAC address.
        const NET_MAC = 1 << 5;
        /// The driver can receive TSOv4.
        const NET_GUEST_TSO4 = 1 << 7;
        /// The driver can receive TSOv6.
        const NET_GUEST_TSO6 = 1 << 8;
        /// The driver can receive TSO with ECN.
        const NET_GUEST_ECN = 1 << 9;
        /// The driver can receive UFO.
        const NET_GUEST_UFO = 1 << 10;
        /// The device can receive TSOv4.
        const NET_HOST_TSO4 = 1 << 11;
        /// The device can receive TSOv6.
        const NET_HOST_TSO6 = 1 << 12;
        /// The device can receive TSO with ECN.
        const NET_HOST_ECN = 1 << 13;
        /// The device can receive UFO.
        const NET_HOST_UFO = 1 << 14;
        /// The driver can merge receive buffers.
        const NET_MRG_RXBUF = 1 << 15;
        /// The configuration's status field is available.
        const NET_STATUS = 1 << 16;
        /// A control channel is available.
        const NET_CTRL_VQ = 1 << 17;
        /// The control channel sets receive modes.
        const NET_CTRL_RX = 1 << 18;
        /// The control channel filters VLANs.
        const NET_CTRL_VLAN = 1 << 19;
        /// The control channel sets further receive modes.
        const NET_CTRL_RX_EXTRA = 1 << 20;
        /// The driver can send gratuitous packets.
        const NET_GUEST_ANNOUNCE = 1 << 21;
        /// Multiple queue pairs with automatic receive steering.
        const NET_MQ = 1 << 22;
        /// The MAC address is set through the control channel.
        const NET_CTRL_MAC_ADDR = 1 << 23;
        /// vhost: dirty pages are logged (vhost-user, "Migration").
        const VHOST_LOG_ALL = 1 << 26;
        /// Descriptors may point to tables of descriptors (§2.7.5.3, §2.8.7).
        const RING_INDIRECT_DESC = 1 << 28;
        /// Notifications are suppressed by position (§2.7.7, §2.7.8, §2.8.10).
        const RING_EVENT_IDX = 1 << 29;
        /// vhost-user: protocol features can be negotiated.
        const VHOST_PROTOCOL_FEATURES = 1 << 30;
        /// Compliance with VIRTIO 1.0 and later (§6).
        const VERSION_1 = 1 << 32;
        /// The device's accesses go through the platform's address translation (§6).
        const ACCESS_PLATFORM = 1 << 33;
        /// The packed ring layout (§2.8).
        const RING_PACKED = 1 << 34;
        /// Buffers are used in the order in which they were made available (§2.7.9, §2.8.8).
        const IN_ORDER = 1 << 35;
        /// Memory accesses are ordered as the platform describes (§6).
        const ORDER_PLATFORM = 1 << 36;
        /// Available-buffer notifications carry data (§2.9).
        const NOTIFICATION_DATA = 1 << 38;
        /// A queue can be reset by itself (§2.6.1).
        const RING_RESET = 1 << 40;
        /// The driver can receive USO over IPv4.
        const NET_GUEST_USO4 = 1 << 54;
        /// The driver can receive USO over IPv6.
        const NET_GUEST_USO6 = 1 << 55;
        /// The device can receive USO.
        const NET_HOST_USO = 1 << 56;
        /// The device reports a packet's hash.
        const NET_HASH_REPORT = 1 << 57;
        /// The driver gives exact header lengths.
        const NET_GUEST_HDRLEN = 1 << 59;
        /// Receive-side scaling.
        const NET_RSS = 1 << 60;
        /// Another device with the same MAC stands by.
        const NET_STANDBY = 1 << 62;
        /// Speed and duplex are reported.
        const NET_SPEED_DUPLEX = 1 << 63;
        const _ = !0;
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |name| !name.starts_with("NET_"))
    }
}

impl Features {
    fn write(self, f: &mut fmt::Formatter<'_>, is_named: impl Fn(&str) -> bool) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let bits = (0..64).map(|bit| Features::from_bits_retain(1 << bit)).filter(|bit| self.contains(*bit));
        for (i, bit) in bits.enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            match bit.iter_names().next() {
                Some((name, _)) if is_named(name) => f.write_str(name)?,
                _ => write!(f, "bit {}", bit.bits().trailing_zeros())?,
            }
        }
        Ok(())
    }
}

/// The feature bits of a network device, for printing: bits 0 to 23 and 50 to 127 have another meaning for each type
/// of device (VIRTIO 1.3 §2.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NetFeatures(pub Features);

impl fmt::Display for NetFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, |_| true)
    }
}

impl fmt::Debug for NetFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use bitflags::Flags;

    use super::*;

    #[test]
    fn a_set_names_its_bits_and_keeps_unknown_ones() {
        let set = Features::from_bits_retain(1 << 32 | 1 << 50).union(Features::IN_ORDER);
        assert_eq!(set.to_string(), "VERSION_1+IN_ORDER+bit 50");
        assert_eq!(Features::from_bits_retain(set.bits()), set);
        assert!(set.contains(Features::VERSION_1) && !set.contains(Features::RING_PACKED));
        assert!(set.contains(Features::IN_ORDER));
        assert!(!(set - Features::IN_ORDER).contains(Features::IN_ORDER));
        assert_eq!(Features::empty().to_string(), "none");
    }

    #[test]
    fn a_bit_of_one_type_of_device_is_named_for_that_type_alone() {
        let set = Features::NET_CSUM.union(Features::VERSION_1);
        assert_eq!(set.to_string(), "bit 0+VERSION_1");
        assert_eq!(NetFeatures(set).to_string(), "NET_CSUM+VERSION_1");
    }

    #[test]
    fn no_two_names_share_a_bit() {
        let mut seen = Features::empty();
        for flag in Features::FLAGS.iter().filter(|flag| flag.is_named()) {
            assert!(
                !seen.intersects(*flag.value()) && flag.value().bits().is_power_of_two(),
                "{}",
                flag.name()
            );
            seen |= *flag.value();
        }
    }
}
