//! The agent's surroundings when it is `/init` of a guest.

use std::fs::{File, OpenOptions};
use std::io;

use measure::Failure;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

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
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, target, kind, MountFlags::NOSUID, None).map_err(|error| {
            Failure::new(format!("mounting {kind} on {target}"), error, "use a kernel that has it built in")
        })?;
    }
    // A descriptor beyond 2 serves select and shell-like programs alike; the console stays 0, 1 and 2.
    let path = if cfg!(target_arch = "aarch64") { "/dev/ttyAMA1" } else { "/dev/ttyS1" };
    let open = || -> io::Result<File> {
        let line = OpenOptions::new().read(true).write(true).open(path)?;
        let mut settings = tcgetattr(&line)?;
        settings.make_raw();
        tcsetattr(&line, OptionalActions::Now, &settings)?;
        Ok(line)
    };
    open().map_err(|error| {
        Failure::new(format!("opening {path}"), error, "use a kernel whose 8250 or PL011 driver is built in")
    })
}

/// Ends the guest. Returns only where the kernel refuses.
pub fn leave() -> io::Error {
    match reboot(RebootCommand::Restart) {
        Err(error) => error.into(),
        Ok(()) => io::Error::other("the kernel did not end the guest"),
    }
}
