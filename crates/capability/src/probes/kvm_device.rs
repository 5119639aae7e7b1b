use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;

use measure::Failure;

use crate::files::text;
use crate::finding::Finding;
use crate::sys;

/// Fixed since Linux 2.6.22: Documentation/virt/kvm/api.rst, 4.1.
const API_VERSION: i32 = 12;
const PATH: &str = "/dev/kvm";

/// Opens `/dev/kvm`, checks its API version, and makes a VM with one vCPU.
///
/// # Errors
/// `/dev/kvm` is missing or may not be opened, its API version is not 12, or KVM_CREATE_VM or KVM_CREATE_VCPU is
/// refused.
pub fn run() -> Result<Finding, Failure> {
    let kvm = OpenOptions::new().read(true).write(true).open(PATH).map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied => "add the user to the group `kvm`, or run as root",
            _ => {
                "load kvm_intel or kvm_amd; switch virtualization on in the firmware, or nested \
                 virtualization on in the host of this VM"
            }
        };
        Failure::new(format!("opening {PATH}"), error, remedy)
    })?;
    let module = module();
    let opened = format!("{PATH} opens ({module})");
    let fail = |tried: &str, error: String| {
        Failure::new(format!("{opened}; {tried}"), error, "see dmesg for what the module says")
    };
    let version =
        sys::kvm_api_version(&kvm).map_err(|error| fail("KVM_GET_API_VERSION", error.to_string()))?;
    if version != API_VERSION {
        return Err(fail("KVM_GET_API_VERSION", format!("version {version}, not {API_VERSION}")));
    }
    let vm = sys::kvm_create_vm(&kvm).map_err(|error| fail("KVM_CREATE_VM", error.to_string()))?;
    sys::kvm_create_vcpu(&vm).map_err(|error| fail("KVM_CREATE_VCPU", error.to_string()))?;
    let detail = format!("{opened}, API version {version}; made a VM and a vCPU");
    Ok(if is_loaded("kvm_pvm") {
        Finding::partial(
            format!("{detail}; kvm_pvm runs without VMX or SVM, and only guest kernels made for it"),
            "for stock guests: a machine with VMX or SVM, bare or by nested virtualization",
        )
    } else {
        Finding::proven(detail)
    })
}

fn is_loaded(module: &str) -> bool {
    Path::new("/sys/module").join(module).exists()
}

/// The module behind the device, as far as it is known.
fn module() -> String {
    let known = [("kvm_intel", "VMX"), ("kvm_amd", "SVM"), ("kvm_pvm", "pagetable-based, in software")];
    let loaded: Vec<String> = known
        .iter()
        .filter(|(module, _)| is_loaded(module))
        .map(|(module, what)| format!("{module}: {what}"))
        .collect();
    match loaded.as_slice() {
        [] if cfg!(target_arch = "aarch64") => "Arm, built in".into(),
        [] => format!("no known module behind it; kernel {}", text("/proc/sys/kernel/osrelease")),
        loaded => loaded.join(", "),
    }
}
