use std::fs::OpenOptions;
use std::path::Path;

use ::vm::Accelerator;
use measure::Failure;

/// The name of this machine's KVM, found from the loaded kernel modules.
pub fn kvm_name() -> String {
    let module = |name: &str| Path::new("/sys/module").join(name).exists();
    let name = match () {
        () if module("kvm_intel") => "kvm-vmx",
        () if module("kvm_amd") => "kvm-svm",
        () if module("kvm_pvm") => "kvm-pvm",
        () if cfg!(target_arch = "aarch64") => "kvm-arm",
        () => "kvm",
    };
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let nested = flags.lines().any(|l| l.starts_with("flags") && l.split(' ').any(|f| f == "hypervisor"));
    if nested { format!("{name} (nested)") } else { name.to_owned() }
}

/// Whether a guest with this accelerator runs on an emulated CPU: a CPU that QEMU emulates, or KVM on an emulated
/// CPU.
pub fn is_emulated(accelerator: Accelerator) -> bool {
    accelerator == Accelerator::Tcg || kvm::is_emulated()
}

/// Checks that `/dev/kvm` exists and may be used. A guest may still fail to run.
///
/// # Errors
/// `/dev/kvm` is missing, or this user may not open it for reading and writing.
pub fn open_kvm() -> Result<(), Failure> {
    OpenOptions::new().read(true).write(true).open("/dev/kvm").map(drop).map_err(|error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "enable virtualization in the firmware or the outer hypervisor",
            _ => "join the group that owns /dev/kvm",
        };
        Failure::new("opening /dev/kvm", format!("/dev/kvm: {error}"), remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_emulated_by_qemu_or_with_its_host() {
        assert!(is_emulated(Accelerator::Tcg));
        assert_eq!(is_emulated(Accelerator::Kvm), kvm::is_emulated());
    }
}
