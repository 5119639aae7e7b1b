//! The agent's surroundings when it is `/init` of a guest.

use std::fs::{File, OpenOptions};
use std::io;

use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

use measure::Failure;

/// The word on the kernel's command line that tells a guest of ours. The kernel hands it to `/init` as an
/// environment variable.
pub const MARK: &str = "tautline_guest";

/// Whether this process is `/init` of a guest that this project started.
pub fn is_init() -> bool {
    std::process::id() == 1 && std::env::var_os(MARK).is_some()
}

/// Mounts what programs expect, and opens the line to the host. `/tmp` stays a folder of the initramfs, which
/// is in memory and writable as it is: a mount would hide files that a workload brought there.
pub fn enter() -> Result<File, Failure> {
    for (kind, target, flags) in [
        ("proc", "/proc", MsFlags::MS_NOSUID),
        ("sysfs", "/sys", MsFlags::MS_NOSUID),
        ("devtmpfs", "/dev", MsFlags::MS_NOSUID),
    ] {
        mount(Some(kind), target, Some(kind), flags, None::<&str>).map_err(|error| {
            Failure::new(format!("mounting {kind} on {target}"), error, "use a kernel that has it built in")
        })?;
    }
    // A descriptor beyond 2 serves select and shell-like programs alike; the console stays 0, 1 and 2.
    let path = if cfg!(target_arch = "aarch64") { "/dev/ttyAMA1" } else { "/dev/ttyS1" };
    let open = || -> io::Result<File> {
        let line = OpenOptions::new().read(true).write(true).open(path)?;
        let mut settings = tcgetattr(&line)?;
        cfmakeraw(&mut settings);
        tcsetattr(&line, SetArg::TCSANOW, &settings)?;
        Ok(line)
    };
    open().map_err(|error| {
        Failure::new(format!("opening {path}"), error, "use a kernel whose 8250 or PL011 driver is built in")
    })
}

/// Ends the guest. Returns only where the kernel refuses.
pub fn leave() -> nix::Error {
    match reboot(RebootMode::RB_AUTOBOOT) {
        Err(error) => error,
        Ok(never) => match never {},
    }
}
