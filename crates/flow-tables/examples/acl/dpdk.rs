//! `dpdk-test-acl`, DPDK's test program for its own classifier, with the same rules and packets.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use flow::Key;
use flow_tables::Tables;

use crate::rules::Set;

/// The program with rules and packets in files.
pub struct TestAcl {
    rules: PathBuf,
    trace: PathBuf,
}

impl TestAcl {
    /// Writes the files into a folder.
    pub fn new(set: &Set, folder: &Path) -> Self {
        let [rules, trace] = ["rules", "trace"].map(|name| folder.join(name));
        fs::write(&rules, set.class_bench()).unwrap();
        fs::write(&trace, set.trace()).unwrap();
        TestAcl { rules, trace }
    }

    /// Looks up all packets so many times, on the last of this machine's CPUs, with AVX2. Returns what the program prints.
    fn run(&self, options: &[&str]) -> String {
        let cpu = std::thread::available_parallelism().map_or(0, |cpus| cpus.get() - 1);
        let mut command = Command::new("dpdk-test-acl");
        command.args([
            "--no-huge",
            "--no-shconf",
            "--no-telemetry",
            "--no-pci",
            "--log-level=3",
            "-m",
            "2048",
        ]);
        command.args(["-l", &cpu.to_string(), "--"]);
        command.arg(format!("--rulesf={}", self.rules.display()));
        command.arg(format!("--tracef={}", self.trace.display())).arg("--alg=avx2").args(options);
        let output =
            peers::run(&mut command, Duration::from_secs(120)).unwrap_or_else(|error| panic!("{error}"));
        output.expect_success()
    }

    /// For each packet the place of its rule; `None` if no rule matches.
    pub fn found(&self) -> Vec<Option<usize>> {
        // `ipv4_5tuple: 1, category: 0, result: 33`: the rule's place from 0, or 4,294,967,295 for none.
        let result = |line: &str| {
            let result = line.strip_prefix("ipv4_5tuple: ")?.rsplit_once("result: ")?.1;
            result.parse::<u32>().ok().map(|place| (place != u32::MAX).then_some(place as usize))
        };
        self.run(&["--iter=1", "--verbose=2"]).lines().filter_map(result).collect()
    }

    /// Nanoseconds of a look-up, of so many of each packet.
    pub fn ns(&self, times: usize) -> f64 {
        let said = self.run(&[&format!("--iter={times}"), "--verbose=0"]);
        let rate = |line: &str| line.strip_suffix(" pkt/sec")?.rsplit_once(", ")?.1.parse::<f64>().ok();
        1e9 / said.lines().find_map(rate).unwrap_or_else(|| panic!("no rate: {said}"))
    }
}

/// # Panics
/// Panics if the tables find another rule for a packet.
pub fn assert_same(found: &[Option<usize>], tables: &Tables, keys: &[Key]) {
    assert_eq!(found.len(), keys.len());
    for (packet, (found, key)) in found.iter().zip(keys).enumerate() {
        let own = tables.lookup(0, key).map(|entry| entry.flow.cookie as usize);
        assert_eq!(own, *found, "packet {packet}: {key:?}");
    }
}
