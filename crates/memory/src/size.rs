//! Numbers of bytes and of regions.

use std::fmt;

/// The most regions of one guest: QEMU uses as many when memory is hot-plugged slot by slot.
pub const MAX_REGIONS: usize = 509;

/// A number of bytes, printed in the largest unit that is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let whole = |(shift, _): &(u32, &str)| self.0 > 0 && self.0.is_multiple_of(1 << shift);
        match units.into_iter().find(whole) {
            Some((shift, unit)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}
