//! Arguments for QEMU.

use super::guest::Guest;

/// The arguments, one on each line, as a shell reads them; comments name the settings that QEMU cannot make.
pub fn qemu(guest: &Guest) -> String {
    let Guest { name, cpus, housekeeping, memory_mib } = guest;
    let first = cpus.iter().next().unwrap_or_default();
    format!(
        "\
# QEMU's arguments cannot express, and `tautline vm run` does or an administrator must:
#   each vCPU's thread on its CPU ({cpus}) and SCHED_FIFO 1: taskset and chrt on the thread ids of `query-cpus-fast`
#   QEMU's own threads, and vhost-net's, on {housekeeping}
#   SCHED_FIFO is refused to whoever lacks CAP_SYS_NICE, mem-lock=on to whoever lacks CAP_IPC_LOCK
# With cpu-pm=on idle exits vanish, and the host shows 100 % CPU.
# Call it as: taskset -c {housekeeping} qemu-system-x86_64 $(grep -v '^#' FILE)
-name {name},debug-threads=on
-nodefaults
-no-user-config
-display none
-machine q35,accel=kvm,memory-backend=memory
-cpu host,tsc-deadline=on,kvm-hint-dedicated=on,pmu=off
-smp {count},sockets=1,cores={count},threads=1
-m {memory_mib}M
-object memory-backend-memfd,id=memory,size={memory_mib}M,share=on,hugetlb=on,prealloc=on,prealloc-threads=1
-overcommit mem-lock=on,cpu-pm=on
-rtc base=utc,driftfix=none
# memory of the node of CPU {first}: add ,host-nodes=NODE,policy=bind to the memory-backend
",
        count = cpus.len(),
    )
}
