//! Errors of ioctls.

use measure::Failure;

/// The remedy for a failed ioctl that every working KVM supports.
pub const SEE_LOG: &str = "see the kernel's log (`dmesg`)";

/// Makes an error that names the failed call, for `map_err`.
pub(crate) fn failed(tried: &'static str) -> impl Fn(kvm_ioctls::Error) -> Failure {
    move |error| Failure::new(tried, error, SEE_LOG)
}
