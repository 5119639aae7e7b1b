//! Feature bits (VIRTIO 1.3 §2.2, §5.1.3, §6; vhost-user's own bits).

use std::fmt;

use bitflags::bitflags;

bitflags! {
    /// A set of feature bits as offered, accepted or negotiated. The type names the bits that all types of device
    /// share and keeps the others; [`NetFeatures`](crate::NetFeatures) names those of a network device.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub struct Features: u64 {
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
        self.write_with(f, |_| None)
    }
}

impl Features {
    /// Each bit of the set by itself, the lowest first, with a name in this type or without.
    pub fn each(self) -> impl Iterator<Item = Features> {
        (0..64).map(|bit| Features::from_bits_retain(1 << bit)).filter(move |bit| self.contains(*bit))
    }

    /// The names of the bits, joined by `+`; a bit that this type does not name is named by `device`.
    pub(crate) fn write_with(
        self,
        f: &mut fmt::Formatter<'_>,
        device: impl Fn(Features) -> Option<&'static str>,
    ) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (i, bit) in self.each().enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            match bit.iter_names().next().map(|(name, _)| name).or_else(|| device(bit)) {
                Some(name) => f.write_str(name)?,
                None => write!(f, "bit {}", bit.bits().trailing_zeros())?,
            }
        }
        Ok(())
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
