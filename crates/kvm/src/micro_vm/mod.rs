//! A virtual machine for measuring: two CPUs in 64-bit mode, the kernel's interrupt controllers, no devices and no
//! operating system. The guest runs one [`Program`] at a time on each CPU.

pub mod layout;
mod program;
mod stop;
pub mod tsc;
mod tsc_offset;
mod vcpu;

use std::sync::Arc;

use kvm_bindings::{
    CpuId, KVM_CAP_HALT_POLL, KVM_IRQ_ROUTING_MSI, KVM_MAX_CPUID_ENTRIES, KvmIrqRouting, kvm_enable_cap,
    kvm_irq_routing_entry, kvm_msi,
};
use kvm_ioctls::{Cap, IoEventAddress, Kvm, NoDatamatch, VmFd};
use measure::Failure;
use vmm_sys_util::eventfd::EventFd;

use crate::doorbell::Doorbell;
pub use crate::failed::SEE_LOG;
use crate::failed::failed;
pub use crate::memory::{Attached, HUGE, Memory, Pages};
pub use program::Program;
pub use stop::Stop;
pub use vcpu::{Arguments, Vcpu};

/// The interrupt number behind the irqfd: the first that is no pin of an I/O APIC.
const GSI: u32 = 24;

/// The machine without its CPUs.
pub struct MicroVm {
    vm: Arc<VmFd>,
    /// The memory of tables, programs and samples, which each CPU keeps mapped too.
    pub memory: Arc<Attached>,
    /// The eventfd that sends the interrupt [`layout::VECTOR`] to the first CPU.
    irqfd: EventFd,
    /// The ioeventfd for writes to [`layout::PORT_EVENT`] and [`layout::MMIO_EVENT`].
    pub ioeventfd: Doorbell,
    /// Whether the guest's timer supports TSC deadlines.
    pub has_tsc_deadline: bool,
}

impl MicroVm {
    /// Makes the machine with its two CPUs. KVM polls a halted CPU for at most `halt_poll_ns`; `None` leaves the
    /// system's setting. `stop` can end the guest's programs.
    ///
    /// # Errors
    /// `/dev/kvm` cannot be opened, KVM refuses an ioctl or lacks a required capability, there is no memory or
    /// eventfd, or a CPU does not end its first program.
    pub fn new(halt_poll_ns: Option<u64>, stop: Arc<Stop>) -> Result<(Self, [Vcpu; 2]), Failure> {
        let kvm = Kvm::new().map_err(|error| {
            let remedy = "enable virtualization in the firmware or the outer hypervisor, load kvm_intel or kvm_amd, \
                          and join the group that owns /dev/kvm";
            Failure::new("opening /dev/kvm", error, remedy)
        })?;
        let vm = Arc::new(kvm.create_vm().map_err(failed("KVM_CREATE_VM"))?);
        // Below the firmware, as Intel CPUs without unrestricted guests need it.
        vm.set_tss_address(0xFFFB_D000).map_err(failed("KVM_SET_TSS_ADDR"))?;
        vm.create_irq_chip().map_err(failed("KVM_CREATE_IRQCHIP"))?;
        if let Some(ns) = halt_poll_ns {
            let mut capability = kvm_enable_cap { cap: KVM_CAP_HALT_POLL, ..Default::default() };
            capability.args[0] = ns;
            vm.enable_cap(&capability).map_err(failed("KVM_ENABLE_CAP with KVM_CAP_HALT_POLL"))?;
        }
        let memory = Arc::new(Memory::new(0, layout::MEMORY, Pages::Small)?.attach(&vm, 0, 0)?);
        memory.write(layout::CODE, program::code());
        for (address, bytes) in
            layout::tables(program::entry(Program::Fault), program::entry(Program::Interrupt))
        {
            memory.write(address, &bytes);
        }

        let event =
            || EventFd::new(0).map_err(|error| Failure::new("making an eventfd", error, "close open files"));
        let (irqfd, ioeventfd) = (event()?, Doorbell::new(event()?));
        vm.set_gsi_routing(&routing()).map_err(failed("KVM_SET_GSI_ROUTING"))?;
        vm.register_irqfd(&irqfd, GSI).map_err(failed("KVM_IRQFD"))?;
        for address in
            [IoEventAddress::Pio(layout::PORT_EVENT.into()), IoEventAddress::Mmio(layout::MMIO_EVENT)]
        {
            vm.register_ioevent(ioeventfd.event(), &address, NoDatamatch).map_err(failed("KVM_IOEVENTFD"))?;
        }

        let has_tsc_deadline = kvm.check_extension(Cap::TscDeadlineTimer);
        let cpuid =
            kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(failed("KVM_GET_SUPPORTED_CPUID"))?;
        let vcpu = |number: usize| {
            let cpuid = cpuid_of(&cpuid, number, has_tsc_deadline);
            Vcpu::new(&vm, memory.clone(), number, &cpuid, stop.clone())
        };
        let vcpus = [vcpu(0)?, vcpu(1)?];
        Ok((Self { vm, memory, irqfd, ioeventfd, has_tsc_deadline }, vcpus))
    }

    /// Sends the interrupt to the first CPU by ioctl (KVM_SIGNAL_MSI).
    ///
    /// # Errors
    /// KVM refuses KVM_SIGNAL_MSI.
    pub fn signal_msi(&self) -> Result<(), Failure> {
        let (address_lo, data) = msi();
        let msi = kvm_msi { address_lo, data, ..Default::default() };
        self.vm.signal_msi(msi).map(drop).map_err(failed("KVM_SIGNAL_MSI"))
    }

    /// Sends the interrupt to the first CPU by irqfd.
    ///
    /// # Errors
    /// The eventfd cannot be written.
    pub fn signal_irqfd(&self) -> Result<(), Failure> {
        self.irqfd.write(1).map_err(|error| Failure::new("writing to an irqfd", error, SEE_LOG))
    }

    /// Adds memory in slot 1. Dropping the result removes it from the machine.
    ///
    /// # Errors
    /// KVM refuses the memory slot: its range overlaps another one, or a flag is unknown.
    pub fn attach(&self, memory: Memory, flags: u32) -> Result<Attached, Failure> {
        memory.attach(&self.vm, 1, flags)
    }

    /// The pages of that memory that were written since the last call, one bit for each. KVM write-protects these
    /// pages again.
    ///
    /// # Errors
    /// KVM refuses KVM_GET_DIRTY_LOG: the memory was attached without KVM_MEM_LOG_DIRTY_PAGES.
    pub fn dirty_log(&self, memory: &Attached) -> Result<Vec<u64>, Failure> {
        self.vm.get_dirty_log(1, memory.size()).map_err(failed("KVM_GET_DIRTY_LOG"))
    }
}

/// Address and data of a message that interrupts the CPU whose APIC has the number 0 (Intel SDM volume 3, 11.11).
fn msi() -> (u32, u32) {
    (0xFEE0_0000, layout::VECTOR.into())
}

fn routing() -> KvmIrqRouting {
    let (address_lo, data) = msi();
    let mut entry = kvm_irq_routing_entry { gsi: GSI, type_: KVM_IRQ_ROUTING_MSI, ..Default::default() };
    entry.u.msi.address_lo = address_lo;
    entry.u.msi.data = data;
    KvmIrqRouting::from_entries(&[entry]).expect("one entry is not too many")
}

/// The CPUID values that the host's CPU and KVM support, with an x2APIC of this number.
fn cpuid_of(supported: &CpuId, number: usize, has_tsc_deadline: bool) -> CpuId {
    const X2APIC: u32 = 1 << 21;
    const TSC_DEADLINE: u32 = 1 << 24;
    let mut cpuid = supported.clone();
    for entry in cpuid.as_mut_slice() {
        match entry.function {
            1 => {
                entry.ebx = entry.ebx & 0x00FF_FFFF | (number as u32) << 24;
                entry.ecx |= X2APIC | if has_tsc_deadline { TSC_DEADLINE } else { 0 };
            }
            0xB | 0x1F => entry.edx = number as u32,
            _ => {}
        }
    }
    cpuid
}
