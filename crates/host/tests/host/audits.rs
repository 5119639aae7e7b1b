//! What the rules say of unlike hosts.

use std::fs;

use host::rules::{self, State};
use host::{Audit, Survey};

use super::{Host, found, state, wishes};

use State::{Fail, Information, NotApplicable, Pass, Unknown};

fn expect(host: &str, expected: &[(&str, State, &str)]) {
    let audit = Host::of(host).audit();
    for (rule, wanted, words) in expected {
        assert_eq!(state(&audit, rule), *wanted, "{host}: {rule}: {}", found(&audit, rule));
        assert!(found(&audit, rule).contains(words), "{host}: {rule}: {}", found(&audit, rule));
    }
}

#[test]
fn an_intel_server_out_of_the_box() {
    expect(
        "intel",
        &[
            ("housekeeping", Pass, "0,1,4,5"),
            ("realtime-kernel", Fail, "stock kernel"),
            ("domain-isolation", Fail, "none"),
            ("smt", Pass, "siblings of isolated CPUs are isolated"),
            ("c-states", Fail, "CPU 2: 133 µs"),
            ("frequency", Fail, "powersave"),
            ("irqbalance", Fail, "leaves alone: none"),
            ("interrupts", Fail, "24 on 2"),
            ("interrupt-counts", Unknown, "not watched"),
            ("workqueues", Fail, "all unbound ones, writeback"),
            ("fifo-order", NotApplicable, "stock kernel"),
            ("kvm-threads", Fail, "vhost-900 on 2,3"),
            ("rt-throttling", Fail, "950000"),
            ("transparent-huge-pages", Fail, "madvise"),
            ("locked-memory", Pass, "QEMU 900: unlimited"),
            ("clocksource", Pass, "tsc"),
            ("kvmclock-sync", Fail, "Y"),
            ("posted-interrupts", Pass, "the IOMMU posts"),
            ("nx-huge-pages", Information, "Y"),
            ("gicv4", NotApplicable, "not an Arm"),
            ("numa-placement", Pass, "one node"),
            ("cache", Information, "resctrl"),
        ],
    );
}

#[test]
fn an_amd_workstation() {
    expect(
        "amd",
        &[
            ("smt", Pass, "one thread"),
            ("c-states", Fail, "400 µs"),
            ("kvmclock-sync", Pass, "N"),
            ("pause-loop-exits", Fail, "3000"),
            ("posted-interrupts", Fail, "avic N"),
            ("firmware-interrupts", Unknown, "only Intel"),
        ],
    );
}

#[test]
fn an_arm_board() {
    expect(
        "arm",
        &[
            ("gicv4", Fail, "disabled"),
            ("vhe", Information, "EL2"),
            ("clocksource", Pass, "arch_sys_counter"),
            ("pause-loop-exits", NotApplicable, "x86"),
            ("posted-interrupts", NotApplicable, "gicv4"),
            ("kvmclock-sync", NotApplicable, "no kvmclock_periodic_sync"),
            ("smt", NotApplicable, "no threads"),
        ],
    );
}

#[test]
fn a_tuned_realtime_host_passes_all_but_what_must_be_watched() {
    let audit = Host::of("realtime").audit();
    let open: Vec<&str> = audit
        .findings
        .iter()
        .filter(|finding| matches!(finding.state, Fail | Unknown))
        .map(|finding| finding.rule.as_str())
        .collect();
    assert_eq!(open, ["interrupt-counts", "firmware-interrupts"]);
    assert!(!audit.passed(), "what could not be counted has not passed");
    assert_eq!(state(&audit, "fifo-order"), Pass);
}

/// A tuned host on which irqbalance runs and finds these files.
pub fn with_irqbalance(files: &str) -> Host {
    let host = Host::of("realtime");
    let process = "/proc/900/stat: 900 (irqbalance) S 1 900 900 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 5 1 1 1 1 1 1 1 1 1 \
                   1 1 1 1 1 1 17 0 0 0 0 0 0\n/proc/900/status: Cpus_allowed_list:\t0-3\n";
    host::recorded::unpack(&format!("{process}{files}"), host.folder.path()).unwrap();
    host
}

#[test]
fn irqbalance_is_judged_by_what_it_reads() {
    const LIST: &str = "IRQBALANCE_BANNED_CPULIST";
    const MASK: &str = "IRQBALANCE_BANNED_CPUS";
    let environ = |line: &str| format!("/proc/900/environ: {line}\0\n");
    let default = "/etc/default/irqbalance";
    let sysconfig = "/etc/sysconfig/irqbalance";
    let upstream = "/etc/irqbalance.env";
    for (files, expected, words) in [
        (String::new(), Pass, "leaves alone: 2,3 (the kernel's isolated and nohz_full"),
        ("/sys/devices/system/cpu/isolated: \n".into(), Pass, "leaves alone: 2,3"),
        (
            "/sys/devices/system/cpu/isolated: \n/sys/devices/system/cpu/nohz_full: (null)\n".into(),
            Fail,
            "leaves alone: none",
        ),
        (
            format!("{default}: {LIST}=2-N\n"),
            Fail,
            "leaves alone: none (IRQBALANCE_BANNED_CPULIST=\"2-N\" in /etc/default",
        ),
        (format!("{default}: {LIST}='0'\n"), Fail, "leaves alone: 0 ("),
        (format!("{default}: {LIST}='2-3'\n"), Pass, "leaves alone: 2,3 ("),
        (format!("{default}: {LIST}=\n"), Pass, "isolated"),
        (format!("{default}: {MASK}=c\n"), Pass, "IRQBALANCE_BANNED_CPUS=\"c\""),
        (
            format!("{default}: |\n    {MASK}=1\n    {LIST}=2-3\n"),
            Fail,
            "leaves alone: 0 (IRQBALANCE_BANNED_CPUS",
        ),
        (
            format!("{sysconfig}: {LIST}=0\n"),
            Fail,
            "leaves alone: 0 (IRQBALANCE_BANNED_CPULIST=\"0\" in /etc/sysconfig",
        ),
        (
            format!("{upstream}: {LIST}=4-3\n"),
            Fail,
            "leaves alone: none (IRQBALANCE_BANNED_CPULIST=\"4-3\" in /etc/irqbalance.env",
        ),
        (format!("{upstream}: {LIST}=0\n{default}: {LIST}=2-3\n"), Pass, "in /etc/default"),
        // The environment that irqbalance was started with counts, whatever a file says now.
        (
            format!("{default}: {LIST}=2-3\n{}", environ("IRQBALANCE_BANNED_CPULIST=0")),
            Fail,
            "\"0\" in its environment",
        ),
        (format!("{default}: {LIST}=0\n{}", environ("PATH=/bin")), Pass, "isolated"),
        (environ("IRQBALANCE_BANNED_CPULIST=2\0IRQBALANCE_BANNED_CPULIST=2-3"), Fail, "leaves alone: 2 ("),
        ("/proc/900/environ/: \n".into(), Unknown, "/proc/900/environ"),
    ] {
        let audit = with_irqbalance(&files).audit();
        assert_eq!(state(&audit, "irqbalance"), expected, "{files}: {}", found(&audit, "irqbalance"));
        assert!(found(&audit, "irqbalance").contains(words), "{files}: {}", found(&audit, "irqbalance"));
    }
    // Where two irqbalance processes run, both must leave the CPUs alone.
    let host = with_irqbalance(&environ("IRQBALANCE_BANNED_CPULIST=2-3"));
    assert_eq!(state(&host.audit(), "irqbalance"), Pass);
    let second = "/proc/901/stat: 901 (irqbalance) S 1 901 901 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 5 1 1 1 1 1 1 1 1 1 1 1 1 \
                  1 1 1 17 0 0 0 0 0 0\n/proc/901/status: Cpus_allowed_list:\t0-3\n/proc/901/environ: IRQBALANCE_BANNED_CPULIST=2\n";
    host::recorded::unpack(second, host.folder.path()).unwrap();
    assert_eq!(state(&host.audit(), "irqbalance"), Fail);
}

#[test]
fn a_recording_keeps_irqbalances_variables_and_no_other() {
    let environ =
        "/proc/900/environ: SECRET=s3cret\0IRQBALANCE_BANNED_CPULIST=0\0IRQBALANCE_BANNED_CPUS=c\0\n";
    let mut host = with_irqbalance(environ);
    host.tree = host.tree.recording();
    let before = host.audit();
    assert_eq!(state(&before, "irqbalance"), Pass);
    let text = host.tree.recorded().unwrap().text("");
    assert!(!text.contains("s3cret") && !text.contains('\0'), "{text}");
    let elsewhere = tempfile::tempdir().unwrap();
    host::recorded::unpack(&text, elsewhere.path()).unwrap();
    let tree = host::HostTree::at(elsewhere.path());
    let audit = Audit::of(&Survey::of(&tree, &host.wishes).unwrap());
    assert_eq!(found(&audit, "irqbalance"), found(&before, "irqbalance"));
}

#[test]
fn one_cpu_can_be_audited_but_not_set_aside() {
    let host = Host::of("one-cpu");
    let audit = host.audit();
    assert_eq!(state(&audit, "domain-isolation"), Unknown);
    let wishes = wishes("0".parse().unwrap());
    let failure = Survey::of(&host.tree, &wishes).err().unwrap().to_string();
    assert!(failure.contains("no others"), "{failure}");
    let wishes = super::wishes("7".parse().unwrap());
    let failure = Survey::of(&host.tree, &wishes).err().unwrap().to_string();
    assert!(failure.contains("not online"), "{failure}");
}

#[test]
fn a_container_sees_little_and_nothing_of_that_passes() {
    expect(
        "container",
        &[
            ("interrupts", Unknown, "/proc/irq"),
            ("workqueues", Unknown, "workqueue"),
            ("kvmclock-sync", Unknown, "/sys/module"),
            ("posted-interrupts", Unknown, "KVM is not loaded"),
            ("rt-throttling", Fail, "950000"),
            ("irqbalance", Unknown, "no thread of the kernel"),
        ],
    );
}

#[test]
fn two_nodes_say_who_is_on_the_wrong_one() {
    expect(
        "two-nodes",
        &[
            ("housekeeping", Pass, "0-4"),
            ("numa-placement", Fail, "memory of qemu-system-x86 900 on node 0"),
            ("numa-placement", Fail, "vhost-900 of 900 on node 0"),
            ("huge-pages", Fail, "none"),
        ],
    );
    let host = Host::of("two-nodes");
    let bare = wishes("4-7".parse().unwrap());
    let audit = Audit::of(&Survey::of(&host.tree, &bare).unwrap());
    assert_eq!(state(&audit, "housekeeping"), Fail, "{}", found(&audit, "housekeeping"));
}

/// Before Linux 6.7 no file lists them all; a link, which no cgroup file system has, is not followed.
#[test]
fn isolated_partitions_are_found_however_deep_they_are() {
    let host = Host::of("intel");
    let mut folder = "/sys/fs/cgroup".to_owned();
    let mut files = String::new();
    for depth in 0..12 {
        folder += "/nested.slice";
        let partition = if depth == 11 { "isolated" } else { "root" };
        files += &format!("{folder}/cpuset.cpus.partition: {partition}\n");
    }
    files += &format!("{folder}/cpuset.cpus.effective: 2-3\n");
    files += "/sys/fs/cgroup/a/cpuset.cpus.partition: isolated\n/sys/fs/cgroup/a/cpuset.cpus: 6\n";
    files += "/sys/fs/cgroup/b/cpuset.cpus.partition: isolated invalid (Parent is not a partition root)\n";
    files += "/sys/fs/cgroup/b/cpuset.cpus: 7\n";
    host::recorded::unpack(&files, host.folder.path()).unwrap();
    let root = host.folder.path().join("sys/fs/cgroup");
    // Followed, two links to their own folder would lead through it in 2^40 ways.
    for link in ["a/itself", "a/again"] {
        std::os::unix::fs::symlink(".", root.join(link)).unwrap();
    }
    let audit = host.audit();
    let said = found(&audit, "domain-isolation");
    assert!(said.ends_with("by cgroups 2,3,6"), "{said}");
    assert_eq!(host::partition_of(&host.tree, 3).unwrap(), folder);
    assert_eq!(host::partition_of(&host.tree, 7), None);
}

/// Four nodes of which two have memory, as on processors of many chips with memory at some.
#[test]
fn huge_pages_are_planned_where_there_is_memory() {
    let host = Host::of("memoryless-node");
    // For these CPUs, in this plan: the nodes with how many pages each; what is wanted.
    let of = |cpus: &str, more: &str| {
        host::recorded::unpack(more, host.folder.path()).unwrap();
        let wishes = wishes(cpus.parse().unwrap());
        let survey = Survey::of(&host.tree, &wishes).unwrap();
        let plan = host::Plan::of(&survey);
        let rule = plan.rules.iter().find(|rule| rule.rule == "huge-pages").unwrap();
        let changes: Vec<String> = rule
            .changes
            .iter()
            .map(|change| match change {
                rules::Change::Set { knob, value } => format!("{knob}={value}"),
                other => panic!("{other:?}"),
            })
            .collect();
        let audit = Audit::of(&survey);
        let finding = audit.findings.into_iter().find(|finding| finding.rule == "huge-pages").unwrap();
        (changes, finding.wanted)
    };
    let pages = |node: usize, count: u64| {
        format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages={count}")
    };
    assert_eq!(of("7-8", "").0, [pages(1, 512)]);
    assert_eq!(of("7-13", "").0, [pages(1, 256), pages(2, 256)]);
    // The nearest node with memory stands in, the first of equals.
    let distances = "/sys/devices/system/node/node3/distance: 32 32 12 10\n/sys/devices/system/node/node0/distance: 10 12 32 32\n";
    let (changes, wanted) = of("19-20", distances);
    assert_eq!(changes, [pages(2, 512)]);
    assert_eq!(wanted, "1024 MiB free on node 2 (node 3 has no memory)");
    assert_eq!(of("1-2,7", "").0, [pages(1, 512)]);
    assert_eq!(of("1-2,19", "").0, [pages(1, 256), pages(2, 256)]);
    // An older kernel says it node by node.
    let node = host.folder.path().join("sys/devices/system/node");
    fs::remove_file(node.join("has_memory")).unwrap();
    assert_eq!(of("19-20", "").0, [pages(2, 512)]);
    // Without a distance, and without any word of memory.
    fs::remove_file(node.join("node3/distance")).unwrap();
    assert_eq!(of("19-20", "").0, [pages(1, 512)]);
    fs::remove_file(node.join("node3/meminfo")).unwrap();
    assert_eq!(of("19-20", "").0, [pages(3, 512)]);
}

#[test]
fn a_guest_whose_node_has_no_memory_has_it_on_the_nearest() {
    let host = Host::of("memoryless-node");
    let guest = "/proc/900/stat: 900 (qemu-system-x86) S 2 0 0 0 0 4194560 0 0 0 0 0 0 0 0 0 0 0 0 50 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
                 /proc/900/status: Cpus_allowed_list:\t19\n/proc/2/stat: 2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n\
                 /proc/2/status: Cpus_allowed_list:\t0-1\n/sys/devices/system/node/node3/distance: 32 32 12 10\n";
    for (maps, expected) in [("N2=100", Pass), ("N1=100", Fail)] {
        let files = format!(
            "{guest}/proc/900/numa_maps: 7f0000000000 bind:2 anon=100 {maps} kernelpagesize_kB=2048\n"
        );
        host::recorded::unpack(&files, host.folder.path()).unwrap();
        let audit = Audit::of(&Survey::of(&host.tree, &wishes("19-20".parse().unwrap())).unwrap());
        assert_eq!(state(&audit, "numa-placement"), expected, "{}", found(&audit, "numa-placement"));
    }
}

#[test]
fn a_hundred_and_twelve_cpus_are_found_one_by_one() {
    expect(
        "112-cpus",
        &[
            ("interrupts", Fail, "300 on 77"),
            ("c-states", Fail, "and 44 more"),
            ("smt", Pass, "siblings"),
            ("numa-placement", Pass, "ens1f0 on node 1"),
        ],
    );
}

/// As machines really say it, emulated ones: each file's head says which.
#[test]
fn recorded_machines() {
    expect(
        "recorded/intel",
        &[
            ("housekeeping", Pass, "0,1,4,5"),
            ("smt", Pass, "siblings of isolated CPUs are isolated"),
            ("c-states", NotApplicable, "a guest"),
            ("interrupts", Fail, "12 on 2"),
            ("workqueues", Fail, "all unbound ones, blkcg_punt_bio, writeback"),
            ("kernel-threads", Fail, "kthreadd on 0-7"),
            ("posted-interrupts", Unknown, "KVM is not loaded"),
        ],
    );
    expect(
        "recorded/amd",
        &[
            ("smt", Pass, "one thread"),
            ("corrected-errors", Fail, "8 of 8 CPUs"),
            ("pause-loop-exits", Pass, "0"),
            ("posted-interrupts", Fail, "avic N; the IOMMU posts"),
            ("kvmclock-sync", Fail, "Y"),
        ],
    );
    expect(
        "recorded/arm",
        &[
            ("vhe", Information, "EL2"),
            ("clocksource", Pass, "arch_sys_counter"),
            ("posted-interrupts", NotApplicable, "gicv4"),
            ("halt-polling", Information, "500000"),
        ],
    );
    expect(
        "recorded/container",
        &[
            ("irqbalance", Unknown, "no thread of the kernel"),
            ("kernel-threads", Unknown, "no thread of the kernel"),
            ("kvm-threads", Unknown, "no thread of the kernel"),
            ("rt-throttling", Fail, "950000"),
        ],
    );
    expect(
        "recorded/realtime",
        &[
            ("realtime-kernel", Pass, "1"),
            ("domain-isolation", Pass, "at boot 2,3"),
            ("managed-interrupts", Pass, "managed_irq"),
            ("tick", Pass, "nohz_full=2,3"),
            ("rcu", Pass, "offloaded: 2,3"),
            ("fifo-order", Fail, "ktimers/2: fifo 1, ksoftirqd/2: other 0"),
            ("transparent-huge-pages", NotApplicable, "has none"),
        ],
    );
    expect("recorded/two-nodes", &[("numa-placement", Pass, "node 1"), ("numa-balancing", Fail, "1")]);
    expect(
        "recorded/112-cpus",
        &[
            ("housekeeping", Pass, "0-3,28-59,84-111 of 2 nodes"),
            ("numa-placement", Fail, "on node 0 and 1"),
            ("kernel-threads", Fail, "kthreadd on 0-111"),
            ("corrected-errors", Fail, "112 of 112 CPUs"),
        ],
    );
    expect("recorded/one-cpu", &[("domain-isolation", Unknown, "no CPU is set aside")]);
}

#[test]
fn an_empty_host_passes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let least = "/sys/devices/system/cpu/online: 0-3\n/proc/cpuinfo: vendor_id : GenuineIntel\n";
    host::recorded::unpack(least, folder.path()).unwrap();
    let tree = host::HostTree::at(folder.path());
    let wishes = wishes("2-3".parse().unwrap());
    let audit = Audit::of(&Survey::of(&tree, &wishes).unwrap());
    let passed: Vec<&str> = audit
        .findings
        .iter()
        .filter(|finding| finding.state == Pass)
        .map(|finding| finding.rule.as_str())
        .collect();
    // Both follow from the list of CPUs: there are others, and there is one node.
    assert_eq!(passed, ["housekeeping", "numa-placement"]);
}

#[test]
fn every_rule_says_why_and_who_says_so() {
    let mut names = std::collections::BTreeSet::new();
    for rule in rules::all() {
        assert!(names.insert(rule.id), "{} is there twice", rule.id);
        for text in [rule.title, rule.why, rule.source, rule.risk] {
            assert!(text.len() > 3 && !text.contains('\n'), "{}: {text}", rule.id);
        }
        assert!(!rule.profiles.is_empty(), "{} is of no profile", rule.id);
    }
    assert!(names.len() > 35, "{}", names.len());
}

#[test]
fn an_audit_reads_back_from_its_json_and_prints() {
    for (name, host) in Host::all() {
        let audit = host.audit();
        let json = serde_json::to_string(&audit).unwrap();
        assert_eq!(serde_json::from_str::<Audit>(&json).unwrap(), audit, "{name}");
        let text = audit.render(80);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
        for finding in &audit.findings {
            assert!(text.contains(&finding.rule), "{name}: {}", finding.rule);
        }
        // The last lines answer: what fails, by what a change of it takes, and how to go on.
        let (_, answer) = text.rsplit_once(" not applicable\n").unwrap();
        let failing = audit.findings.iter().filter(|finding| finding.state == State::Fail);
        for finding in failing.clone() {
            assert!(answer.contains(finding.takes.words()), "{name}: {answer}");
            assert!(answer.contains(&finding.rule), "{name}: {} is not in {answer}", finding.rule);
        }
        assert_eq!(answer.contains("tautline host plan"), failing.count() > 0, "{name}: {answer}");
    }
}
