//! Reads the amount of available memory, and the kind of pages that back an area.

use std::fs;

use crate::facts::{kib_field, meminfo_bytes, text};

/// The memory that can be allocated without pressure on other processes: the kernel's estimate, or the memory that
/// the control group leaves, whichever is less. Returns `None` if neither is known.
pub(super) fn available_bytes() -> Option<u64> {
    [meminfo_bytes("MemAvailable"), group_bytes()].into_iter().flatten().min()
}

/// What the control group's limit leaves (cgroup v2, `memory.max` and `memory.current`).
fn group_bytes() -> Option<u64> {
    let limit: u64 = text("/sys/fs/cgroup/memory.max").parse().ok()?;
    let used: u64 = text("/sys/fs/cgroup/memory.current").parse().ok()?;
    Some(limit.saturating_sub(used))
}

/// The bytes in anonymous huge pages of the mapping that contains an address; `None` if the mapping is not listed.
pub(super) fn huge_bytes(address: usize) -> Option<u64> {
    huge_bytes_in(&fs::read_to_string("/proc/self/smaps").ok()?, address)
}

fn huge_bytes_in(smaps: &str, address: usize) -> Option<u64> {
    let holds = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some((number(start)?..number(end)?).contains(&address))
    };
    let at = smaps.lines().position(|line| holds(line) == Some(true))?;
    let own: Vec<&str> = smaps.lines().skip(at + 1).take_while(|line| holds(line).is_none()).collect();
    kib_field(&own.join("\n"), "AnonHugePages")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00500000 r-xp 00000000 08:01 77    /bin/x
Size:                  4 kB
AnonHugePages:         0 kB
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me dc ac hg
";

    #[test]
    fn the_mapping_that_holds_the_address_counts() {
        assert_eq!(huge_bytes_in(SMAPS, 0x7f00_0000_0000), Some(2 << 20));
        assert_eq!(huge_bytes_in(SMAPS, 0x7f00_0040_0000), None);
        assert_eq!(huge_bytes_in(SMAPS, 0x41_0000), Some(0));
    }

    #[test]
    fn this_machine_tells() {
        assert!(available_bytes().unwrap() > 1 << 20);
        let on_the_stack = 0;
        assert!(huge_bytes(&raw const on_the_stack as usize).is_some());
    }
}
