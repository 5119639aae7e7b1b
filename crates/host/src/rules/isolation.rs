//! CPUs that are set aside: from the scheduler, from interrupts, from the tick and from RCU.

use super::rule::*;
use crate::cgroups;
use crate::command_line::CommandLine;
use crate::cpu_list::CpuList;
use crate::knob::Knob;
use crate::set_aside::TICKLESS;
use crate::survey::Survey;
use crate::survey::{ISOLATED, Processor};

/// The cgroup of the CPUs that are isolated at run time.
const CGROUP: &str = "/sys/fs/cgroup/tautline-isolated";

pub const RULES: &[Rule] = &[
    Rule {
        id: "housekeeping",
        title: "A CPU for the host on every node",
        why: "interrupts, kernel threads and QEMU's own threads need a CPU that is not set aside",
        source: "kernel, admin-guide/cpu-isolation",
        risk: "a node whose work is done by another node's CPUs crosses the interconnect each time",
        takes: Takes::Nothing,
        profiles: REAL_TIME,
        look: housekeeping,
    },
    Rule {
        id: "realtime-kernel",
        title: "Real-time kernel",
        why: "a stock kernel runs interrupt handlers and holds spin locks without being preempted",
        source: "OpenShift node tuning operator",
        risk: "throughput falls; some drivers and out-of-tree modules are not built for it",
        takes: Takes::Reboot,
        profiles: REAL_TIME,
        look: realtime_kernel,
    },
    Rule {
        id: "domain-isolation",
        title: "Isolated from the scheduler",
        why: "the scheduler's load balancing moves other tasks onto a vCPU's CPU",
        source: "kernel, admin-guide/cpu-isolation",
        risk: "only what is put there runs there: unpinned guests share what is left",
        takes: Takes::RunTime,
        profiles: REAL_TIME,
        look: domain,
    },
    Rule {
        id: "managed-interrupts",
        title: "Managed interrupts kept away",
        why: "drivers with an interrupt for each CPU place it themselves; smp_affinity cannot move it",
        source: "tuned realtime-virtual-host; kernel, admin-guide/cpu-isolation",
        risk: "best effort only: a queue whose CPUs are all isolated still interrupts them",
        takes: Takes::Reboot,
        profiles: REAL_TIME,
        look: managed_interrupts,
    },
    Rule {
        id: "tick",
        title: "No timer tick",
        why: "the periodic tick interrupts a busy vCPU 100 to 1000 times a second",
        source: "kernel, admin-guide/cpu-isolation",
        risk: "holds only while one task runs on the CPU; every entry to the kernel costs more",
        takes: Takes::Reboot,
        profiles: REAL_TIME,
        look: tick,
    },
    Rule {
        id: "rcu",
        title: "RCU callbacks offloaded",
        why: "callbacks of RCU run in soft interrupts on the CPU that queued them",
        source: "tuned realtime",
        risk: "callbacks wait for housekeeping CPUs; too few of these and memory is freed late",
        takes: Takes::Reboot,
        profiles: REAL_TIME,
        look: rcu,
    },
];

fn housekeeping(survey: &Survey) -> Verdict {
    let wanted = "at least one CPU of each node not set aside";
    let left = survey.housekeeping();
    let bare: Vec<String> = survey
        .nodes
        .iter()
        .filter(|node| !node.cpus.is_empty() && node.cpus.and(&left).is_empty())
        .map(|node| format!("node {}", node.number))
        .collect();
    let found = format!("{left} of {} nodes", survey.nodes.len());
    if bare.is_empty() {
        return Verdict::pass(found, wanted);
    }
    Verdict::fail(format!("{found}; none on {}", bare.join(", ")), wanted)
        .with([Change::by_hand("name fewer CPUs with --isolate")])
}

fn realtime_kernel(survey: &Survey) -> Verdict {
    let wanted = "1 in /sys/kernel/realtime";
    match survey.tree.read("/sys/kernel/realtime") {
        Ok(text) => Verdict::judge(text == "1", text, wanted),
        Err(unread) if unread.is_absent() && survey.tree.has("/sys/kernel") => {
            let version = survey.tree.read("/proc/version").unwrap_or_default();
            let version: Vec<&str> = version.split_whitespace().take(3).collect();
            let package = match survey.processor {
                Processor::Arm => "linux-image-rt-arm64",
                _ => "linux-image-rt-amd64",
            };
            Verdict::fail(format!("no such file: a stock kernel ({})", version.join(" ")), wanted).with([
                Change::by_hand(format!(
                    "install the distribution's real-time kernel (Debian: {package}) and boot it"
                )),
            ])
        }
        Err(unread) => Verdict::unknown(unread, wanted),
    }
}

fn domain(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    let wanted = format!("{} isolated, by a cgroup or at boot", survey.isolated);
    let boot: CpuList = match survey.tree.read(ISOLATED) {
        Ok(text) => text.parse().unwrap_or_default(),
        Err(unread) => return Verdict::unknown(unread, wanted),
    };
    let groups = cgroups::isolated(survey.tree);
    let list = |cpus: &CpuList| if cpus.is_empty() { "none".to_owned() } else { cpus.to_string() };
    let found = format!("at boot {}, by cgroups {}", list(&boot), list(&groups));
    let missing = survey.isolated.without(&boot.or(&groups));
    let verdict = Verdict::judge(missing.is_empty(), found, wanted);
    let controllers = survey.tree.read(&format!("{}/cgroup.controllers", cgroups::ROOT)).unwrap_or_default();
    if !controllers.split_whitespace().any(|controller| controller == "cpuset") {
        return verdict.with([Change::boot(isolcpus(survey, true))]);
    }
    let control = format!("{}/cgroup.subtree_control", cgroups::ROOT);
    verdict
        .with([
            Change::Set {
                knob: Knob::Controller { path: control, controller: "cpuset".into() },
                value: "on".into(),
            },
            Change::Set { knob: Knob::Cgroup { path: CGROUP.into() }, value: "present".into() },
            Change::file(format!("{CGROUP}/cpuset.cpus"), missing.to_string()),
            Change::file(format!("{CGROUP}/cpuset.cpus.partition"), "isolated"),
        ])
        .hazard(format!(
            "tasks that run on CPUs {missing} now are moved off them, running guests too; what shall run there \
             must be put into {CGROUP}"
        ))
}

fn managed_interrupts(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    let (Some(line), Some(aside)) = (&survey.command_line, survey.set_aside()) else {
        return Verdict::unknown("/proc/cmdline could not be read", "isolcpus=managed_irq,…");
    };
    let kept = &aside.managed_interrupts;
    let written: Vec<&str> = line.all("isolcpus").collect();
    let found = match (written.is_empty(), kept.is_empty()) {
        (true, _) => "no isolcpus".into(),
        (false, true) => format!("{}: from no CPU", written.join(" ")),
        (false, false) => format!("{}: from {kept}", written.join(" ")),
    };
    // CPUs that the command line isolates from the scheduler stay isolated.
    let parameter = isolcpus(survey, !aside.domain.is_empty());
    Verdict::judge(survey.isolated.within(kept), found, &parameter).with([Change::boot(&parameter)])
}

/// The parameter that keeps managed interrupts away, and the effect of the replaced parameter on the tick.
fn isolcpus(survey: &Survey, domain: bool) -> String {
    let stops_tick = |line: &CommandLine| {
        !line.set_aside(&survey.machine).tick.is_empty() && line.value("nohz_full").is_none()
    };
    let nohz = if survey.command_line.as_ref().is_some_and(stops_tick) { "nohz," } else { "" };
    let domain = if domain { ",domain" } else { "" };
    format!("isolcpus={nohz}managed_irq{domain},{}", survey.isolated_at_boot())
}

fn tick(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    let wanted = format!("nohz_full={}", survey.isolated_at_boot());
    match survey.tree.read(TICKLESS) {
        Ok(text) => {
            let cpus: CpuList = text.parse().unwrap_or_default();
            let found = if cpus.is_empty() { "no CPU".into() } else { format!("nohz_full={cpus}") };
            Verdict::judge(survey.isolated.within(&cpus), found, &wanted).with([Change::boot(&wanted)])
        }
        Err(unread) if unread.is_absent() && survey.tree.has(ISOLATED) => {
            Verdict::fail("this kernel is built without CONFIG_NO_HZ_FULL", wanted)
                .with([Change::by_hand("boot a kernel with CONFIG_NO_HZ_FULL: real-time kernels have it")])
        }
        Err(unread) => Verdict::unknown(unread, wanted),
    }
}

fn rcu(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    let parameter = format!("rcu_nocbs={}", survey.isolated_at_boot());
    let wanted = format!("{parameter}, rcupdate.rcu_normal_after_boot=1");
    let Some(line) = &survey.command_line else {
        return Verdict::unknown("/proc/cmdline could not be read", wanted);
    };
    let offloaded = line.offloaded(&survey.machine);
    let of_module = |module: &str, name: &str| match survey
        .tree
        .read(&format!("/sys/module/{module}/parameters/{name}"))
    {
        Err(unread) if unread.is_absent() => Ok(line.value(&format!("{module}.{name}")).map(str::to_owned)),
        read => read.map(Some),
    };
    let normal = of_module("rcupdate", "rcu_normal_after_boot");
    let patience = of_module("rcutree", "nohz_full_patience_delay");
    let (normal, patience) = match (normal, patience) {
        (Ok(normal), Ok(patience)) => (normal, patience),
        (Err(unread), _) | (_, Err(unread)) => return Verdict::unknown(unread, wanted),
    };
    let mut changes = Vec::new();
    if !survey.isolated.within(&offloaded) {
        changes.push(Change::boot(parameter));
    }
    if normal.as_deref() != Some("1") {
        changes.push(Change::boot("rcupdate.rcu_normal_after_boot=1"));
    }
    // Since Linux 6.11; older kernels would only warn of it.
    if patience.as_deref().is_some_and(|value| value == "0") {
        changes.push(Change::boot("rcutree.nohz_full_patience_delay=1000"));
    }
    let found = format!(
        "offloaded: {}; rcu_normal_after_boot {}",
        if offloaded.is_empty() { "none".into() } else { offloaded.to_string() },
        normal.as_deref().unwrap_or("not set")
    );
    Verdict::judge(changes.is_empty(), found, wanted).with(changes)
}
