//! The rows of the table, with their names in other tables for comparison.

/// One unit cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The row's name in files.
    pub id: &'static str,
    /// The begin and end of the measured interval.
    pub title: &'static str,
    /// The corresponding test of kvm-unit-tests' `x86/vmexit.c`.
    pub vmexit: Option<&'static str>,
    /// The closest row of tables II and III in Dall et al., "ARM Virtualization: Performance and Architectural
    /// Implications" (ISCA 2016).
    pub arm: Option<&'static str>,
}

const fn row(
    id: &'static str,
    title: &'static str,
    vmexit: Option<&'static str>,
    arm: Option<&'static str>,
) -> Row {
    Row { id, title, vmexit, arm }
}

/// All rows, in the order in which they are measured.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row("stamps", "two time stamps and nothing between; part of every row", None, None),
    row("cpuid", "CPUID, handled in the kernel", Some("cpuid"), None),
    row("hypercall", "hypercall that does nothing", Some("vmcall"), Some("Hypercall")),
    row("interrupt-controller", "MMIO read of the I/O APIC, handled in the kernel", None, Some("Interrupt Controller Trap")),
    row("port-read-user", "port read, handled in user space", Some("inl_from_qemu"), None),
    row("port-write-user", "port write, handled in user space", Some("portio-no-eventfd:pci-io"), None),
    row("mmio-write-user", "MMIO write, handled in user space", Some("mmio-no-eventfd:pci-mem"), None),
    row("port-write-ioeventfd", "port write to an ioeventfd", Some("portio-wildcard-eventfd:pci-io"), None),
    row("mmio-write-ioeventfd", "MMIO write to an ioeventfd", Some("mmio-wildcard-eventfd:pci-mem"), None),
    row("ioeventfd-to-thread", "port write to the thread that waits for the ioeventfd", None, Some("I/O Latency Out")),
    row("inject-ioctl-spinning", "KVM_SIGNAL_MSI to the handler, guest spinning", None, None),
    row("inject-ioctl-halted", "KVM_SIGNAL_MSI to the handler, guest halted", None, None),
    row("inject-irqfd-spinning", "irqfd to the handler, guest spinning", None, Some("I/O Latency In")),
    row("inject-irqfd-halted", "irqfd to the handler, guest halted", None, None),
    row("self-ipi", "x2APIC self-IPI to the handler", Some("x2apic_self_ipi_sti_nop"), None),
    row("eoi", "end of interrupt", None, Some("Virtual IRQ Completion")),
    row("ipi-spinning", "IPI to the handler on another virtual CPU, spinning", Some("ipi"), Some("Virtual IPI")),
    row("ipi-halted", "IPI to the handler on another virtual CPU, halted", Some("ipi_halt"), None),
    row("timer-spinning", "TSC deadline to the handler, guest spinning", None, None),
    row("timer-halted", "TSC deadline to the handler, guest halted", None, None),
    row("wake-up-polling", "irqfd to the handler, guest halted, the kernel polls", None, None),
    row("wake-up-sleeping", "irqfd to the handler, guest halted, the kernel does not poll", None, None),
    row("page-fault-4k", "store to a fresh page of 4 KiB", None, None),
    row("page-fault-2m", "store to a fresh page of 2 MiB", None, None),
    row("dirty-log-fault", "first store to a page of 4 KiB since the dirty log was read", None, None),
    row("vm-switch", "exit to user space to that of another virtual machine, whose thread has the same CPU", None, Some("VM Switch")),
];
