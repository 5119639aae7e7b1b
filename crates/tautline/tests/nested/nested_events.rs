//! Tracepoints of the nested machine that stay switched on.

use peers::nested::Machine;

/// Keeps `events` switched on, in two instances that record nothing. The kernel patches its own code where an event is
/// switched on, or has its second user; QEMU's emulated CPUs stand still over that now and then, and each trace would
/// do it dozens of times. Meanwhile one CPU is online alone: no other one has to be told.
pub fn hold(machine: &Machine, events: impl Iterator<Item = &'static str>) {
    let events = events.collect::<Vec<_>>().join(" ");
    machine.must(&format!(
        "{}; for held in held-1 held-2; do cd /sys/kernel/tracing/instances; mkdir -p $held; cd $held; echo 0 >tracing_on; \
         echo 4 >buffer_size_kb; for event in {events}; do [ ! -e events/$event ] || echo 1 >events/$event/enable; done; \
         done; {}",
        others(0),
        others(1)
    ));
}

/// Takes all CPUs but the first offline, or back.
fn others(online: u8) -> String {
    format!(
        "for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do [ ! -e $cpu ] || echo {online} >$cpu; done"
    )
}
