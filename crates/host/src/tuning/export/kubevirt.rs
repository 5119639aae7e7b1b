//! A VirtualMachine for KubeVirt.

use serde_json::{Value, json};

use super::guest::Guest;

const CANNOT: &str = "\
# KubeVirt cannot express:
#   which CPU a vCPU has: the kubelet's CPU manager (policy static) picks it
#   kvm-hint-dedicated, cpu-pm=on, halt polling: there are no fields for them
#   SCHED_FIFO's priority: it is 1
#   the host's side: isolation, interrupts, the kernel's command line (tautline host plan)
# The node needs the label kubevirt.io/realtime, the static CPU manager and huge pages.
";

/// The manifest.
pub fn kubevirt(guest: &Guest) -> String {
    let text = serde_yaml_ng::to_string(&manifest(guest));
    // Plain data has no form that YAML lacks.
    debug_assert!(text.is_ok());
    format!("{CANNOT}{}", text.unwrap_or_default())
}

fn manifest(guest: &Guest) -> Value {
    let memory = format!("{}Mi", guest.memory_mib);
    let page = if guest.memory_mib.is_multiple_of(1024) { "1Gi" } else { "2Mi" };
    let count = guest.cpus.len();
    let realtime = match count {
        // One vCPU stays ordinary for the guest's own housekeeping, where there are several.
        0 | 1 => json!({}),
        _ => json!({ "mask": format!("1-{}", count - 1) }),
    };
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": { "name": guest.name },
        "spec": {
            "runStrategy": "Halted",
            "template": {
                "spec": {
                    "nodeSelector": { "kubevirt.io/realtime": "" },
                    "domain": {
                        "cpu": {
                            "model": "host-passthrough",
                            "sockets": 1,
                            "cores": count,
                            "threads": 1,
                            "dedicatedCpuPlacement": true,
                            "isolateEmulatorThread": true,
                            "features": [{ "name": "tsc-deadline", "policy": "require" }],
                            "numa": { "guestMappingPassthrough": {} },
                            "realtime": realtime,
                        },
                        "memory": { "guest": memory, "hugepages": { "pageSize": page } },
                        "devices": { "autoattachGraphicsDevice": false, "autoattachMemBalloon": false },
                    },
                },
            },
        },
    })
}
