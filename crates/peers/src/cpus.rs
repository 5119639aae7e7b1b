//! CPUs as DPDK takes them.

use std::fmt::Write;

use crate::Error;

/// The CPUs that this process may use, in order.
pub(crate) fn usable() -> Result<Vec<usize>, Error> {
    linux::cpus::usable().map_err(Error::system("asking for the CPUs that this process may use"))
}

/// A mask of this CPU alone.
pub(crate) fn mask(cpu: usize) -> String {
    let mut mask = format!("0x{:x}", 1u8 << (cpu % 4));
    for _ in 0..cpu / 4 {
        let _ = write!(mask, "0");
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_one_bit() {
        assert_eq!([mask(0), mask(1), mask(5), mask(63)], ["0x1", "0x2", "0x20", "0x8000000000000000"]);
    }
}
