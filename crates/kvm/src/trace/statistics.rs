//! KVM's own counts for a guest, from debugfs. They have numbers but no times, summed over all virtual CPUs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use measure::Failure;
use serde::{Deserialize, Serialize};

/// The folder of debugfs that has the counts.
const FOLDER: &str = "/sys/kernel/debug/kvm";

/// One count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The kernel's name of the count.
    pub name: String,
    /// The count.
    pub count: u64,
}

/// The counts of one process's guests.
pub struct Statistics {
    guests: Vec<PathBuf>,
    first: BTreeMap<String, u64>,
    last: BTreeMap<String, u64>,
}

impl Statistics {
    /// Starts counting for one process's guests.
    ///
    /// # Errors
    /// KVM's folder of debugfs cannot be read (no root, or not mounted), or the process has no guest.
    pub fn of(pid: u32) -> Result<Self, Failure> {
        let tasks = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"));
        let threads: Vec<u32> = tasks
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        Self::within(Path::new(FOLDER), pid, &threads)
    }

    fn within(folder: &Path, pid: u32, threads: &[u32]) -> Result<Self, Failure> {
        let tried = format!("looking for the guests of process {pid} in {}", folder.display());
        let entries = fs::read_dir(folder).map_err(|error| {
            Failure::new(&tried, error, "run as root; mount -t debugfs debugfs /sys/kernel/debug")
        })?;
        // A guest's folder is named by the thread that made it, and its file descriptor.
        let is_own = |name: &str| {
            let thread = name.split_once('-').and_then(|(thread, _)| thread.parse().ok());
            thread.is_some_and(|thread| thread == pid || threads.contains(&thread))
        };
        let guests: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| is_own(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path())
            .collect();
        if guests.is_empty() {
            return Err(Failure::new(tried, "there is none", "name a running process with a guest"));
        }
        let first = read(&guests);
        Ok(Self { guests, last: first.clone(), first })
    }

    /// Updates the counts. Must be called from time to time, because a guest's files disappear with it, one after the
    /// other.
    pub fn look(&mut self) {
        for (name, count) in read(&self.guests) {
            let last = self.last.entry(name).or_default();
            *last = count.max(*last);
        }
    }

    /// The counts at the last update, the most frequent first. Counts that never rose are left out, and so are values
    /// that are not counters.
    pub fn counts(&self) -> Vec<Count> {
        let now = self.last.iter().map(|(name, count)| {
            let before = self.first.get(name).copied().unwrap_or(0);
            Count { count: count.saturating_sub(before), name: name.clone() }
        });
        let mut found: Vec<Count> = now.filter(|count| count.count > 0).collect();
        found.sort_by(|a, b| (b.count, &a.name).cmp(&(a.count, &b.name)));
        found
    }
}

fn read(guests: &[PathBuf]) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for entry in guests.iter().filter_map(|guest| fs::read_dir(guest).ok()).flatten().flatten() {
        let count = fs::read_to_string(entry.path()).ok().and_then(|text| text.trim().parse::<u64>().ok());
        if let Some(count) = count {
            let sum: &mut u64 = found.entry(entry.file_name().to_string_lossy().into_owned()).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_since_the_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let guest = folder.path().join("78-11");
        fs::create_dir_all(guest.join("vcpu0")).unwrap();
        fs::create_dir(folder.path().join("777-11")).unwrap();
        let write = |name: &str, text: &str| fs::write(guest.join(name), text).unwrap();
        write("exits", "10\n");
        write("io_exits", "4\n");
        write("hypercalls", "1\n");
        let mut statistics = Statistics::within(folder.path(), 77, &[77, 78]).unwrap();
        write("exits", "110\n");
        write("io_exits", "94\n");
        write("mmu_histogram", "no number\n");
        statistics.look();
        fs::remove_dir_all(&guest).unwrap();
        statistics.look();
        let counts = statistics.counts();
        let found: Vec<_> = counts.iter().map(|count| (count.name.as_str(), count.count)).collect();
        assert_eq!(found, [("exits", 100), ("io_exits", 90)]);
        assert!(Statistics::within(folder.path(), 79, &[79]).is_err());
    }
}
