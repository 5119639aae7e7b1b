//! The input of the rules: the host's files, its CPUs, and the user's wishes.

use std::collections::BTreeSet;
use std::time::Duration;

use measure::Failure;
use serde::{Deserialize, Serialize};

use super::command_line::CommandLine;
use super::counters::Watched;
use super::cpu_list::{CpuList, WrittenCpus};
use super::set_aside::{Machine, SetAside};
use super::threads::{self, Thread};
use super::tree::{HostTree, Unread};

/// The purpose of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Short response times, without CPUs that are set aside.
    Latency,
    /// Real-time guests, for which CPUs are set aside.
    RealtimeHost,
    /// A guest whose own CPUs are set aside for real-time work.
    RealtimeGuest,
    /// High throughput.
    Throughput,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 4] =
        [Profile::Latency, Profile::RealtimeHost, Profile::RealtimeGuest, Profile::Throughput];

    /// The profile's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Latency => "latency",
            Profile::RealtimeHost => "realtime-host",
            Profile::RealtimeGuest => "realtime-guest",
            Profile::Throughput => "throughput",
        }
    }
}

/// The user's wishes.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// The purpose of the host.
    pub profile: Profile,
    /// The CPUs to set aside. `None` keeps the CPUs that are set aside already.
    pub isolate: Option<WrittenCpus>,
    /// The memory that guests take from huge pages, in MiB.
    pub guest_memory_mib: Option<u64>,
    /// Whether timers may migrate: 0 if CPUs are set aside permanently, 1 if pods start and end on them.
    pub timer_migration: u8,
    /// The time for which counters are watched. Zero does not watch them.
    pub watch: Duration,
}

/// The processor's maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// x86 by Intel.
    Intel,
    /// An x86 processor of AMD (or Hygon).
    Amd,
    /// 64-bit Arm.
    Arm,
    /// Another processor, or one whose maker could not be read.
    Other,
}

/// A memory node with its CPUs.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number.
    pub number: usize,
    /// Its CPUs.
    pub cpus: CpuList,
    /// Whether the node has memory of its own.
    pub has_memory: bool,
}

/// All data that the rules need.
pub struct Survey<'a> {
    /// The host's files.
    pub tree: &'a HostTree,
    /// The user's wishes.
    pub wishes: &'a Wishes,
    /// The CPUs that are online.
    pub online: CpuList,
    /// The CPUs that are set aside or are to be set aside; all of them are online.
    pub isolated: CpuList,
    /// The CPUs that are set aside and offline, if the user names none.
    pub isolated_offline: CpuList,
    /// The facts with which the kernel reads lists of CPUs.
    pub machine: Machine,
    /// The processor's maker.
    pub processor: Processor,
    /// The memory nodes; one node with all CPUs if the kernel knows none.
    pub nodes: Vec<Node>,
    /// The kernel's command line, if it could be read.
    pub command_line: Option<CommandLine>,
    /// The processes, and the threads of virtual machines; or the reason why they could not be read.
    pub threads: Result<Vec<Thread>, String>,
    /// The counters, if they were watched.
    pub watched: Option<Watched>,
}

const ONLINE: &str = "/sys/devices/system/cpu/online";
/// CPUs that were set aside at boot.
pub const ISOLATED: &str = "/sys/devices/system/cpu/isolated";

impl<'a> Survey<'a> {
    /// Surveys a host.
    ///
    /// # Errors
    /// The host's online CPUs, processor or memory nodes cannot be read or parsed; a CPU that the user names is
    /// unknown or offline; or the isolated CPUs leave none for the host.
    pub fn of(tree: &'a HostTree, wishes: &'a Wishes) -> Result<Self, Failure> {
        let online: CpuList =
            tree.read(ONLINE).map_err(|unread| unread.failure())?.parse().map_err(|error| {
                Failure::new(format!("reading {ONLINE}"), error, "give --root a recorded host")
            })?;
        let machine = Machine::of(tree, &online);
        let isolated = match &wishes.isolate {
            Some(list) => named(list, &machine, &online)?,
            None => found(tree),
        };
        let isolated_offline = isolated.without(&online);
        let isolated = isolated.and(&online);
        if online.without(&isolated).is_empty() {
            return Err(Failure::new(
                format!("setting CPUs {isolated} aside"),
                format!("the host has no others ({online})"),
                "leave at least one CPU for the host's own work: interrupts, kernel threads, QEMU's own threads",
            ));
        }
        let watched = Watched::over(tree, &isolated, wishes.watch);
        Ok(Survey {
            tree,
            wishes,
            processor: processor(tree)?,
            nodes: nodes(tree, &online)?,
            command_line: tree.read("/proc/cmdline").ok().map(|line| CommandLine::parse(&line)),
            threads: threads::all(tree),
            watched,
            online,
            isolated,
            isolated_offline,
            machine,
        })
    }

    /// CPUs for all other work.
    pub fn housekeeping(&self) -> CpuList {
        self.online.without(&self.isolated)
    }

    /// The CPUs for a parameter of the kernel's command line: a CPU that is set aside and offline stays set aside.
    pub fn isolated_at_boot(&self) -> CpuList {
        self.isolated.or(&self.isolated_offline)
    }

    /// The CPUs that the kernel's command line sets aside, if the line could be read.
    pub fn set_aside(&self) -> Option<SetAside> {
        self.command_line.as_ref().map(|line| line.set_aside(&self.machine))
    }

    /// The CPUs that a rule about single CPUs checks: the CPUs that are set aside, or else all CPUs.
    pub fn targets(&self) -> &CpuList {
        if self.isolated.is_empty() { &self.online } else { &self.isolated }
    }

    /// The nodes that supply memory for these CPUs: the nodes of the CPUs, and for a node without memory the nearest
    /// node with memory, which is where the kernel looks first.
    pub fn memory_nodes(&self, cpus: &CpuList) -> BTreeSet<usize> {
        let own = self.nodes.iter().filter(|node| !node.cpus.and(cpus).is_empty());
        own.filter_map(|node| if node.has_memory { Some(node.number) } else { self.nearest_memory(node) })
            .collect()
    }

    fn nearest_memory(&self, node: &Node) -> Option<usize> {
        let distances = self.tree.read(&format!("{NODES}/node{}/distance", node.number)).unwrap_or_default();
        // One for each node, in the order of their numbers.
        let distances: Vec<u32> = distances.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let with_memory = self.nodes.iter().enumerate().filter(|(_, other)| other.has_memory);
        with_memory
            .min_by_key(|(place, _)| distances.get(*place).copied().unwrap_or(u32::MAX))
            .map(|(_, other)| other.number)
    }

    /// All processes, and the threads of virtual machines.
    ///
    /// # Errors
    /// The threads could not be read; the text is the error of [`threads::all`].
    pub fn threads(&self) -> Result<&[Thread], &str> {
        self.threads.as_deref().map_err(String::as_str)
    }

    /// Whether the processor is an x86.
    pub fn is_x86(&self) -> bool {
        matches!(self.processor, Processor::Intel | Processor::Amd)
    }

    /// Whether the kernel is a PREEMPT_RT kernel.
    ///
    /// # Errors
    /// `/sys/kernel/realtime` exists and cannot be read, or `/sys/kernel` does not exist either.
    pub fn is_real_time(&self) -> Result<bool, Unread> {
        match self.tree.read("/sys/kernel/realtime") {
            Err(unread) if unread.is_absent() && self.tree.has("/sys/kernel") => Ok(false),
            read => read.map(|text| text == "1"),
        }
    }
}

/// The CPUs that the user names.
fn named(list: &WrittenCpus, machine: &Machine, online: &CpuList) -> Result<CpuList, Failure> {
    let failed = |answer: String| {
        Failure::new(format!("setting CPUs {list} aside"), answer, "name CPUs that are online")
    };
    let cpus = machine.named(list).map_err(|error| failed(error.to_string()))?;
    let lacking = cpus.without(online);
    match lacking.is_empty() {
        true => Ok(cpus),
        false => Err(failed(format!("CPUs {lacking} are not online; {online} are"))),
    }
}

/// CPUs that are set aside already, at boot or by cgroups.
fn found(tree: &HostTree) -> CpuList {
    let list = |path: &str| tree.read(path).ok().and_then(|text| text.parse::<CpuList>().ok());
    let boot = list(ISOLATED).unwrap_or_default();
    boot.or(&super::cgroups::isolated(tree))
}

fn processor(tree: &HostTree) -> Result<Processor, Failure> {
    let text = tree.read("/proc/cpuinfo").map_err(|unread| unread.failure())?;
    Ok(if text.contains("GenuineIntel") {
        Processor::Intel
    } else if text.contains("AuthenticAMD") || text.contains("HygonGenuine") {
        Processor::Amd
    } else if text.contains("CPU implementer") {
        Processor::Arm
    } else {
        Processor::Other
    })
}

const NODES: &str = "/sys/devices/system/node";

fn nodes(tree: &HostTree, online: &CpuList) -> Result<Vec<Node>, Failure> {
    let mut found = Vec::new();
    for name in tree.names(NODES) {
        let Some(number) = name.strip_prefix("node").and_then(|number| number.parse().ok()) else { continue };
        let path = format!("{NODES}/{name}/cpulist");
        let cpus = tree.read(&path).map_err(|unread| unread.failure())?.parse::<CpuList>();
        let cpus =
            cpus.map_err(|error| Failure::new(format!("reading {path}"), error, "see what is in it"))?;
        found.push(Node { number, cpus: cpus.and(online), has_memory: has_memory(tree, number) });
    }
    let one = || vec![Node { number: 0, cpus: online.clone(), has_memory: true }];
    Ok(if found.is_empty() { one() } else { found })
}

/// Whether the kernel says that a node has memory; also where it does not say.
fn has_memory(tree: &HostTree, node: usize) -> bool {
    // Nodes are listed as CPUs are.
    if let Some(nodes) =
        tree.read(&format!("{NODES}/has_memory")).ok().and_then(|text| text.parse::<CpuList>().ok())
    {
        return nodes.contains(node);
    }
    let text = tree.read(&format!("{NODES}/node{node}/meminfo")).unwrap_or_default();
    let total = text.lines().find_map(|line| line.split_once("MemTotal:")?.1.split_whitespace().next());
    total != Some("0")
}
