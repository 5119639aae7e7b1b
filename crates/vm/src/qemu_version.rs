//! The differences between versions of QEMU.
use std::path::Path;
use std::process::Command;

/// Major and minor version of a QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QemuVersion(u32, u32);

impl QemuVersion {
    /// Stands for a QEMU whose version is not known: it is treated as the newest.
    pub const NEWEST: Self = QemuVersion(u32::MAX, u32::MAX);

    /// Runs the program and reads its version.
    pub fn of(qemu: &Path) -> Self {
        let output = Command::new(qemu).arg("--version").output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        text.ok().and_then(|text| Self::read(&text)).unwrap_or(Self::NEWEST)
    }

    /// Out of what `--version` prints.
    fn read(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("version ")?;
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some(QemuVersion(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }

    /// The value of `-cpu` for a guest whose CPU this QEMU emulates (TCG): all features that QEMU emulates, without
    /// those that make an emulated CPU slower. ERMS and FSRM have the kernel copy by the byte, which is one iteration
    /// of the emulator each; LA57 adds a level to each walk of page tables. A guest's boot with 60 MB to unpack took
    /// 2.3 s of CPU time instead of 2.8 s (QEMU 7.2).
    ///
    /// Before QEMU 8.0, CMPXCHG16B is left out too, because those versions emulate it in another way. With CMPXCHG16B,
    /// QEMU 7.2 corrupted the memory of Linux 6.12 in 2 of 8 boots; without it, and with QEMU 10.0, all boots were
    /// clean.
    pub fn emulated_cpu(self) -> &'static str {
        match (cfg!(target_arch = "x86_64"), self < QemuVersion(8, 0)) {
            (false, _) => "max",
            (true, false) => "max,-erms,-fsrm,-la57",
            (true, true) => "max,-erms,-fsrm,-la57,-cx16",
        }
    }

    /// The option with which a socket `-chardev` connects again each second. QEMU 9.2 has deprecated `reconnect`, and
    /// 11.1 refuses it.
    pub fn reconnect(self) -> &'static str {
        if self < QemuVersion(9, 2) { "reconnect=1" } else { "reconnect-ms=1000" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_versions_take() {
        let (old_cpu, cpu) = match cfg!(target_arch = "x86_64") {
            true => ("max,-erms,-fsrm,-la57,-cx16", "max,-erms,-fsrm,-la57"),
            false => ("max", "max"),
        };
        for (text, cpu, reconnect) in [
            ("QEMU emulator version 6.2.0", old_cpu, "reconnect=1"),
            (
                "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright (c) 2003-2022",
                old_cpu,
                "reconnect=1",
            ),
            ("QEMU emulator version 8.0.0", cpu, "reconnect=1"),
            ("QEMU emulator version 9.1.2", cpu, "reconnect=1"),
            ("QEMU emulator version 9.2.0", cpu, "reconnect-ms=1000"),
            ("QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", cpu, "reconnect-ms=1000"),
            ("QEMU emulator version 11.1.0", cpu, "reconnect-ms=1000"),
        ] {
            let version = QemuVersion::read(text).unwrap();
            assert_eq!((version.emulated_cpu(), version.reconnect()), (cpu, reconnect), "{text}");
        }
        for unknown in ["", "version", "version ", "version x.y", "version 9", "version 99999999999.1"] {
            assert_eq!(QemuVersion::read(unknown), None, "{unknown}");
        }
        assert_eq!(QemuVersion::NEWEST.reconnect(), "reconnect-ms=1000");
        assert_eq!(QemuVersion::of(Path::new("/no/such/qemu")), QemuVersion::NEWEST);
    }
}
