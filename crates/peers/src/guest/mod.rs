//! A stock Linux guest: a distribution's own kernel in QEMU, on vhost-user network ports.
//!
//! The CPU is emulated (TCG), so that the guest boots on every machine that has QEMU. The guest's file system
//! contains busybox, and the host's `ip`, `ping`, `iperf3` and `ethtool`. Two ports of one guest are the two ends of
//! a path if the second is moved to a network namespace of the guest.

pub(crate) mod archive;
pub(crate) mod cached;
mod cards;
pub(crate) mod control;
mod deaf;
mod elsewhere;
pub(crate) mod migration;
pub(crate) mod modules;
pub(crate) mod monitor;
mod port;
mod silent;
mod tunnels;
pub(crate) mod uncompressed;
pub(crate) mod userland;
mod within;

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

pub use crate::nested::places::{INITRAMFS as INITRAMFS_WITHIN, KERNEL as KERNEL_WITHIN};
pub use cards::VDPA_CARDS;
pub use elsewhere::{Boot, Session};
pub use migration::{Migration, Movable};
pub use port::Port;

use crate::nested::kernel as generic;
use crate::process::{PAUSE, Process, tail};
use crate::requirements::Requirements;
use crate::socket::wait_for_listener;
use crate::{Error, Output, chosen, standstill};
use cached::CachedKernel;
use control::Control;
use uncompressed::uncompressed;
use userland::{Userland, brought};
use vm::QemuVersion;
use within::Within;

/// The default time limit of a command in the guest. The limit is long because the CPU is emulated.
pub const LIMIT: Duration = Duration::from_secs(60);
/// How long a guest may take to boot. It takes 4 s on an idle machine.
const BOOT: Duration = Duration::from_secs(120);
/// How much longer than the guest's own limit an answer may take.
const GRACE: Duration = Duration::from_secs(20);

/// The settings of a guest.
#[derive(Clone, Debug)]
pub struct Settings {
    ports: Vec<Port>,
    cpus: u16,
    memory_kib: u32,
    files: Vec<(PathBuf, PathBuf)>,
    /// Words at the end of the kernel's command line, each after a space.
    parameters: String,
    arguments: Vec<String>,
    kernel: Kernel,
    modules: &'static [&'static str],
    back_end: Option<PathBuf>,
    newer_qemu: bool,
    /// The script of a guest that the guest can start.
    within: Option<&'static str>,
    iommu: bool,
}

/// Which of the distribution's kernels boots.
#[derive(Clone, Copy, Debug, Default)]
enum Kernel {
    /// The kernel of [`chosen::kernel`], which usually is a cloud kernel.
    #[default]
    Chosen,
    Cached(CachedKernel),
    Generic,
}

/// Modules of a guest with a crypto device: the driver, and ciphers for programs (AF_ALG).
const CRYPTO_MODULES: &[&str] = &["virtio_crypto", "algif_skcipher"];

/// Modules of a guest whose kernel takes devices from its processes.
const VDUSE_MODULES: &[&str] = &["vduse", "virtio_vdpa", "vhost_vdpa"];

/// Modules of a guest whose kernel takes devices from its processes, and has KVM for a guest within.
const LATER_VDUSE_MODULES: &[&str] = &["vduse", "virtio_vdpa", "vhost_vdpa", "kvm_amd"];
/// QEMU's arguments for a crypto device whose back-end listens at this socket.
pub fn crypto_arguments(socket: &Path) -> [String; 6] {
    let chardev = format!("socket,id=crypto,path={}", socket.display());
    // No MSI-X, as for network ports: QEMU 7.2 ends by SIGSEGV when the guest unmasks a vector.
    let device = "virtio-crypto-pci,cryptodev=crypto-backend,vectors=0";
    let object = "cryptodev-vhost-user,id=crypto-backend,chardev=crypto,queues=1";
    ["-chardev", &chardev, "-object", object, "-device", device].map(str::to_owned)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            cpus: 1,
            memory_kib: 256 << 10,
            files: Vec::new(),
            parameters: String::new(),
            arguments: Vec::new(),
            kernel: Kernel::default(),
            modules: &[],
            back_end: None,
            newer_qemu: false,
            within: None,
            iommu: false,
        }
    }
}

impl Settings {
    /// Adds a network interface.
    pub fn port(mut self, port: Port) -> Self {
        self.ports.push(port);
        self
    }

    /// Sets the number of virtual CPUs, and the memory in MiB; the memory is a memfd, which the back-ends map.
    /// Defaults are one CPU and 256 MiB.
    pub fn size(self, cpus: u16, memory_mib: u32) -> Self {
        Settings { cpus, memory_kib: memory_mib << 10, ..self }
    }

    /// Copies a program of the host to the guest, with the libraries that it needs; the guest can call the program by
    /// its file's name.
    pub fn program(mut self, file: &Path) -> Self {
        let name = file.file_name().unwrap_or_default();
        self.files.push((file.to_owned(), Path::new(userland::PROGRAMS).join(name)));
        self
    }

    /// Boots the distribution's real-time kernel.
    pub fn realtime(mut self) -> Self {
        self.kernel = Kernel::Cached(cached::REALTIME);
        self
    }

    /// Boots a kernel of the distribution that has VDUSE, and loads its modules, with both drivers of the vDPA bus.
    pub fn vduse(mut self) -> Self {
        self.kernel = Kernel::Cached(cached::VDUSE);
        self.modules = VDUSE_MODULES;
        self
    }

    /// Boots a kernel of a later release that has VDUSE and KVM, with the modules as of [`Settings::vduse`].
    pub fn later_vduse(mut self) -> Self {
        self.kernel = Kernel::Cached(cached::LATER_VDUSE);
        self.modules = LATER_VDUSE_MODULES;
        self
    }

    /// Copies QEMU, a kernel ([`KERNEL_WITHIN`]) and a file system ([`INITRAMFS_WITHIN`]) to the guest, so that the
    /// guest can start a guest. The guest within loads the drivers of every guest and runs this shell script.
    pub fn guest_within(self, start: &'static str) -> Self {
        Settings { within: Some(start), ..self }
    }

    /// Copies a file of the host to a path in the guest, with the libraries that it needs.
    pub fn file(mut self, from: &Path, to: &Path) -> Self {
        self.files.push((from.to_owned(), to.to_owned()));
        self
    }

    /// Boots a kernel of the distribution that has vDPA and loads its modules, also for cards with a virtio interface
    /// (`vp_vdpa`). Adds an IOMMU, two cards behind it ([`VDPA_CARDS`]), and cards at their far ends (02:00:00:00:77:…).
    pub fn vdpa(mut self) -> Self {
        self.kernel = Kernel::Cached(cached::VDUSE);
        self.modules = cards::VDPA_MODULES;
        self.iommu = true;
        self.program(Path::new("/usr/sbin/vdpa")).arguments(cards::VDPA_ARGUMENTS)
    }

    /// Adds a crypto device, whose back-end listens at this socket; QEMU is the front-end. The distribution's generic
    /// kernel boots: cloud kernels lack the driver, which registers `virtio_crypto_aes_cbc`.
    pub fn crypto(mut self, socket: &Path) -> Self {
        self.kernel = Kernel::Generic;
        self.modules = CRYPTO_MODULES;
        self.back_end = Some(socket.to_owned());
        self.arguments.extend(crypto_arguments(socket));
        self
    }

    /// Uses the QEMU of a later release, which set-up has unpacked, instead of the chosen one.
    pub fn newer_qemu(self) -> Self {
        Settings { newer_qemu: true, ..self }
    }

    /// Adds words to the kernel's command line.
    pub fn parameters(mut self, words: &str) -> Self {
        self.parameters = self.parameters + " " + words;
        self
    }

    /// Adds arguments for QEMU.
    pub fn arguments<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments.extend(arguments.map(str::to_owned));
        self
    }

    /// Boots the guest, and waits until it accepts commands.
    ///
    /// # Errors
    /// QEMU, a kernel with its modules or a program of the guest is missing, or a file cannot be read or written. Or
    /// a port's socket has no listener, QEMU ends, or the guest accepts no commands within 120 s.
    pub fn start(self) -> Result<Guest, Error> {
        Guest::start(self)
    }
}

/// The archive that the kernel unpacks, in the guest's folder.
const INITRAMFS: &str = "initramfs";

/// A guest's parts, found on this machine, and its number among the guests of this process.
struct Plan {
    settings: Settings,
    qemu: PathBuf,
    kernel: PathBuf,
    userland: Userland,
    within: Option<Within>,
    number: u8,
}

impl Plan {
    fn new(settings: Settings) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        let qemu = match settings.newer_qemu {
            true => chosen::newer_qemu(&mut needs),
            false => chosen::qemu(settings.cpus, &mut needs),
        };
        let kernel = match settings.kernel {
            Kernel::Chosen => chosen::kernel(&mut needs),
            Kernel::Cached(kernel) => kernel.find(&mut needs),
            Kernel::Generic => generic::find(&mut needs),
        };
        if settings.iommu {
            modules::require(&kernel, "vp_vdpa", &mut needs);
        }
        let userland = Userland::find(&kernel, settings.modules, &mut needs);
        let within = settings.within.map(|start| Within::find(start, &mut needs));
        needs.met()?;
        static GUESTS: AtomicU8 = AtomicU8::new(1);
        let number = GUESTS.fetch_add(1, Ordering::Relaxed);
        Ok(Self { settings, qemu, kernel, userland, within, number })
    }

    /// The QEMU that boots it, once all its ports can be reached.
    fn first(&self, folder: &Path) -> Result<Command, Error> {
        let mut bytes = self.userland.archive()?;
        bytes.extend(brought(&self.settings.files)?);
        if let Some(within) = &self.within {
            bytes.extend(within.archive()?);
        }
        self.command(folder, &self.settings.ports, &bytes)
    }

    /// QEMU with its ports at these places, and this as the guest's file system.
    fn command(&self, folder: &Path, ports: &[Port], file_system: &[u8]) -> Result<Command, Error> {
        let Settings { cpus, memory_kib: memory, arguments, .. } = &self.settings;
        let initramfs = folder.join(INITRAMFS);
        std::fs::write(&initramfs, file_system).map_err(Error::system("writing the guest's file system"))?;
        let mut command = Command::new(&self.qemu);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(["-machine", "q35,memory-backend=memory", "-accel", "tcg,thread=multi"]);
        let version = QemuVersion::of(&self.qemu);
        command.args(["-cpu", version.emulated_cpu()]);
        command.args(["-smp", &cpus.to_string(), "-m", &format!("{memory}K")]);
        command.args(["-object", &format!("memory-backend-memfd,id=memory,size={memory}K,share=on")]);
        command.arg("-kernel").arg(uncompressed(&self.kernel)?).arg("-initrd").arg(&initramfs);
        // Without the check of the timer, which fails where the emulator was not scheduled meanwhile. On the TSC, which is
        // one counter for all emulated CPUs: else the clock of several CPUs is the HPET, whose readers wait for each other
        // with interrupts disabled.
        let mut line = "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable".to_owned();
        if self.settings.iommu {
            // Strict: an address is gone when its memory is unmapped.
            line.push_str(" intel_iommu=on iommu=nopt iommu.strict=1");
            command.args(["-device", "intel-iommu,intremap=on,caching-mode=on"]);
        }
        line.push_str(&self.settings.parameters);
        command.args(["-append", &line, "-serial", "stdio"]);
        command.args(["-device", "virtio-serial-pci"]);
        if let Some(path) = &self.settings.back_end {
            wait_for_listener(path, LIMIT)?;
        }
        for (index, port) in ports.iter().enumerate() {
            if let Some(path) = port.waits_for() {
                wait_for_listener(path, LIMIT)?;
            }
            // Locally administered; the fifth byte tells this process's guests apart.
            let mac = format!("02:00:00:00:{:02x}:{index:02x}", self.number);
            command.args(port.arguments(index, &mac, version));
        }
        command.args(arguments);
        Ok(command)
    }
}

fn new_folder() -> Result<tempfile::TempDir, Error> {
    tempfile::tempdir().map_err(Error::system("making a folder for the guest"))
}

/// A running guest. It is killed when this value is dropped.
pub struct Guest {
    control: Control,
    qemu: Process,
    folder: tempfile::TempDir,
}

impl Guest {
    /// Boots a guest with these ports and default settings.
    ///
    /// # Errors
    /// The causes of [`Settings::start`].
    pub fn with_ports(ports: impl IntoIterator<Item = Port>) -> Result<Self, Error> {
        ports.into_iter().fold(Settings::default(), Settings::port).start()
    }

    fn start(settings: Settings) -> Result<Self, Error> {
        let plan = Plan::new(settings)?;
        standstill::boot(|| {
            let folder = new_folder()?;
            let initramfs = folder.path().join(INITRAMFS);
            let guest = Self::launch(plan.first(folder.path())?, folder)?;
            // The kernel has unpacked it.
            let _ = std::fs::remove_file(&initramfs);
            Ok(guest)
        })
    }

    /// Starts QEMU with the command's arguments and with the control channel on the command's virtio-serial bus;
    /// waits until the guest accepts commands.
    pub(crate) fn launch(command: Command, folder: tempfile::TempDir) -> Result<Self, Error> {
        let guest = Self::launch_silent(command, folder)?;
        guest.control.ready(BOOT).map_err(|silence| guest.explain("booting a guest", silence, BOOT))?;
        Ok(guest)
    }

    /// Starts QEMU as [`Guest::launch`] does, for a guest that does not boot but is restored. Such a guest does not
    /// report that it is ready.
    pub(crate) fn launch_silent(mut command: Command, folder: tempfile::TempDir) -> Result<Self, Error> {
        let socket = folder.path().join("control");
        let listener = UnixListener::bind(&socket).map_err(Error::system("making the control channel"))?;
        command.args(["-chardev", &format!("socket,id=control,path={}", socket.display())]);
        command.args(["-device", "virtserialport,chardev=control,name=control"]);
        command.args(monitor::arguments(folder.path()));
        let mut qemu = Process::start("a guest", &mut command)?;
        let control = accept(&listener, &mut qemu)?;
        Ok(Self { control, qemu, folder })
    }

    /// Runs a shell's command line, for at most [`LIMIT`].
    ///
    /// # Errors
    /// The guest has ended, or the command does not end in time. A command that fails is not an error: see
    /// [`Output::status`].
    pub fn run(&self, line: &str) -> Result<Output, Error> {
        self.run_within(line, LIMIT)
    }

    /// Runs a shell's command line; the guest kills its shell after the limit.
    ///
    /// # Errors
    /// The guest has ended, or the command does not end in time. A command that fails is not an error: see
    /// [`Output::status`].
    pub fn run_within(&self, line: &str, limit: Duration) -> Result<Output, Error> {
        self.begin(line, limit)?.wait()
    }

    /// Starts a shell's command line and does not wait for it. Other commands may run at the same time.
    ///
    /// # Errors
    /// The guest has closed its channel.
    pub fn begin(&self, line: &str, limit: Duration) -> Result<Job<'_>, Error> {
        let id = self.control.send(line, limit).map_err(Error::system("telling the guest"))?;
        Ok(Job { guest: self, id, line: line.to_owned(), limit, since: Instant::now() })
    }

    /// Runs a command line that must not fail, and returns its output.
    ///
    /// # Panics
    /// Panics with the command's output if the command fails.
    #[track_caller]
    pub fn must(&self, line: &str) -> String {
        match self.run(line) {
            Ok(output) if output.success() => output.stdout,
            Ok(output) => {
                panic!("`{line}` in the guest: {}\n{}\n{}", output.status, output.stdout, output.stderr)
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The output of the kernel and of QEMU on the console.
    pub fn console(&self) -> String {
        self.qemu.said()
    }

    /// QEMU's process id.
    pub fn id(&self) -> u32 {
        self.qemu.id()
    }

    /// A folder of the host that is removed with the guest.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A command that runs in the guest.
pub struct Job<'a> {
    guest: &'a Guest,
    id: u64,
    line: String,
    limit: Duration,
    since: Instant,
}

impl Job<'_> {
    /// Waits until the command has ended.
    ///
    /// # Errors
    /// The guest has ended, the guest killed the command at its limit, or no answer came within the limit plus 20 s.
    pub fn wait(self) -> Result<Output, Error> {
        let limit = self.limit + GRACE;
        self.wait_at_most(limit)
    }

    /// Waits until the command has ended, for at most `limit` from now, which may end before the command's own limit.
    ///
    /// # Errors
    /// The causes of [`Job::wait`].
    pub fn wait_at_most(self, limit: Duration) -> Result<Output, Error> {
        /// The shell's exit status for a command that SIGKILL ended.
        const KILLED: i32 = 128 + 9;
        let doing = format!("running `{}` in the guest", self.line);
        let output = self.guest.control.output(self.id, limit);
        let output = output.map_err(|silence| self.guest.explain(&doing, silence, limit.min(self.limit)))?;
        if output.status == KILLED && self.since.elapsed() >= self.limit {
            let said = tail(&format!("{}\n{}", output.stdout, output.stderr));
            return Err(Error::TimedOut { doing, limit: self.limit, said });
        }
        Ok(output)
    }
}

fn accept(listener: &UnixListener, qemu: &mut Process) -> Result<Control, Error> {
    let doing = "waiting for QEMU to connect to the control channel";
    listener.set_nonblocking(true).map_err(Error::system(doing))?;
    let deadline = Instant::now() + BOOT;
    let stream: UnixStream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if !qemu.runs() => {
                return Err(Error::refused("starting QEMU", tail(&qemu.said())));
            }
            Err(_) if Instant::now() > deadline => {
                return Err(Error::TimedOut { doing: doing.into(), limit: BOOT, said: tail(&qemu.said()) });
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    };
    stream.set_nonblocking(false).map_err(Error::system(doing))?;
    Control::new(stream).map_err(Error::system(doing))
}
