//! A flavor's extra specs, and nova.conf, for OpenStack's Nova.

use super::guest::Guest;

/// The extra specs of a flavor for such guests.
pub fn extra_specs(guest: &Guest) -> Vec<(&'static str, String)> {
    let mut specs = vec![
        ("hw:cpu_policy", "dedicated".to_owned()),
        ("hw:cpu_thread_policy", "isolate".into()),
        ("hw:emulator_threads_policy", "share".into()),
        ("hw:mem_page_size", "large".into()),
        ("hw:pmu", "false".into()),
        ("hw:numa_nodes", "1".into()),
        ("hw:virtio_packed_ring", "true".into()),
    ];
    // Nova leaves at least one vCPU ordinary: that of the guest's own housekeeping.
    if guest.cpus.len() > 1 {
        specs.push(("hw:cpu_realtime", "yes".into()));
        specs.push(("hw:cpu_realtime_mask", "^0".into()));
    }
    specs
}

/// The command that sets the specs, and the part of nova.conf.
pub fn nova(guest: &Guest) -> String {
    let Guest { name, cpus, housekeeping, memory_mib } = guest;
    let properties: Vec<String> =
        extra_specs(guest).iter().map(|(key, value)| format!("  --property {key}={value}")).collect();
    let one_cpu = if cpus.len() > 1 {
        ""
    } else {
        "#   a real-time guest of one vCPU: one vCPU of each must stay ordinary (hw:cpu_realtime is left out)\n"
    };
    format!(
        "\
# Nova cannot express:
#   kvm-hint-dedicated, halt polling, cpu-pm=on: there are no keys for them
#   which CPU a vCPU has: the scheduler picks of cpu_dedicated_set
#   the guest's real-time priority per flavor: realtime_scheduler_priority is the compute node's
{one_cpu}
openstack flavor create {name} --vcpus {count} --ram {memory_mib} --disk 0
openstack flavor set {name} \\
{properties}

# --- /etc/nova/nova.conf on the compute node
[compute]
cpu_dedicated_set = {cpus}
cpu_shared_set = {housekeeping}

[libvirt]
virt_type = kvm
cpu_mode = host-passthrough
realtime_scheduler_priority = 1
",
        count = cpus.len(),
        properties = properties.join(" \\\n"),
    )
}
