//! The kind of pages of DPDK's memory, and the system's pool of huge pages.
use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, Read, Seek, Write};

use crate::Error;
use crate::requirements::Requirements;

/// The kind of pages from which DPDK takes its packet buffers and rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// The system's small pages (`--no-huge`). DPDK then puts each packet buffer into a page of its own: the same
    /// part of every buffer maps to the same few cache sets, and each buffer has its own entry in the TLB.
    #[default]
    Small,
    /// Huge pages of 2 MiB from the system's pool, which DPDK is designed for. The buffers are contiguous.
    Huge,
}

impl Pages {
    /// Requires that `mib` MiB of the pool are free, if the pages are huge pages.
    pub(crate) fn require(self, mib: u64, needs: &mut Requirements) {
        if self == Pages::Small {
            return;
        }
        let free = free_mib();
        if free < mib {
            needs.missing(format!(
                "{mib} MiB of free 2 MiB pages, of which there are {free} (vm.nr_hugepages)"
            ));
        }
    }
}

const PAGE_MIB: u64 = 2;
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// The size of the pool in MiB that no process has taken or reserved.
pub fn free_mib() -> u64 {
    count("free_hugepages").saturating_sub(count("resv_hugepages")) * PAGE_MIB
}

/// The huge pages that a process has mapped, in KiB (`HugetlbPages`, proc_pid_status(5)).
pub fn held_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("HugetlbPages:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Huge pages that were added to the system's pool; they are removed from it when this value is dropped. A process
/// that is killed leaves them in the pool (`sysctl vm.nr_hugepages`).
#[derive(Debug)]
pub struct Grown(u64);

impl Grown {
    /// Adds `mib` MiB to the pool, rounded up to whole pages.
    ///
    /// # Errors
    /// The test is not root, the pool's file cannot be locked, or the kernel finds too little unfragmented memory.
    pub fn by(mib: u64) -> Result<Self, Error> {
        let pages = mib.div_ceil(PAGE_MIB);
        let doing = || format!("adding {pages} pages of 2 MiB to the system's pool ({POOL}/nr_hugepages)");
        let (before, now) = change(|there| there + pages).map_err(Error::system(doing()))?;
        Grown(now.saturating_sub(before)).if_all(pages).map_err(|answer| Error::refused(doing(), answer))
    }

    /// Gives the pages back if they are fewer than asked for.
    fn if_all(self, pages: u64) -> Result<Self, String> {
        let given = self.0;
        if given < pages {
            return Err(format!(
                "the kernel gave {given}: there is not so much memory in pieces of that size"
            ));
        }
        Ok(self)
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        // A destructor returns no error; the pool is as it was, or larger.
        let _ = change(|there| there.saturating_sub(self.0));
    }
}

/// Changes the pool's size under a lock that every process of ours takes. Returns the sizes before and after, in
/// pages.
fn change(to: impl FnOnce(u64) -> u64) -> Result<(u64, u64), IoError> {
    let mut file = OpenOptions::new().read(true).write(true).open(format!("{POOL}/nr_hugepages"))?;
    file.lock()?;
    let before = pages(&mut file)?;
    file.rewind()?;
    file.write_all(to(before).to_string().as_bytes())?;
    Ok((before, pages(&mut file)?))
}

/// The pool's persistent pages. The kernel's figure includes surplus pages, which overcommitment adds.
fn pages(file: &mut File) -> Result<u64, IoError> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    let all: u64 = text.trim().parse().map_err(IoError::other)?;
    Ok(all.saturating_sub(count("surplus_hugepages")))
}

fn count(name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("{POOL}/{name}")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_grows_and_is_given_back() {
        let before = free_mib();
        match Grown::by(3) {
            Ok(grown) => {
                assert_eq!(grown.0, 2);
                assert!(free_mib() >= 4, "{} MiB after {before}", free_mib());
            }
            Err(error) => assert!(!crate::requirements::root_required(), "{error}"),
        }
    }

    #[test]
    fn too_few_are_an_error() {
        // The kernel gave no pages, so none go back.
        let error = Grown(0).if_all(1).unwrap_err();
        assert!(error.contains("gave 0"), "{error}");
        assert!(Grown(0).if_all(0).is_ok());
    }
}
