//! The events that a trace records.

/// Events by group; those that several selections want are one group.
type Groups = &'static [&'static [&'static str]];

/// Threads that take turns.
const THREADS: &[&str] = &["sched/sched_switch", "sched/sched_waking"];
/// Interrupts of devices, and the events that follow them.
const INTERRUPTS: &[&str] =
    &["irq/irq_handler_entry", "irq/irq_handler_exit", "irq/softirq_entry", "irq/softirq_exit"];
/// The timer's interrupt.
const TIMER: &[&str] = &["irq_vectors/local_timer_entry", "irq_vectors/local_timer_exit"];

/// Events that are switched on where the kernel has them.
const PATHS: Groups = &[
    &[
        "kvm/kvm_entry",
        "kvm/kvm_exit",
        "kvm/kvm_userspace_exit",
        "kvm/kvm_inj_virq",
        "kvm/kvm_apic_accept_irq",
        "kvm/kvm_eoi",
        "kvm/kvm_pv_eoi",
        "kvm/kvm_msi_set_irq",
        "kvm/kvm_set_irq",
        "kvm/kvm_pio",
        "kvm/kvm_mmio",
        "kvm/kvm_fast_mmio",
        "kvm/kvm_page_fault",
    ],
    THREADS,
    INTERRUPTS,
    &[
        "irq_vectors/local_timer_entry",
        "raw_syscalls/sys_enter",
        "raw_syscalls/sys_exit",
        "net/net_dev_queue",
        "net/net_dev_start_xmit",
        "net/net_dev_xmit",
        "net/netif_rx",
        "net/netif_receive_skb",
        "block/block_rq_issue",
        "block/block_rq_complete",
        "exceptions/page_fault_user",
        "exceptions/page_fault_kernel",
    ],
];
/// The steps of an interrupt on its way into a guest, and the other threads on the CPUs.
const DELIVERIES: Groups = &[
    &[
        "kvm/kvm_entry",
        "kvm/kvm_exit",
        "kvm/kvm_inj_virq",
        "kvm/kvm_apic_accept_irq",
        "kvm/kvm_msi_set_irq",
        "sched/sched_switch",
    ],
    INTERRUPTS,
];
/// The event at which a kernel handles a device's interrupt.
const HANDLERS: &[&str] = &["irq/irq_handler_entry"];
/// The events at which latencies begin and end.
const LATENCIES: Groups =
    &[&["kvm/kvm_entry", "kvm/kvm_apic_accept_irq", "kvm/kvm_inj_virq", "sched/sched_waking"]];
/// The events that show the causes of a latency: the guest's threads, and other work on their CPUs.
const BLAME: Groups = &[
    &[
        "kvm/kvm_entry",
        "kvm/kvm_exit",
        "kvm/kvm_userspace_exit",
        "kvm/kvm_apic_accept_irq",
        "kvm/kvm_inj_virq",
        "kvm/kvm_page_fault",
    ],
    THREADS,
    INTERRUPTS,
    TIMER,
    &["exceptions/page_fault_user", "exceptions/page_fault_kernel"],
];
/// The events in a guest: from an interrupt to the return to user space of the thread that it wakes, and what used the
/// time in between.
const INSIDE: Groups = &[THREADS, INTERRUPTS, TIMER, &["raw_syscalls/sys_exit"]];
/// Events that the kernel filters by the watched threads, with the field that names the thread.
const FILTERED: &[(&str, &str)] =
    &[("exceptions/page_fault_user", "common_pid"), ("exceptions/page_fault_kernel", "common_pid")];
const FILTERED_LATENCIES: &[(&str, &str)] =
    &[("kvm/kvm_entry", "common_pid"), ("kvm/kvm_inj_virq", "common_pid"), ("sched/sched_waking", "pid")];

/// Events, and the size of the buffer for them.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    groups: Groups,
    /// Events that the trace needs: a kernel without one of them is refused.
    pub(super) required: &'static [&'static str],
    /// Events that are recorded for some threads only, with the field that names the thread.
    pub(super) filtered: &'static [(&'static str, &'static str)],
    /// Size of the buffer for each CPU, in KiB.
    pub(super) buffer_kib: u32,
}

impl Selection {
    /// Everything on the path of a packet or an interrupt.
    pub const PATHS: Self = Self {
        groups: PATHS,
        required: &["kvm/kvm_entry", "kvm/kvm_exit", "sched/sched_switch", "sched/sched_waking"],
        filtered: &[],
        buffer_kib: 16 << 10,
    };
    /// Where a guest's latencies begin and end. These events are few enough to be read while they are written.
    pub const LATENCIES: Self = Self {
        groups: LATENCIES,
        required: &["kvm/kvm_entry", "sched/sched_waking"],
        filtered: FILTERED_LATENCIES,
        buffer_kib: 512,
    };

    /// The events that show what used the time of a latency.
    pub const BLAME: Self = Self {
        groups: BLAME,
        required: &["kvm/kvm_entry", "kvm/kvm_exit", "sched/sched_switch", "sched/sched_waking"],
        filtered: FILTERED,
        buffer_kib: 512,
    };

    /// [`Selection::BLAME`] with larger buffers, for times in which the guest is queried: its answers take long and
    /// cause many exits.
    pub const BLAME_BESIDE_GUEST: Self = Self { buffer_kib: 2048, ..Self::BLAME };

    /// For a guest: where interrupts end in user space, and what uses the time before that.
    pub const INSIDE: Self = Self {
        groups: INSIDE,
        required: &["sched/sched_switch", "sched/sched_waking", "raw_syscalls/sys_exit"],
        filtered: &[],
        buffer_kib: 512,
    };

    /// The events, each prefixed by its folder in tracefs.
    pub fn events(&self) -> impl Iterator<Item = &'static str> {
        self.groups.iter().copied().flatten().copied()
    }

    /// This selection of events with buffers of at most `buffer_kib` KiB for each CPU.
    pub(super) fn at_most_kib(self, buffer_kib: u32) -> Self {
        Self { buffer_kib: self.buffer_kib.min(buffer_kib), ..self }
    }

    /// For the host: the steps of an interrupt into a guest, and the other threads on the CPUs.
    pub fn interrupts(buffer_kib: u32) -> Self {
        let required = &["kvm/kvm_entry", "kvm/kvm_msi_set_irq", "sched/sched_switch"];
        Self { groups: DELIVERIES, required, filtered: &[], buffer_kib }
    }

    /// For a guest: its handlers of device interrupts.
    pub fn handlers(buffer_kib: u32) -> Self {
        Self { groups: &[HANDLERS], required: HANDLERS, filtered: &[], buffer_kib }
    }
}
