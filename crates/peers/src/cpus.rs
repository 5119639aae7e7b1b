//! The CPUs that this process may use.

use std::fmt::Write;

/// As the kernel lists them: "0-3,7".
pub(crate) fn allowed_list() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or_else(|| "0".into(), |list| list.trim().to_owned())
}

/// Their numbers, in order.
pub(crate) fn allowed() -> Vec<usize> {
    numbers(&allowed_list())
}

fn numbers(list: &str) -> Vec<usize> {
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

/// A mask of this CPU alone, as DPDK takes it.
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
    fn lists_and_masks() {
        assert_eq!(numbers("0-2,7"), [0, 1, 2, 7]);
        assert_eq!([mask(0), mask(1), mask(5), mask(63)], ["0x1", "0x2", "0x20", "0x8000000000000000"]);
    }
}
