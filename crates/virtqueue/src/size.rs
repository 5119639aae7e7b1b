//! Queue sizes that the specification allows.

/// Largest queue (VIRTIO 1.3 §2.7, §2.8.10.1).
pub const MAX_QUEUE_SIZE: u16 = 32768;

/// How a ring is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Descriptor table, available ring and used ring apart (VIRTIO 1.3 §2.7).
    Split,
    /// One ring that both sides write (VIRTIO 1.3 §2.8).
    Packed,
}

/// A number of descriptors that is legal for the layout it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueSize(u16);

/// A queue size that the specification does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {layout:?} queue of {size} descriptors; VIRTIO 1.3 {} allows {}", rule(*layout).0, rule(*layout).1)]
pub struct QueueSizeError {
    /// The layout it was meant for.
    pub layout: Layout,
    /// The number that was given.
    pub size: u32,
}

fn rule(layout: Layout) -> (&'static str, &'static str) {
    match layout {
        Layout::Split => ("§2.7", "powers of two from 1 to 32768"),
        Layout::Packed => ("§2.8.10.1", "1 to 32768"),
    }
}

impl QueueSize {
    /// Checks a size for a layout.
    pub fn new(layout: Layout, size: u32) -> Result<Self, QueueSizeError> {
        let legal = (1..=u32::from(MAX_QUEUE_SIZE)).contains(&size)
            && (layout == Layout::Packed || size.is_power_of_two());
        if legal { Ok(QueueSize(size as u16)) } else { Err(QueueSizeError { layout, size }) }
    }

    /// Number of descriptors.
    #[inline(always)]
    pub fn get(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_each_layout_allows() {
        for size in [0, 32769, 65536, u32::MAX] {
            assert!(
                QueueSize::new(Layout::Split, size).is_err() && QueueSize::new(Layout::Packed, size).is_err()
            );
        }
        assert!(QueueSize::new(Layout::Split, 3).is_err());
        for size in [1, 2, 256, 32768] {
            assert_eq!(QueueSize::new(Layout::Split, size).unwrap().get(), size as u16);
        }
        assert!((1..=32768).all(|size| QueueSize::new(Layout::Packed, size).is_ok()));
    }
}
