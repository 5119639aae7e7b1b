//! `dpdk-test-acl`, DPDK's test program for its own classifier, with the same rules and packets.
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use flow::Key;
use flow_tables::Tables;

use crate::rules::Set;

/// What the program says of a run.
pub struct Run {
    /// For each packet the place of its rule; `None` if no rule matches.
    pub found: Vec<Option<usize>>,
    /// Nanoseconds of a look-up.
    pub ns: f64,
}

/// Looks up all packets so many times, on the last of this machine's CPUs, with AVX2.
pub fn run(set: &Set, folder: &Path, times: usize) -> Run {
    let [rules, trace] = ["rules", "trace"].map(|name| folder.join(name));
    fs::write(&rules, set.class_bench()).unwrap();
    fs::write(&trace, set.trace()).unwrap();
    let cpu = std::thread::available_parallelism().map_or(0, |cpus| cpus.get() - 1);
    let mut command = Command::new("dpdk-test-acl");
    command.args(["--no-huge", "--no-shconf", "--no-telemetry", "--no-pci", "--log-level=3", "-m", "2048"]);
    command.args(["-l", &cpu.to_string(), "--"]);
    command.arg(format!("--rulesf={}", rules.display())).arg(format!("--tracef={}", trace.display()));
    command.arg(format!("--iter={times}")).arg("--alg=avx2");
    let output = peers::run(&mut command, Duration::from_secs(120)).unwrap_or_else(|error| panic!("{error}"));
    let said = output.expect_success();
    // `ipv4_5tuple: 1, category: 0, result: 33`: the rule's place from 0, or 4,294,967,295 for none.
    let result =
        |line: &str| line.strip_prefix("ipv4_5tuple: ")?.rsplit_once("result: ")?.1.parse::<u32>().ok();
    let found: Vec<_> = said.lines().filter_map(result).collect();
    let found = found.iter().map(|result| (*result != u32::MAX).then_some(*result as usize)).collect();
    let rate =
        said.lines().find_map(|line| line.strip_suffix(" pkt/sec")?.rsplit_once(", ")?.1.parse::<f64>().ok());
    Run { found, ns: 1e9 / rate.unwrap_or_else(|| panic!("no rate: {said}")) }
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
