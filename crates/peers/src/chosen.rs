//! Which build of a peer tests work with: the one that a variable names, as `make test-matrix` does, or the installed
//! one.

use std::path::PathBuf;

use crate::requirements::Requirements;

/// QEMU's emulator of x86-64, a file.
pub const QEMU: &str = "TAUTLINE_QEMU";
/// The kernel of a guest, an image named `vmlinuz-VERSION`, its modules in `modules/VERSION` beside it.
pub const KERNEL: &str = "TAUTLINE_KERNEL";
/// DPDK's testpmd, a file.
pub const TESTPMD: &str = "TAUTLINE_TESTPMD";
/// Open vSwitch with DPDK, a folder in which its packages were unpacked.
pub const OPENVSWITCH: &str = "TAUTLINE_OPENVSWITCH";

/// What a variable names, if it is set.
pub fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The emulator.
pub fn qemu(needs: &mut Requirements) -> PathBuf {
    file(QEMU, needs).unwrap_or_else(|| needs.program("qemu-system-x86_64", "qemu-system-x86"))
}

/// The QEMU of a later release: that of Debian 13, as set-up has unpacked it.
pub fn newer_qemu(needs: &mut Requirements) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    let program = cache.unwrap_or_else(home).join("tautline/qemu-10/qemu-system-x86_64");
    needs.path(&program, "QEMU 10: scripts/setup.sh test unpacks it");
    program
}

/// The kernel of a guest: the distribution's otherwise.
pub fn kernel(needs: &mut Requirements) -> PathBuf {
    file(KERNEL, needs).unwrap_or_else(|| {
        environment::vm::find_kernel().unwrap_or_else(|failure| {
            needs.missing(format!("a kernel image ({failure})"));
            PathBuf::new()
        })
    })
}

/// A file that a variable names.
pub(crate) fn file(variable: &str, needs: &mut Requirements) -> Option<PathBuf> {
    let path = named(variable)?;
    if !path.is_file() {
        needs.missing(format!("{} (name an existing file in {variable}, or unset it)", path.display()));
    }
    Some(path)
}
