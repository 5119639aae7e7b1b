//! Makes the guest's TSC equal to the host's.

use kvm_bindings::{KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, KVMIO, kvm_device_attr};
use kvm_ioctls::VcpuFd;
use vmm_sys_util::errno;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

ioctl_iow_nr!(KVM_SET_DEVICE_ATTR, KVMIO, 0xe1, kvm_device_attr);

/// Sets the offset of the guest's TSC from the host's to zero.
///
/// # Errors
/// The kernel lacks the attribute KVM_VCPU_TSC_OFFSET (before Linux 5.16).
pub fn remove(vcpu: &VcpuFd) -> Result<(), errno::Error> {
    let offset: u64 = 0;
    let attribute = kvm_device_attr {
        group: KVM_VCPU_TSC_CTRL,
        attr: KVM_VCPU_TSC_OFFSET.into(),
        addr: &raw const offset as u64,
        flags: 0,
    };
    // SAFETY: a descriptor of a virtual CPU; the kernel reads the attribute, and eight bytes at its address, which
    // live until the call is over.
    match unsafe { ioctl_with_ref(vcpu, KVM_SET_DEVICE_ATTR(), &attribute) } {
        0 => Ok(()),
        _ => Err(errno::Error::last()),
    }
}
