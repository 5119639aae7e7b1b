//! The probes, one file for each.

mod af_xdp;
pub mod cgroup_tree;
mod cgroups;
mod clocksource;
mod huge_pages;
mod isolated_cpus;
mod kvm_device;
mod memory_locking;
mod namespaces;
mod performance_counters;
mod real_time;
mod steal_time;
pub mod tracefs;
mod tracing;
mod tun;
mod vdpa;
mod vduse;
mod vhost_net;

use super::finding::Probe;

/// All probes in the order they run: time, memory, network, isolation, observation, virtualization.
pub const ALL: [Probe; 17] = [
    Probe {
        id: "real-time-scheduling",
        title: "Real-time scheduling",
        enables: "wake-up latencies in the real-time class, and vCPU threads that ordinary work cannot preempt",
        run: real_time::run,
    },
    Probe {
        id: "isolated-cpus",
        title: "Isolated CPUs",
        enables: "CPUs on which nothing but the work or the vCPU put there runs: the tail of every latency",
        run: isolated_cpus::run,
    },
    Probe {
        id: "steal-time",
        title: "Steal time and gaps",
        enables: "maxima of latency that say something about the system under test, not about its neighbours",
        run: steal_time::run,
    },
    Probe {
        id: "clocksource",
        title: "Clock source",
        enables: "timing of single events without the clock itself being the cost",
        run: clocksource::run,
    },
    Probe {
        id: "memory-locking",
        title: "Memory locking",
        enables: "work and guests without page faults: mlockall for latency tests, QEMU's mem-lock=on",
        run: memory_locking::run,
    },
    Probe {
        id: "huge-pages",
        title: "Huge pages",
        enables: "guest memory and packet buffers with fewer TLB misses, and the memory curves with huge pages",
        run: huge_pages::run,
    },
    Probe {
        id: "tun",
        title: "TUN/TAP interfaces",
        enables: "guests and switches on the kernel's network stack",
        run: tun::run,
    },
    Probe {
        id: "vhost-net",
        title: "vhost-net",
        enables: "the kernel's own back-end for virtio-net, the usual one to compare with",
        run: vhost_net::run,
    },
    Probe {
        id: "vduse",
        title: "VDUSE",
        enables: "the vduse port: network interfaces of this kernel on the switch, without a TAP",
        run: vduse::run,
    },
    Probe {
        id: "vdpa",
        title: "vDPA",
        enables: "rings of guests for hardware: tautline vdpa, QEMU's vhost-vdpa",
        run: vdpa::run,
    },
    Probe {
        id: "af-xdp",
        title: "AF_XDP",
        enables: "the af-xdp port: frames between an interface and user space past the network stack",
        run: af_xdp::run,
    },
    Probe {
        id: "user-namespaces",
        title: "User namespaces",
        enables: "containers, TAP interfaces and switches without root",
        run: namespaces::user,
    },
    Probe {
        id: "network-namespaces",
        title: "Network namespaces",
        enables: "containers and test beds with interfaces of their own, gone when they end",
        run: namespaces::network,
    },
    Probe {
        id: "cgroups",
        title: "Control groups",
        enables: "containers with a CPU set and a quota of their own, and CPU isolation at run time",
        run: cgroups::run,
    },
    Probe {
        id: "performance-counters",
        title: "Performance counters",
        enables: "instructions, cycles and cache misses per operation and per packet",
        run: performance_counters::run,
    },
    Probe {
        id: "tracing",
        title: "Tracing",
        enables: "who causes each VM exit and wake-up, counted and timed at the kernel's tracepoints",
        run: tracing::run,
    },
    Probe {
        id: "kvm-device",
        title: "/dev/kvm",
        enables: "hardware-run guests; whether a stock kernel really runs in one is shown by the KVM line",
        run: kvm_device::run,
    },
];

/// The names of all probes, in the order they run.
pub const NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ALL[index].id;
        index += 1;
    }
    names
};

/// The probe of this name.
pub fn find(name: &str) -> Option<&'static Probe> {
    ALL.iter().find(|probe| probe.id == name)
}
