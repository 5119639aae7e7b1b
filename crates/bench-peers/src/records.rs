//! What is kept of a run: everything that was measured, raw, as JSON.
use std::path::Path;

use measure::Verdict;
use measure::host_facts::HostFacts;
use serde::Serialize;
use traffic::search::tst009;

use crate::cell::{Cell, System};
use crate::programs::Program;
use crate::siblings::ArithmeticNs;
use crate::usage::Usage;

/// Format of the file.
const SCHEMA: &str = "tautline-bench-peers-2";

/// How it was to be measured.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub quick: bool,
    pub rounds: u32,
    pub trial_ms: u64,
    pub search_trial_ms: u64,
    /// Entries of the rings with which zero loss was searched for.
    pub search_ring: u16,
    pub driver_cpu: usize,
    pub switch_cpu: usize,
    pub limit_s: u64,
    /// Steal or other load made a trial invalid; false where that was switched off.
    pub noise_limits: bool,
    /// Starts of the systems of each ring path, over which the rounds are spread.
    pub starts: u32,
    /// Drivers and DPDK's switches had memory of huge pages.
    pub huge_pages: bool,
    /// Why not, where they were asked for.
    pub no_huge_pages: Option<String>,
}

/// One trial of one system.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    pub cell: Cell,
    pub system: System,
    /// Of the systems of its ring path. What differs from one start to the next, as the placement of memory, is the
    /// same in all of its rounds.
    pub start: u32,
    /// In each round every system of a cell has its turn; the next round goes the other way round.
    pub round: u32,
    /// 0 for the first try.
    pub attempt: u32,
    pub frames_per_second: f64,
    pub window_ns: u64,
    /// Until the driver's core had a line that the switch's had just written, before the trial and after it.
    pub line_ns: [f64; 2],
    /// What some arithmetic took the driver's core and the switch's, before the trial and after it: half as long again
    /// where a core's other thread was at work.
    pub arithmetic_ns: [ArithmeticNs; 2],
    /// The switch's side.
    pub device: UsageRecord,
    /// The guest's side.
    pub driver: UsageRecord,
    pub steal_ns: u64,
    pub other_load_ns: u64,
    pub clock_jump_ns: u64,
    pub verdict: Verdict,
}

/// [`Usage`] for the file.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct UsageRecord {
    pub idle_share: Option<f64>,
    pub busy_ns_per_frame: Option<f64>,
}

impl From<Usage> for UsageRecord {
    fn from(usage: Usage) -> Self {
        UsageRecord { idle_share: usage.idle_share, busy_ns_per_frame: usage.busy_ns_per_frame }
    }
}

/// Shares of the rate without loss at which latency is measured. At all of it the queues are full whenever anybody
/// pauses, and the generator is at its own limit.
pub const LATENCY_PERCENT: [u8; 3] = [10, 50, 90];

/// The highest rate without loss, found by our generator.
#[derive(Clone, Debug, Serialize)]
pub struct ZeroLoss {
    pub cell: Cell,
    pub system: System,
    /// With the same rings; of all lanes. The median of trials before and after the search.
    pub maximum_fps: f64,
    /// Lanes that were offered the load that the search names, at the same time.
    pub lanes: u32,
    /// The middle and the 99th centile of the latency at each of [`LATENCY_PERCENT`] of the rate that was found. None where
    /// there is no such rate, or the generator was late.
    pub latency_ns: [Option<(u64, u64)>; LATENCY_PERCENT.len()],
    /// Searches, one of which is this: as long as the machine was not the same at the end as at the beginning, the
    /// generator kept too little of the maximum, or nothing was decided, it was searched again.
    pub searches: u32,
    /// Searches that were given up because the machine became faster or slower.
    pub given_up: u32,
    pub search: tst009::Outcome,
}

/// What moving the same lines between the two cores allows, in one round of a cell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LimitRecord {
    pub cell: Cell,
    pub round: u32,
    pub lines_to_switch: usize,
    pub lines_to_driver: usize,
    /// From one buffer to the next.
    pub lines_apart: usize,
    pub frames_per_second: f64,
}

/// What DPDK's driver says that it uses with a system.
#[derive(Clone, Debug, Serialize)]
pub struct CodePath {
    pub path: crate::cell::RingPath,
    pub system: System,
    /// The functions that send and receive, as it words them.
    pub words: Vec<String>,
    /// What both agreed on, by VIRTIO's names.
    pub features: String,
}

/// A part of the run and how long it took.
#[derive(Clone, Debug, Serialize)]
pub struct Took {
    pub what: String,
    pub seconds: f64,
}

/// The file.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    pub schema: &'static str,
    pub started: String,
    pub host: HostFacts,
    pub programs: Vec<Program>,
    pub plan: Plan,
    pub code_paths: Vec<CodePath>,
    pub cache_transfer_limits: Vec<LimitRecord>,
    pub trials: Vec<Trial>,
    pub zero_loss: Vec<ZeroLoss>,
    /// What was not measured, and why.
    pub left_out: Vec<String>,
    pub took: Vec<Took>,
}

impl Results {
    /// Nothing is measured yet.
    pub fn new(started: String, host: HostFacts, programs: Vec<Program>, plan: Plan) -> Self {
        Results {
            schema: SCHEMA,
            started,
            host,
            programs,
            plan,
            code_paths: Vec::new(),
            cache_transfer_limits: Vec::new(),
            trials: Vec::new(),
            zero_loss: Vec::new(),
            left_out: Vec::new(),
            took: Vec::new(),
        }
    }

    /// Writes the file whole or not at all.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(self)?)?;
        Ok(std::fs::rename(&new, path)?)
    }
}

/// A trial of a round that was not disturbed.
#[cfg(test)]
pub fn trial_for_tests(link: crate::cell::Link, system: System, frames_per_second: f64) -> Trial {
    use crate::cell::{DriverKind, Link, Topology};
    let cell = Cell { driver: DriverKind::Dpdk, topology: Topology::Vm2vm, link, frame_bytes: 64 };
    let usage = match link {
        Link::Ring(_) => UsageRecord { idle_share: Some(0.25), busy_ns_per_frame: Some(50.0) },
        Link::Tap(_) => UsageRecord::default(),
    };
    Trial {
        cell,
        system,
        start: 0,
        round: 0,
        attempt: 0,
        frames_per_second,
        window_ns: 1,
        line_ns: [30.0; 2],
        arithmetic_ns: [[5000.0; 2]; 2],
        device: usage,
        driver: usage,
        steal_ns: 0,
        other_load_ns: 0,
        clock_jump_ns: 0,
        verdict: Verdict::Accepted,
    }
}

/// A run in which nothing was measured.
#[cfg(test)]
pub fn results_for_tests() -> Results {
    use crate::programs::Role;
    let host = HostFacts {
        cpu_model: "Some CPU".to_owned(),
        cpus_online: 2,
        kernel: "6.1.0 #1 SMP".to_owned(),
        ..HostFacts::default()
    };
    let program = |role, version: &str| Program {
        role,
        version: version.to_owned(),
        build: "as packaged".to_owned(),
        file: Default::default(),
    };
    let programs = vec![
        program(Role::Tautline, "tautline 0.1.0"),
        program(Role::Testpmd, "DPDK 26.07.0"),
        program(Role::TestpmdDriver, "DPDK 22.11.11"),
        program(Role::Ovs, "Open vSwitch 3.1.0"),
    ];
    let plan = Plan {
        quick: false,
        rounds: 1,
        trial_ms: 300,
        search_trial_ms: 200,
        search_ring: 1024,
        driver_cpu: 0,
        switch_cpu: 1,
        limit_s: 60,
        noise_limits: true,
        starts: 1,
        huge_pages: true,
        no_huge_pages: None,
    };
    Results::new("2026-01-02T03:04:05Z".to_owned(), host, programs, plan)
}
