//! Errors of ioctls, and the end of the exit that ends a guest's program.

use kvm_ioctls::VcpuFd;
use measure::Failure;

/// The remedy for a failed ioctl that every working KVM supports.
pub const SEE_LOG: &str = "see the kernel's log (`dmesg`)";

/// Makes an error that names the failed call, for `map_err`.
pub(crate) fn failed(tried: &'static str) -> impl Fn(kvm_ioctls::Error) -> Failure {
    move |error| Failure::new(tried, error, SEE_LOG)
}

/// Lets the kernel finish the port write or the store of the last exit: the registers are only then those after it
/// (Documentation/virt/kvm/api.rst, KVM_EXIT_IO).
pub(crate) fn complete(vcpu: &mut VcpuFd) -> Result<(), Failure> {
    vcpu.set_kvm_immediate_exit(1);
    let result = vcpu.run().map(|exit| format!("{exit:?}"));
    vcpu.set_kvm_immediate_exit(0);
    match result {
        Err(error) if error.errno() == libc::EINTR => Ok(()),
        answer => Err(Failure::new("finishing an exit with KVM_RUN", format!("{answer:?}"), SEE_LOG)),
    }
}
