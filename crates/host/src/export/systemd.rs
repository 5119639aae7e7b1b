//! Units and a slice for systemd.

use super::guest::Guest;

/// Several files in one text, each after a line with its name.
pub fn systemd(guest: &Guest) -> String {
    let Guest { name, cpus, housekeeping, memory_mib } = guest;
    format!(
        "\
# systemd cannot express:
#   one CPU for each vCPU's thread, or SCHED_FIFO for vCPU threads alone: CPUSchedulingPolicy= is for all of QEMU,
#   and its own threads must not have it; `tautline vm run` does it
#   an isolated cpuset partition (cpuset.cpus.partition): `tautline host apply --rules domain-isolation`
#   the kernel's command line, module options, interrupts' affinity: `tautline host plan`

# --- /etc/systemd/system/tautline-guests.slice
[Unit]
Description=Guests on CPUs that are set aside

[Slice]
AllowedCPUs={all}

# --- /etc/systemd/system/{name}.service
[Unit]
Description=Real-time guest {name}
After=network.target

[Service]
Slice=tautline-guests.slice
ExecStart=/usr/local/sbin/start-{name}
LimitMEMLOCK=infinity
LimitRTPRIO=1
AmbientCapabilities=CAP_SYS_NICE CAP_IPC_LOCK
OOMScoreAdjust=-900
# {memory_mib} MiB of the guest lie in huge pages, which MemoryMax= does not count.

[Install]
WantedBy=multi-user.target

# --- /etc/systemd/system/system.slice.d/tautline.conf
[Slice]
AllowedCPUs={housekeeping}

# --- /etc/systemd/system/user.slice.d/tautline.conf
[Slice]
AllowedCPUs={housekeeping}
",
        all = cpus.or(housekeeping),
    )
}
