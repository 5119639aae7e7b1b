//! The virtual counter, which guest and host can share.

use std::arch::asm;

use kvm_bindings::{KVMIO, kvm_arm_counter_offset};
use kvm_ioctls::VmFd;
use measure::Failure;
use vmm_sys_util::errno;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

ioctl_iow_nr!(KVM_ARM_SET_COUNTER_OFFSET, KVMIO, 0xb5, kvm_arm_counter_offset);

/// Sets the offset of the guest's counter from the host's to zero.
///
/// # Errors
/// The kernel lacks KVM_ARM_SET_COUNTER_OFFSET (before Linux 6.4).
pub fn share(vm: &VmFd) -> Result<(), Failure> {
    let offset = kvm_arm_counter_offset::default();
    // SAFETY: a descriptor of a virtual machine; the kernel reads the structure, which lives until the call is over.
    match unsafe { ioctl_with_ref(vm, KVM_ARM_SET_COUNTER_OFFSET(), &offset) } {
        0 => Ok(()),
        _ => {
            let answer = errno::Error::last();
            Err(Failure::new("KVM_ARM_SET_COUNTER_OFFSET", answer, "use Linux 6.4 or later on the host"))
        }
    }
}

/// The counter's frequency, in kHz (Arm ARM, CNTFRQ_EL0).
pub fn khz() -> u32 {
    let hertz: u64;
    // SAFETY: reads a register that Linux lets user space read; changes nothing.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack)) };
    u32::try_from(hertz / 1000).unwrap_or(u32::MAX)
}

/// Reads the counter after all earlier instructions have completed, in ticks (Arm ARM, CNTVCT_EL0).
pub fn stamp() -> u64 {
    let now: u64;
    // SAFETY: reads a register that Linux lets user space read; changes nothing.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) now, options(nostack)) };
    now
}

/// Tells the CPU that a loop waits. An emulator that runs its CPUs in turns then runs the next.
pub fn give_way() {
    // SAFETY: a hint without effect on registers and memory.
    unsafe { asm!("yield", options(nomem, nostack)) };
}
