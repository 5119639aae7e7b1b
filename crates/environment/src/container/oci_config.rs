//! Writes the `config.json` of the container.

use std::fs;

use rustix::process::{Resource, getegid, geteuid, getrlimit};
use serde_json::{Value, json};

use super::settings::{AGENT, Settings, cpu_quota};
use crate::Start;

pub(super) fn config(id: &str, settings: &Settings, start: &Start<'_>, rootless: bool) -> Value {
    let capabilities = capabilities(rootless);
    let cpus = linux::cpus::list(start.cpus);
    let mut arguments = vec![AGENT.to_owned()];
    arguments.extend(start.agent.arguments.iter().cloned());

    let mut namespaces: Vec<Value> =
        ["pid", "mount", "ipc", "uts"].iter().map(|kind| json!({ "type": kind })).collect();
    namespaces.push(match &settings.network_namespace {
        Some(path) => json!({ "type": "network", "path": path }),
        None => json!({ "type": "network" }),
    });
    let mut linux = json!({});
    if rootless {
        namespaces.push(json!({"type": "user"}));
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        linux["uidMappings"] = json!([{"containerID": 0, "hostID": uid, "size": 1}]);
        linux["gidMappings"] = json!([{"containerID": 0, "hostID": gid, "size": 1}]);
    } else {
        namespaces.push(json!({"type": "cgroup"}));
        let mut cpu = json!({ "cpus": cpus, "mems": memory_nodes() });
        if let Some(quota) = settings.cpu_quota.map(cpu_quota) {
            cpu["period"] = json!(quota.period_us);
            cpu["quota"] = json!(quota.quota_us);
        }
        if let Some((runtime_us, period_us)) = realtime_share() {
            cpu["realtimeRuntime"] = json!(runtime_us);
            cpu["realtimePeriod"] = json!(period_us);
        }
        linux["resources"] = json!({ "cpu": cpu });
        linux["cgroupsPath"] = json!(format!("/{id}"));
    }
    linux["namespaces"] = json!(namespaces);

    let bind = |source: &std::path::Path, destination: &str| {
        json!({
            "destination": destination, "type": "bind", "source": source,
            "options": ["bind", "ro", "nosuid", "nodev"]
        })
    };
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc"}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
               "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]}),
        json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]}),
        bind(&start.agent.binary, AGENT),
    ];
    if !rootless {
        // An ordinary user may not mount a sysfs of a network namespace made together with it.
        mounts.push(json!({"destination": "/sys", "type": "sysfs", "source": "sysfs",
                           "options": ["nosuid", "noexec", "nodev", "ro"]}));
    }
    mounts.extend(start.agent.files.iter().map(|file| bind(file, &file.to_string_lossy())));

    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": {"uid": 0, "gid": 0},
            "args": arguments,
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp",
                    format!("{}={}", linux::child::RUN, std::process::id())],
            "cwd": "/",
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities
            },
            "rlimits": rlimits(),
            "noNewPrivileges": true
        },
        "root": {"path": "rootfs", "readonly": false},
        "hostname": "tautline",
        "mounts": mounts,
        "linux": linux
    })
}

/// The capabilities that the workloads use (capabilities(7)), as far as this process may grant them: in its own user
/// namespace an ordinary user has the capabilities of its bounding set.
fn capabilities(rootless: bool) -> Value {
    const WANTED: [(&str, u32); 4] =
        [("CAP_NET_ADMIN", 12), ("CAP_IPC_LOCK", 14), ("CAP_SYS_NICE", 23), ("CAP_SYS_RESOURCE", 24)];
    let set = if rootless { "CapBnd:" } else { "CapEff:" };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix(set)).map(str::trim);
    let bits = bits.and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
    WANTED.iter().filter(|(_, bit)| bits >> bit & 1 == 1).map(|(name, _)| json!(name)).collect()
}

/// The soft limits that the workloads use up, raised to this process's hard limits: the process may not have the right
/// to set higher ones.
fn rlimits() -> Value {
    let limits = [
        ("RLIMIT_NOFILE", Resource::Nofile),
        ("RLIMIT_MEMLOCK", Resource::Memlock),
        ("RLIMIT_RTPRIO", Resource::Rtprio),
    ];
    let raised = limits.into_iter().map(|(name, resource)| {
        let hard = getrlimit(resource).maximum.unwrap_or(u64::MAX); // RLIM_INFINITY
        json!({"type": name, "hard": hard, "soft": hard})
    });
    raised.collect()
}

/// The memory nodes of the machine: a cpuset needs some.
fn memory_nodes() -> String {
    let text = fs::read_to_string("/sys/devices/system/node/has_memory");
    text.map(|text| text.trim().to_owned()).unwrap_or_else(|_| "0".into())
}

/// With RT group scheduling (cgroup v1) a new group has no real-time share, so that SCHED_FIFO is refused
/// within. A tenth of a second in each is ample for a thread that only wakes, and leaves shares for containers
/// beside this one: all groups together may not exceed the root's. None where the kernel has no such share.
fn realtime_share() -> Option<(u64, u64)> {
    const WANTED_US: u64 = 100_000;
    let read = |name: &str| -> Option<u64> {
        ["cpu", "cpu,cpuacct"].iter().find_map(|hierarchy| {
            fs::read_to_string(format!("/sys/fs/cgroup/{hierarchy}/{name}")).ok()?.trim().parse().ok()
        })
    };
    let (runtime_us, period_us) = (read("cpu.rt_runtime_us")?, read("cpu.rt_period_us")?);
    (runtime_us > 0).then_some((runtime_us.min(WANTED_US), period_us))
}
