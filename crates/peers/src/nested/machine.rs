//! The nested machine: its settings, and its start.

use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::launch::Launch;
use super::saved::Saved;
use super::{image, kernel};
use crate::guest::Guest;
use crate::requirements::Requirements;
use crate::{Error, chosen};

/// The folder of the programs that [`Settings::program`] has copied; it is the first in the `PATH` of commands.
pub const PROGRAMS: &str = crate::guest::userland::PROGRAMS;

/// The source of the machine's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The host's clock: one thread for each CPU, as fast as possible.
    #[default]
    Host,
    /// The number of executed instructions, at 2 ns each, with all CPUs on one thread. The same work then always
    /// takes the same time, whatever else the host does.
    Instructions,
}

/// The settings of the nested machine.
#[derive(Clone, Debug)]
pub struct Settings {
    cpus: u16,
    memory_mib: u32,
    clock: Clock,
    programs: Vec<PathBuf>,
    parameters: Vec<String>,
    arguments: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cpus: 2,
            memory_mib: 2048,
            clock: Clock::Host,
            programs: Vec::new(),
            parameters: Vec::new(),
            arguments: Vec::new(),
        }
    }
}

impl Settings {
    /// Sets the number of virtual CPUs, and the memory in MiB. Defaults are two CPUs and 2048 MiB.
    pub fn size(self, cpus: u16, memory_mib: u32) -> Self {
        Settings { cpus, memory_mib, ..self }
    }

    /// Sets the source of the machine's clock. The default is the host's clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Copies a program of the host to the machine, with the libraries that it needs. The program can be called by
    /// its file's name.
    pub fn program(mut self, file: &Path) -> Self {
        self.programs.push(file.to_owned());
        self
    }

    /// Adds a word to the kernel's command line.
    pub fn parameter(mut self, word: &str) -> Self {
        self.parameters.push(word.to_owned());
        self
    }

    /// Adds arguments for QEMU, for example a device to assign, or an ivshmem server's socket.
    pub fn arguments<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments.extend(arguments.map(str::to_owned));
        self
    }

    /// Starts the machine, and waits until it accepts commands. A machine with a file, a socket or a clock of its own
    /// boots; other machines are restored from a machine with the same settings that was saved after its boot.
    ///
    /// # Errors
    /// QEMU, a kernel or a program of the image is missing. The image cannot be made. QEMU ends, the machine accepts
    /// no commands within 120 s, or a saved machine cannot be restored. Or a program cannot be copied into the
    /// machine.
    pub fn start(self) -> Result<Machine, Error> {
        Machine::start(&self)
    }
}

/// A running machine. A running nested machine. It is killed when this value is dropped.
pub struct Machine {
    /// The channel for file transfers. Only one transfer runs at a time.
    pub(super) data: Mutex<UnixStream>,
    machine: Guest,
    clock: Clock,
    /// The duration of the machine's start.
    boot: Duration,
}

impl Deref for Machine {
    type Target = Guest;

    fn deref(&self) -> &Guest {
        &self.machine
    }
}

impl Machine {
    /// The source of the machine's clock.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// The duration of the machine's start. With the clock that counts instructions, the start is a boot, and its
    /// duration is a measure of the host's speed.
    pub(super) fn boot(&self) -> Duration {
        self.boot
    }

    fn start(settings: &Settings) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        // For the guests in the machine.
        let installed = chosen::installed_qemu(&mut needs);
        let qemu = chosen::newer_qemu(&mut needs);
        let kernel = kernel::find(&mut needs);
        let parts = image::Parts::find(&kernel, &installed, &mut needs);
        needs.met()?;
        let words = settings.words(&qemu, &kernel, &parts.in_cache()?);
        let start = Instant::now();
        let (machine, data) = if settings.can_be_saved() {
            // The image holds the installed QEMU, whose version counts too, and the kernel.
            let name = [&[qemu.display().to_string()][..], &words].concat();
            Saved::new(&parts.name(&name)?).restore(settings.memory_mib, || Launch::new(&qemu, &words))?
        } else {
            Launch::new(&qemu, &words)?.boot()?
        };
        let boot = start.elapsed();
        let machine = Self { data: Mutex::new(data), machine, clock: settings.clock, boot };
        for program in &settings.programs {
            machine.bring(program)?;
        }
        Ok(machine)
    }
}

impl Settings {
    /// Whether the machine may continue from a saved state: not if it has a file or socket of the test, or a clock that
    /// counts from its start.
    fn can_be_saved(&self) -> bool {
        self.clock == Clock::Host && !self.arguments.iter().any(|word| word.contains('/'))
    }

    /// QEMU's arguments, without those that differ from start to start.
    fn words(&self, qemu: &Path, kernel: &Path, image: &Path) -> Vec<String> {
        let path = |path: &Path| path.display().to_string();
        // The TSC of an emulated CPU is one counter for all CPUs, which the kernel cannot know: for an AMD CPU
        // without a constant TSC it would call it unstable, and KVM would then stop a guest's TSC with its CPU.
        let mut line =
            "console=ttyS0 quiet panic=-1 intel_iommu=on iommu=nopt tsc=reliable no_timer_check".to_owned();
        for word in &self.parameters {
            line = line + " " + word;
        }
        let clock: &[&str] = match self.clock {
            Clock::Host => &["-accel", "tcg,thread=multi"],
            // Neither the time of day nor random numbers differ from one boot to the next.
            Clock::Instructions => &[
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=1,sleep=off",
                "-rtc",
                "base=2026-01-01,clock=vm",
                "-seed",
                "1",
            ],
        };
        let (cpus, memory) = (self.cpus.to_string(), format!("{}M", self.memory_mib));
        let (kernel, image) = (path(kernel), path(image));
        let mut words = vec!["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"];
        words.extend([
            "-machine",
            "q35",
            "-cpu",
            vm::QemuVersion::of(qemu).emulated_cpu(),
            "-smp",
            &cpus,
            "-m",
            &memory,
        ]);
        words.extend(clock);
        words.extend(["-device", "intel-iommu,intremap=on,caching-mode=on"]);
        words.extend(["-kernel", &kernel, "-initrd", &image, "-append", &line, "-serial", "stdio"]);
        words.extend(["-device", "virtio-serial-pci"]);
        for device in ["virtserialport,chardev=data,name=data", "virtserialport,chardev=guest,name=guest"] {
            words.extend(["-device", device]);
        }
        words.extend(self.arguments.iter().map(String::as_str));
        words.into_iter().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_something_of_its_test_is_never_saved() {
        assert!(Settings::default().card_to_hand_on().parameter("a=/b").can_be_saved());
        assert!(!Settings::default().clock(Clock::Instructions).can_be_saved());
        let socket = "socket,id=shell,path=/tmp/shell";
        assert!(!Settings::default().arguments(["-chardev", socket]).can_be_saved());
    }
}
