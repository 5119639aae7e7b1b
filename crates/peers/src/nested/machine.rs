//! The machine itself: what it is to be, and its start.

use std::ops::Deref;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{image, kernel, places};
use crate::Error;
use crate::guest::Guest;
use crate::requirements::Requirements;

/// Where the programs lie that [`Settings::program`] brought; first in the `PATH` of commands.
pub const PROGRAMS: &str = crate::guest::userland::PROGRAMS;

/// What drives the machine's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The host's: one thread for each CPU, as fast as it goes.
    #[default]
    Host,
    /// The instructions that were executed, two nanoseconds each, all CPUs on one thread. The same work takes the
    /// same time again, whatever else the host does.
    Instructions,
}

/// What the machine is to be.
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
    /// Virtual CPUs, and memory; two and 2048 MiB otherwise.
    pub fn size(self, cpus: u16, memory_mib: u32) -> Self {
        Settings { cpus, memory_mib, ..self }
    }

    /// What drives its clock; the host's otherwise.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Copies a program of the host into it, with the libraries that it names. It can be called by its file's name.
    pub fn program(mut self, file: &Path) -> Self {
        self.programs.push(file.to_owned());
        self
    }

    /// A further word on the kernel's command line.
    pub fn parameter(mut self, word: &str) -> Self {
        self.parameters.push(word.to_owned());
        self
    }

    /// Further arguments for QEMU: a device to hand on, an ivshmem server's socket.
    pub fn arguments<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments.extend(arguments.map(str::to_owned));
        self
    }

    /// Boots it, and waits until it takes commands.
    pub fn start(self) -> Result<Machine, Error> {
        Machine::start(&self)
    }
}

/// A running machine. Killed when dropped.
pub struct Machine {
    /// The channel for files. One transfer at a time.
    pub(super) data: Mutex<UnixStream>,
    machine: Guest,
    clock: Clock,
    /// How long its own boot took.
    boot: Duration,
}

impl Deref for Machine {
    type Target = Guest;

    fn deref(&self) -> &Guest {
        &self.machine
    }
}

impl Machine {
    /// What drives its clock.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// How long its own boot took: how fast this machine is.
    pub(super) fn boot(&self) -> Duration {
        self.boot
    }

    fn start(settings: &Settings) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        let qemu = needs.program("qemu-system-x86_64", "qemu-system-x86");
        let mut command = Command::new(&qemu);
        let kernel = kernel::find(&mut needs);
        let parts = image::Parts::find(&kernel, &qemu, &mut needs);
        needs.met()?;
        let image = parts.in_cache()?;

        let folder = tempfile::tempdir().map_err(Error::system("making a folder for the nested machine"))?;
        let socket = folder.path().join("data");
        let listener = UnixListener::bind(&socket).map_err(Error::system("making the channel for files"))?;
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(["-machine", "q35", "-cpu", "max"]);
        command.args(["-smp", &settings.cpus.to_string(), "-m", &format!("{}M", settings.memory_mib)]);
        match settings.clock {
            Clock::Host => command.args(["-accel", "tcg,thread=multi"]),
            // Neither the time of day nor random numbers differ from one boot to the next.
            Clock::Instructions => command.args(["-accel", "tcg,thread=single"]).args([
                "-icount",
                "shift=1,sleep=off",
                "-rtc",
                "base=2026-01-01,clock=vm",
                "-seed",
                "1",
            ]),
        };
        command.args(["-device", "intel-iommu,intremap=on,caching-mode=on"]);
        command.arg("-kernel").arg(&kernel).arg("-initrd").arg(&image);
        // The TSC of an emulated CPU is one counter for all CPUs, which the kernel cannot know: for an AMD CPU
        // without a constant TSC it would call it unstable, and KVM would then stop a guest's TSC with its CPU.
        let mut line = "console=ttyS0 quiet panic=-1 intel_iommu=on iommu=nopt tsc=reliable".to_owned();
        for word in &settings.parameters {
            line = line + " " + word;
        }
        command.args(["-append", &line, "-serial", "stdio"]);
        let inner = folder.path().join(places::SOCKET);
        command.args(["-device", "virtio-serial-pci"]);
        for (name, chardev) in [
            ("data", format!("socket,id=data,path={}", socket.display())),
            ("guest", format!("socket,id=guest,path={},server=on,wait=off", inner.display())),
        ] {
            let device = format!("virtserialport,chardev={name},name={name}");
            command.args(["-chardev", &chardev, "-device", &device]);
        }
        command.args(&settings.arguments);
        let start = Instant::now();
        let machine = Guest::launch(command, folder)?;
        // QEMU connected before the machine could boot.
        let (data, _) = listener.accept().map_err(Error::system("making the channel for files"))?;
        let boot = start.elapsed();
        let machine = Self { data: Mutex::new(data), machine, clock: settings.clock, boot };
        for program in &settings.programs {
            machine.bring(program)?;
        }
        Ok(machine)
    }
}
