//! Chooses the build of a peer that tests use: the build that a variable names, for example in `make test-matrix`, or
//! the installed one.

use std::path::PathBuf;

use crate::guest::cached::ARM64;
use crate::requirements::Requirements;

/// The variable with the path of QEMU's emulator for x86-64.
pub const QEMU: &str = "TAUTLINE_QEMU";
/// The variable with the path of a guest's kernel image, which is named `vmlinuz-VERSION` and has its modules in
/// `modules/VERSION` beside it.
pub const KERNEL: &str = "TAUTLINE_KERNEL";
/// The variable with the path of DPDK's testpmd.
pub const TESTPMD: &str = "TAUTLINE_TESTPMD";
/// The variable with the folder in which the packages of Open vSwitch with DPDK were unpacked.
pub const OPENVSWITCH: &str = "TAUTLINE_OPENVSWITCH";
/// The variable with the folder in which the packages of OVN were unpacked.
pub const OVN: &str = "TAUTLINE_OVN";

/// The path in a variable, if the variable is set.
pub fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The emulator of a machine with this number of CPUs: the one that [`QEMU`] names; or else the installed one for one
/// CPU, and the newer one for several CPUs, which are threads that run at the same time. Before QEMU 8.1, such a thread
/// can translate code from bytes that another thread is writing, and then execute the stale translation (QEMU's commit
/// deba78709ae8, "accel/tcg: Always lock pages before translation"). Linux writes its own code at every change of a
/// static key; its kernel then stops or panics at `int3`.
pub fn qemu(cpus: u16, needs: &mut Requirements) -> PathBuf {
    file(QEMU, needs).unwrap_or_else(|| match cpus {
        1 => installed_qemu(needs),
        _ => newer_qemu(needs),
    })
}

/// The emulator that the distribution's package has installed.
pub fn installed_qemu(needs: &mut Requirements) -> PathBuf {
    needs.program("qemu-system-x86_64", "qemu-system-x86")
}

/// The QEMU of a later release: the QEMU of Debian 13, as set-up has unpacked it.
pub fn newer_qemu(needs: &mut Requirements) -> PathBuf {
    unpacked("qemu-10/qemu-system-x86_64", needs)
}

/// QEMU's emulator for arm64, of the same release as [`newer_qemu`].
pub fn arm_qemu(needs: &mut Requirements) -> PathBuf {
    unpacked("qemu-10-arm/qemu-system-aarch64", needs)
}

/// A program of QEMU in the cache.
fn unpacked(program: &str, needs: &mut Requirements) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    let program = cache.unwrap_or_else(home).join("tautline").join(program);
    needs.path(&program, "QEMU 10: scripts/setup.sh test unpacks it");
    program
}

/// The kernel of the arm64 machine.
pub fn arm_kernel(needs: &mut Requirements) -> PathBuf {
    ARM64.find(needs)
}

/// The kernel of a guest: the chosen one, or else the distribution's.
pub fn kernel(needs: &mut Requirements) -> PathBuf {
    file(KERNEL, needs).unwrap_or_else(|| {
        environment::vm::find_kernel().unwrap_or_else(|failure| {
            needs.missing(format!("a kernel image ({failure})"));
            PathBuf::new()
        })
    })
}

/// The file that a variable names.
pub(crate) fn file(variable: &str, needs: &mut Requirements) -> Option<PathBuf> {
    let path = named(variable)?;
    if !path.is_file() {
        needs.missing(format!("{} (name an existing file in {variable}, or unset it)", path.display()));
    }
    Some(path)
}
