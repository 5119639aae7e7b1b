use std::fmt;
use std::path::Path;
use std::process::Command;

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The CPU, through KVM.
    Kvm,
    /// QEMU's emulation.
    Tcg,
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        })
    }
}

/// The value of `-cpu` for a guest whose CPU this QEMU emulates (TCG): all that it emulates, without CMPXCHG16B before
/// QEMU 8.0, which does that instruction in another way. With it, 7.2 corrupted the memory of Linux 6.12 in 2 of 8
/// boots; without it, and with 10.0, all boots were clean.
pub fn emulated_cpu(qemu: &Path) -> &'static str {
    let output = Command::new(qemu).arg("--version").output();
    emulated_by(
        &output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default(),
    )
}

/// The same by what QEMU says of its version.
fn emulated_by(version: &str) -> &'static str {
    let major = version.split("version ").nth(1).and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    match major {
        Some(..8) if cfg!(target_arch = "x86_64") => "max,-cx16",
        _ => "max",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn no_old_qemu_emulates_cmpxchg16b() {
        for (version, cpu) in [
            (
                "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright (c) 2003-2022",
                "max,-cx16",
            ),
            ("QEMU emulator version 6.2.0", "max,-cx16"),
            ("QEMU emulator version 8.0.0", "max"),
            ("QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", "max"),
            ("", "max"),
        ] {
            assert_eq!(super::emulated_by(version), cpu, "{version}");
        }
    }
}
