//! A VirtualMachine for KubeVirt.

use super::guest::Guest;

const CANNOT: &str = "\
# KubeVirt cannot express:
#   which CPU a vCPU has: the kubelet's CPU manager (policy static) picks it
#   kvm-hint-dedicated, cpu-pm=on, halt polling: there are no fields for them
#   SCHED_FIFO's priority: it is 1
#   the host's side: isolation, interrupts, the kernel's command line (tautline host plan)
# The node needs the label kubevirt.io/realtime, the static CPU manager and huge pages.
";

/// The manifest. The inserted values need no escapes in YAML: they are numbers, and a name of letters, digits and
/// `-`.
pub fn kubevirt(guest: &Guest) -> String {
    let (name, memory, count) = (&guest.name, guest.memory_mib, guest.cpus.len());
    let page = if memory.is_multiple_of(1024) { "1Gi" } else { "2Mi" };
    let realtime = match count {
        // One vCPU stays ordinary for the guest's own housekeeping, where there are several.
        0 | 1 => "{}".to_owned(),
        _ => format!("{{ mask: \"1-{}\" }}", count - 1),
    };
    format!(
        "{CANNOT}\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: \"{name}\"
spec:
  runStrategy: Halted
  template:
    spec:
      nodeSelector:
        kubevirt.io/realtime: \"\"
      domain:
        cpu:
          model: host-passthrough
          sockets: 1
          cores: {count}
          threads: 1
          dedicatedCpuPlacement: true
          isolateEmulatorThread: true
          features:
          - name: tsc-deadline
            policy: require
          numa:
            guestMappingPassthrough: {{}}
          realtime: {realtime}
        memory:
          guest: {memory}Mi
          hugepages:
            pageSize: {page}
        devices:
          autoattachGraphicsDevice: false
          autoattachMemBalloon: false
"
    )
}
