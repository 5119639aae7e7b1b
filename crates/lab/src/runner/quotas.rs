//! The CPU quotas that limit what is measured.

use environment::Running;
use measure::quota::{CpuCgroup, Throttling};

/// The cgroups with a CPU quota in which the measured processes run; each cgroup once.
#[derive(Debug, Default)]
pub struct Quotas(Vec<CpuCgroup>);

impl Quotas {
    /// The quotas of running agents. To be called after their greetings.
    pub fn of<'a>(agents: impl IntoIterator<Item = &'a Running>) -> Self {
        Self::among(agents.into_iter().map(Running::cpu_cgroup))
    }

    /// The quota of this process, which also limits an agent that is started in this process's cgroup.
    pub fn own() -> Self {
        Self::among([CpuCgroup::own()])
    }

    fn among(cgroups: impl IntoIterator<Item = CpuCgroup>) -> Self {
        let mut limited = Vec::new();
        for cgroup in cgroups {
            if cgroup.quota().is_some() && !limited.contains(&cgroup) {
                limited.push(cgroup);
            }
        }
        Quotas(limited)
    }

    /// How often the quotas have been used up so far, summed.
    pub fn throttling(&self) -> Throttling {
        self.0.iter().map(CpuCgroup::throttling).fold(Throttling::default(), |sum, one| Throttling {
            periods: sum.periods.saturating_add(one.periods),
            waited_ns: sum.waited_ns.saturating_add(one.waited_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn agents_in_one_cgroup_are_throttled_once_and_those_without_a_quota_never() {
        let root = tempfile::tempdir().unwrap();
        let cgroup = |name: &str, max: &str| {
            let folder = root.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpu.max"), max).unwrap();
            fs::write(folder.join("cpu.stat"), "nr_throttled 3\nthrottled_usec 7\n").unwrap();
            CpuCgroup::at(&[folder]).unwrap()
        };
        let [half, free] = [cgroup("half", "50000 100000\n"), cgroup("free", "max 100000\n")];
        let quotas = Quotas::among([half.clone(), free, half, cgroup("other", "1000 100000\n")]);
        assert_eq!(quotas.throttling(), Throttling { periods: 6, waited_ns: 14_000 });
        assert_eq!(Quotas::default().throttling(), Throttling::default());
    }
}
