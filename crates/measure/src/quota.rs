//! CPU quotas of cgroups (CFS bandwidth control): the CPU time in each period, and the number of times that it was
//! used up.
//!
//! A cgroup that has used up its quota is throttled until the next period. The kernel checks the quota only at its
//! tick, and subtracts an overrun from later periods. Work that lasts only a few periods may therefore not be
//! throttled at all, and seems nearly as fast as without a quota. Work must last many ticks and several periods to
//! show the average speed: [`CpuQuota::least_trial`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_getres};
use serde::{Deserialize, Serialize};

/// The CPU time that a cgroup may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuQuota {
    /// The CPU time in each period, in µs.
    pub quota_us: u64,
    /// The period in µs.
    pub period_us: u64,
}

/// Whole periods that a trial spans at least.
const LEAST_PERIODS: u32 = 5;
/// Ticks that it spans at least: as much as a tick of CPU time comes without being counted.
const LEAST_TICKS: u32 = 50;

impl CpuQuota {
    /// The quota in CPUs: 0.5 is half of one.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us.max(1) as f64
    }

    /// The shortest duration of work that shows the average of running and waiting within a few per cent.
    pub fn least_trial(&self, tick: Duration) -> Duration {
        let period = Duration::from_micros(self.period_us);
        period.saturating_mul(LEAST_PERIODS).max(tick.saturating_mul(LEAST_TICKS))
    }
}

/// The period with which a quota takes effect in the shortest trials: 5 ms, and at least a tick, because a quota that
/// is refilled twice between two ticks is partly lost.
pub fn short_period(tick: Duration) -> Duration {
    tick.max(Duration::from_millis(5))
}

/// The kernel's tick, which is the resolution of its coarse clock, 1/HZ.
pub fn tick() -> Duration {
    Duration::try_from(clock_getres(ClockId::MonotonicCoarse)).unwrap_or(Duration::from_millis(10))
}

/// The number of times that processes were throttled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// The number of periods in which the quota was used up.
    pub periods: u64,
    /// The time that CPUs waited, in ns.
    pub waited_ns: u64,
}

impl Throttling {
    /// The difference to an earlier reading.
    pub fn since(self, before: Throttling) -> Throttling {
        Throttling {
            periods: self.periods.saturating_sub(before.periods),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
        }
    }
}

/// A cgroup in the hierarchy that has the CPU controller, and its ancestors, which also limit it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCgroup {
    /// The folders of the cgroup and its ancestors; the cgroup's own folder is the first.
    folders: Vec<PathBuf>,
}

impl CpuCgroup {
    /// The cgroup of this process.
    pub fn own() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::find(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"))
    }

    /// The first of some folders that is a cgroup with a CPU controller. The hierarchy ends at the first folder
    /// that is not a cgroup.
    pub fn at(folders: &[PathBuf]) -> Option<Self> {
        let of_some = |is_one: fn(&Path) -> bool| folders.iter().find(|folder| is_one(folder));
        let folder = of_some(has_quota).or_else(|| of_some(is_cgroup))?;
        let folders = folder.ancestors().take_while(|folder| is_cgroup(folder)).map(Path::to_owned);
        Some(CpuCgroup { folders: folders.collect() })
    }

    /// Finds the quota in the texts of `/proc/self/cgroup` (cgroups(7)) and `/proc/self/mountinfo` (proc(5)).
    fn find(cgroup: &str, mounts: &str) -> Self {
        let mut candidates = Vec::new();
        for line in cgroup.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let v2 = controllers.is_empty();
            if !v2 && !controllers.split(',').any(|controller| controller == "cpu") {
                continue;
            }
            candidates.extend(mounts.lines().filter_map(|mount| folder(mount, v2, path)));
        }
        Self::at(&candidates).unwrap_or_default()
    }

    /// The smallest quota that limits the cgroup.
    pub fn quota(&self) -> Option<CpuQuota> {
        let quotas = self.folders.iter().filter_map(|folder| quota(folder));
        quotas.min_by(|a, b| a.cpus().total_cmp(&b.cpus()))
    }

    /// The throttling by the cgroup's quota, or by an ancestor's quota, until now.
    pub fn throttling(&self) -> Throttling {
        let all = self.folders.iter().filter_map(|folder| fs::read_to_string(folder.join("cpu.stat")).ok());
        all.map(|text| parse_stat(&text)).fold(Throttling::default(), |sum, one| Throttling {
            periods: sum.periods.saturating_add(one.periods),
            waited_ns: sum.waited_ns.saturating_add(one.waited_ns),
        })
    }
}

/// The folder of a cgroup's path below a mount of the right kind of hierarchy.
fn folder(mount: &str, v2: bool, path: &str) -> Option<PathBuf> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, mounted) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let (name, options) = (kind.next()?, kind.nth(1)?);
    let fits = if v2 {
        name == "cgroup2"
    } else {
        name == "cgroup" && options.split(',').any(|option| option == "cpu")
    };
    // A container may see its own cgroup at the mount, under its full path.
    let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    fits.then(|| Path::new(mounted).join(below))
}

fn has_quota(folder: &Path) -> bool {
    ["cpu.max", "cpu.cfs_quota_us"].iter().any(|file| folder.join(file).exists())
}

/// Version 2 has no quota at its root, nor where the controller is not delegated.
fn is_cgroup(folder: &Path) -> bool {
    has_quota(folder) || folder.join("cgroup.controllers").exists()
}

fn quota(folder: &Path) -> Option<CpuQuota> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let (quota, period) = match read("cpu.max") {
        Some(text) => {
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        None => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
    };
    // `max`, or -1, is no quota.
    let quota_us: u64 = quota.trim().parse().ok()?;
    let period_us: u64 = period.trim().parse().ok()?;
    (quota_us > 0 && period_us > 0).then_some(CpuQuota { quota_us, period_us })
}

fn parse_stat(text: &str) -> Throttling {
    let field = |name: &str| {
        let of_line = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok();
        text.lines().find_map(of_line)
    };
    let waited_ns =
        field("throttled_usec").map(|us| us.saturating_mul(1000)).or_else(|| field("throttled_time"));
    Throttling { periods: field("nr_throttled").unwrap_or(0), waited_ns: waited_ns.unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        for (file, text) in files {
            fs::write(folder.join(file), text).unwrap();
        }
    }

    #[test]
    fn the_tightest_quota_of_either_version_counts() {
        let root = tempfile::tempdir().unwrap();
        let [outer, inner] = ["v2/outer", "v2/outer/inner"].map(|path| root.path().join(path));
        write(&root.path().join("v2"), &[("cgroup.controllers", "cpu memory")]);
        write(
            &outer,
            &[
                ("cpu.max", "90000 100000\n"),
                ("cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 7\n"),
            ],
        );
        write(&inner, &[("cpu.max", "max 100000\n"), ("cpu.stat", "nr_throttled 0\nthrottled_usec 0\n")]);
        let mounts = format!(
            "30 20 0:26 / {0}/v2 rw,nosuid - cgroup2 cgroup2 rw\n31 20 0:27 / {0}/cpu rw - cgroup cgroup rw,cpu\n",
            root.path().display()
        );
        let found = CpuCgroup::find("0::/outer/inner\n", &mounts);
        assert_eq!(found.quota(), Some(CpuQuota { quota_us: 90_000, period_us: 100_000 }));
        assert_eq!(found.throttling(), Throttling { periods: 3, waited_ns: 7_000 });

        let v1 = root.path().join("cpu/a");
        write(&v1, &[("cpu.cfs_quota_us", "4500\n"), ("cpu.cfs_period_us", "5000\n")]);
        write(&v1, &[("cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 11\n")]);
        write(&root.path().join("cpu"), &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]);
        // Where both are mounted, the controller is in one of them.
        let found = CpuCgroup::find("4:cpuacct:/b\n3:cpu,cpuset:/a\n0::/\n", &mounts);
        assert_eq!(found.quota().map(|quota| quota.cpus()), Some(0.9));
        assert_eq!(found.throttling(), Throttling { periods: 2, waited_ns: 11 });
        assert_eq!(CpuCgroup::at(&[root.path().join("nothing"), v1.clone()]).unwrap().quota(), found.quota());
    }

    #[test]
    fn a_container_sees_its_cgroup_at_the_mount_and_garbage_is_no_quota() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &[("cpu.max", "50000 100000\n")]);
        let mounts = format!("30 20 0:26 /docker/x {} rw - cgroup2 cgroup2 rw\n", root.path().display());
        for path in ["/docker/x", "/", "/../y"] {
            let found = CpuCgroup::find(&format!("0::{path}\n"), &mounts);
            assert_eq!(found.quota().map(|quota| quota.cpus()), Some(0.5), "{path}");
        }
        for text in ["max 100000", "0 100000", "5", "a b", "", "5 0"] {
            write(root.path(), &[("cpu.max", text)]);
            assert_eq!(CpuCgroup::find("0::/\n", &mounts).quota(), None, "{text:?}");
        }
        assert_eq!(CpuCgroup::find("nonsense\n0::", "30 20\n"), CpuCgroup::default());
        assert_eq!(parse_stat("nr_throttled x\nthrottled_usec -1\n"), Throttling::default());
    }

    /// Wall time divided by CPU time of work that lasts `trial_us`, throttled as by the kernel: a pool is refilled in
    /// each period. When the running CPU notices at a tick that its share is used up, it takes the rest of the pool, or
    /// waits for the next period if the pool is empty. Time that was used too much is paid back first.
    fn stretched(quota: CpuQuota, tick_us: u64, trial_us: u64, phase_us: u64) -> f64 {
        const STEP_US: u64 = 10;
        let full = quota.quota_us as i64;
        let (mut pool, mut own, mut waiting, mut worked) = (full, 0i64, false, 0u64);
        for now in (0..trial_us).step_by(STEP_US as usize) {
            if now > 0 && now.is_multiple_of(quota.period_us) {
                pool = full;
            }
            let at_tick = (now + phase_us).is_multiple_of(tick_us);
            if if waiting { pool > 0 } else { at_tick && own <= 0 } {
                let taken = pool.min(full.max(full - own));
                (pool, own) = (pool - taken, own + taken);
                waiting = own <= 0;
            }
            if !waiting {
                worked += STEP_US;
                own -= STEP_US as i64;
            }
        }
        trial_us as f64 / worked as f64
    }

    /// The least and the most that a quota is seen to stretch, over its own factor, wherever the tick falls.
    fn seen(quota: CpuQuota, tick_us: u64, trial_us: u64) -> (f64, f64) {
        let phases = (0..tick_us).step_by(500);
        let found = phases.map(|phase_us| stretched(quota, tick_us, trial_us, phase_us) * quota.cpus());
        found.fold((f64::INFINITY, 0.0), |(least, most), one| (one.min(least), one.max(most)))
    }

    #[test]
    fn a_trial_of_that_length_sees_the_quota_and_a_short_one_does_not() {
        for tick_us in [1_000, 4_000, 10_000] {
            let tick = Duration::from_micros(tick_us);
            for period_us in [short_period(tick).as_micros() as u64, 20_000, 100_000] {
                for tenths in [9, 7, 5] {
                    let quota = CpuQuota { quota_us: period_us * tenths / 10, period_us };
                    let trial_us = quota.least_trial(tick).as_micros() as u64;
                    let (least, most) = seen(quota, tick_us, trial_us);
                    // Never too much, and hardly too little: 1.11 is 1.08 at worst.
                    assert!(least > 0.965 && most < 1.005, "{quota:?}, tick {tick_us}: {least} to {most}");
                }
            }
        }
        // 0.9 of a CPU in 20 ms: 1.00 to 1.11 instead of 1.11, as the tick falls.
        let quota = CpuQuota { quota_us: 4_500, period_us: 5_000 };
        assert!(seen(quota, 4_000, 20_000).0 < 0.91);
        // A period shorter than the tick: more is taken than the quota says.
        assert!(seen(quota, 10_000, 500_000).1 > 1.3);
    }

    #[test]
    fn this_machine_has_a_tick_and_its_cgroup_can_be_read() {
        assert!((Duration::from_micros(500)..=Duration::from_millis(10)).contains(&tick()), "{:?}", tick());
        let own = CpuCgroup::own();
        let _ = (own.quota(), own.throttling());
    }
}
