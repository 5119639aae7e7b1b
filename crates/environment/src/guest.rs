//! Prepares the agent's surroundings when the agent is `/init` of a guest.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use linux::interface::Interface;
use measure::Failure;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, init_module, reboot};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// The word on the kernel's command line that marks a guest that this project started. The kernel passes the word to
/// `/init` as an environment variable.
pub const MARK: &str = "tautline_guest";

/// The folder of the guest's file system with the modules that it loads.
pub const MODULES: &str = "modules";

/// The word with the address of the guest's network interface, such as `198.18.0.1/24`.
pub const ADDRESS: &str = "tautline_address";

/// How long the interface may take until it passes frames: an emulated card agrees with its peer first.
const CARRIER_LIMIT: Duration = Duration::from_secs(20);

/// The folder in which the kernel shows interfaces.
const NETWORK: &str = "/sys/class/net";

/// Whether this process is `/init` of a guest that this project started.
pub fn is_init() -> bool {
    std::process::id() == 1 && std::env::var_os(MARK).is_some()
}

/// Mounts `/proc`, `/sys` and `/dev`, loads the guest's modules, sets up its network interface, and opens the serial
/// line to the host. `/tmp` stays a folder of the initramfs, which is writable memory: a mount would hide the files
/// that a workload brought there.
///
/// # Errors
/// The kernel has no proc, sysfs or devtmpfs, refuses a module, or has no driver for the serial port. Or the address
/// on the kernel's command line is invalid, the guest has no network card, or the card passes no frames after 20 s.
pub fn enter() -> Result<File, Failure> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, target, kind, MountFlags::NOSUID, None).map_err(|error| {
            Failure::new(format!("mounting {kind} on {target}"), error, "use a kernel that has it built in")
        })?;
    }
    // Only traces need it.
    let _ = mount("tracefs", "/sys/kernel/tracing", "tracefs", MountFlags::NOSUID, None);
    load_modules()?;
    if let Some(address) = std::env::var_os(ADDRESS) {
        take_up(&address.to_string_lossy())?;
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

/// Loads the modules in [`MODULES`], in the order of their names.
fn load_modules() -> Result<(), Failure> {
    let mut files: Vec<_> = Path::new("/")
        .join(MODULES)
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    for file in &files {
        let load = || -> io::Result<()> { Ok(init_module(&fs::read(file)?, c"")?) };
        load().map_err(|error| {
            let remedy = "bring the modules of this very kernel";
            Failure::new(format!("loading the guest's module {}", file.display()), error, remedy)
        })?;
    }
    // QEMU's IOMMU does not map interrupts under every accelerator. A guest of ours holds no other tenant's device.
    let unsafe_interrupts = "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts";
    match fs::write(unsafe_interrupts, "Y") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::new(
            format!("writing {unsafe_interrupts}"),
            error,
            "take a kernel whose vfio_iommu_type1 has this parameter",
        )),
        _ => Ok(()),
    }
}

/// Gives the guest's one interface its address, and waits until it passes frames.
fn take_up(address: &str) -> Result<(), Failure> {
    let failed = |answer: String| {
        let remedy = "use a kernel image whose modules have a driver for this card";
        Failure::new(format!("taking up the guest's network interface with {address}"), answer, remedy)
    };
    let parsed = address.split_once('/').and_then(|(ip, bits)| Some((ip.parse().ok()?, bits.parse().ok()?)));
    let (ip, bits) = parsed.ok_or_else(|| failed("it is no address".into()))?;
    for name in ["lo".to_owned(), of_card().ok_or_else(|| failed("there is none".into()))?] {
        let interface = Interface::named(&name).map_err(|error| failed(error.to_string()))?;
        if name != "lo" {
            interface.set_address(ip, bits).map_err(|error| failed(error.to_string()))?;
        }
        interface.set_up().map_err(|error| failed(error.to_string()))?;
        let start = Instant::now();
        let read =
            |what: &str| fs::read_to_string(Path::new(NETWORK).join(&name).join(what)).unwrap_or_default();
        let mut link = Link::default();
        while !link.passes(read("carrier").trim(), read("operstate").trim()) {
            if start.elapsed() > CARRIER_LIMIT {
                let (carrier, state) = (read("carrier"), read("operstate"));
                return Err(failed(format!(
                    "{name} passes no frames after {CARRIER_LIMIT:?}: carrier {}, state {}",
                    carrier.trim(),
                    state.trim()
                )));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// Whether an interface that was taken up passes frames, as its files in sysfs tell.
///
/// A carrier that comes later is not enough. The kernel's link watch runs up to a second after the carrier. Until then
/// the interface drops all outgoing frames, and the neighbour's address is requested again only after another second.
/// The link watch sets the state to `up`. A device without a link has its carrier at once, and keeps `unknown`.
#[derive(Default)]
struct Link {
    was_down: bool,
}

impl Link {
    fn passes(&mut self, carrier: &str, state: &str) -> bool {
        self.was_down |= carrier != "1";
        carrier == "1" && (state == "up" || state == "unknown" && !self.was_down)
    }
}

/// The name of an interface that belongs to a device.
fn of_card() -> Option<String> {
    let found = fs::read_dir(NETWORK).ok()?.flatten().find(|entry| entry.path().join("device").exists())?;
    found.file_name().into_string().ok()
}

/// Ends the guest. Returns only if the kernel refuses.
pub fn leave() -> io::Error {
    match reboot(RebootCommand::Restart) {
        Err(error) => error.into(),
        Ok(()) => io::Error::other("the kernel did not end the guest"),
    }
}

#[cfg(test)]
mod tests {
    use super::Link;

    #[test]
    fn a_carrier_that_comes_later_counts_once_the_link_watch_has_run() {
        let seen = |steps: &[(&str, &str)]| {
            let mut link = Link::default();
            steps.iter().map(|(carrier, state)| link.passes(carrier, state)).collect::<Vec<_>>()
        };
        // An e1000: before the link watch has run for the first time its state is unknown.
        assert_eq!(
            seen(&[("0", "unknown"), ("0", "down"), ("1", "down"), ("1", "up")]),
            [false, false, false, true]
        );
        assert_eq!(seen(&[("0", "unknown"), ("1", "unknown"), ("1", "up")]), [false, false, true]);
        // Loopback, and a card without a link.
        assert_eq!(seen(&[("1", "unknown")]), [true]);
        // Reading the carrier of an interface that is down fails.
        assert_eq!(seen(&[("", "down"), ("1", "up")]), [false, true]);
    }
}
