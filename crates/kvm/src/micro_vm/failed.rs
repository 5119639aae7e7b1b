//! Ioctls that fail.

use measure::Failure;

/// What to do where an ioctl fails that a working KVM has.
pub const SEE_LOG: &str = "see the kernel's log (`dmesg`)";

/// Names the failed call, for `map_err`.
pub(super) fn failed(tried: &'static str) -> impl Fn(kvm_ioctls::Error) -> Failure {
    move |error| Failure::new(tried, error, SEE_LOG)
}
