//! An arm64 machine in which KVM runs guests: QEMU's board `virt` with EL2, GICv3 with ITS and an SMMUv3, on an emulated
//! CPU, with Debian's kernel.
//!
//! All programs in the machine are static: busybox, and those that [`ArmSettings::program`] names.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use environment::vm::Module;
use vm::QemuVersion;

use super::arm_within::ArmWithin;
use super::machine::Clock;
use crate::guest::archive::Archive;
use crate::guest::migration::{Movable, NO_FILES};
use crate::guest::userland::{PROGRAMS, read};
use crate::guest::{Guest, Port, modules};
use crate::requirements::Requirements;
use crate::{Error, chosen};

/// The modules that are loaded at the start.
const MODULES: &[&str] = &["virtio_pci", "virtio_console", "virtio_net", "af_packet", "veth", "tun"];

/// The exception level of the machine's kernel, and with it how KVM enters a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvmMode {
    /// The kernel runs at EL2 (Virtualization Host Extensions).
    #[default]
    Vhe,
    /// The kernel runs at EL1; only KVM's part that switches worlds runs at EL2.
    Nvhe,
}

impl KvmMode {
    /// The word of the kernel's command line; VHE is the kernel's choice where the CPU has it.
    fn parameter(self) -> &'static str {
        match self {
            KvmMode::Vhe => "",
            KvmMode::Nvhe => " kvm-arm.mode=nvhe",
        }
    }
}

/// The machine's interrupt controller. QEMU 10 emulates version 4.0 of the GIC, not 4.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gic {
    /// GICv2 with its virtualization extensions.
    V2,
    /// GICv3 with an ITS.
    #[default]
    V3,
    /// GICv4.0 with an ITS, which can deliver an interrupt to a running guest without an exit.
    V4,
}

impl Gic {
    fn version(self) -> u8 {
        match self {
            Gic::V2 => 2,
            Gic::V3 => 3,
            Gic::V4 => 4,
        }
    }

    /// The word of the kernel's command line: KVM uses a GICv4 only on demand.
    fn parameter(self) -> &'static str {
        match self {
            Gic::V2 | Gic::V3 => "",
            Gic::V4 => " kvm-arm.vgic_v4_enable=1",
        }
    }
}

/// The settings of the arm64 machine.
#[derive(Clone, Debug, Default)]
pub struct ArmSettings {
    mode: KvmMode,
    gic: Gic,
    clock: Clock,
    programs: Vec<PathBuf>,
    arguments: Vec<String>,
    ports: Vec<Port>,
    within: bool,
    without_el2: bool,
}

impl ArmSettings {
    /// Sets how KVM runs guests in the machine. The default is VHE.
    pub fn mode(self, mode: KvmMode) -> Self {
        ArmSettings { mode, ..self }
    }

    /// Sets the machine's interrupt controller. The default is GICv3.
    pub fn gic(self, gic: Gic) -> Self {
        ArmSettings { gic, ..self }
    }

    /// Sets the source of the machine's clock. With [`Clock::Instructions`] one instruction takes 1 ns, which is also
    /// the period of the CPU's counter (CNTVCT_EL0).
    pub fn clock(self, clock: Clock) -> Self {
        ArmSettings { clock, ..self }
    }

    /// Copies a static arm64 program to the machine. The program can be called by its file's name.
    pub fn program(mut self, file: &Path) -> Self {
        self.programs.push(file.to_owned());
        self
    }

    /// Copies QEMU, the machine's kernel and a file system to the machine. There `qemu-system-aarch64` is QEMU, the
    /// command `start-guest`, with further arguments for QEMU, starts a guest under KVM, and vhost-net is loaded.
    pub fn guest_within(self) -> Self {
        ArmSettings { within: true, ..self }
    }

    /// Adds a network interface, whose back-end maps the machine's memory.
    pub fn port(mut self, port: Port) -> Self {
        self.ports.push(port);
        self
    }

    /// Adds arguments for QEMU.
    pub fn arguments<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments.extend(arguments.map(str::to_owned));
        self
    }

    /// Boots the machine, and waits until it accepts commands.
    ///
    /// # Errors
    /// QEMU, the kernel with its modules or busybox is missing, or a file cannot be read or written. QEMU ends, or the
    /// machine accepts no commands within 120 s.
    pub fn start(&self) -> Result<ArmMachine, Error> {
        let folder = tempfile::tempdir().map_err(Error::system("making a folder for the arm64 machine"))?;
        let command = self.plan()?.first(folder.path())?;
        Ok(ArmMachine(Guest::launch(command, folder)?))
    }

    /// Boots the machine without EL2 and KVM, so that it can migrate, and waits until it accepts commands. With
    /// EL2, a transfer over TCP stalled after the migration (QEMU 10); the cause is not known.
    ///
    /// # Errors
    /// The causes of [`ArmSettings::start`].
    pub fn start_movable(&self) -> Result<Movable, Error> {
        let plan = ArmSettings { without_el2: true, ..self.clone() }.plan()?;
        Movable::boot(Box::new(move |folder, ports| match ports {
            None => plan.first(folder),
            Some(ports) => plan.command(folder, ports, NO_FILES),
        }))
    }

    /// The machine's parts.
    ///
    /// # Errors
    /// QEMU, the kernel with its modules or busybox is missing, or a file of these cannot be read.
    fn plan(&self) -> Result<ArmPlan, Error> {
        let mut needs = Requirements::new();
        let qemu = chosen::arm_qemu(&mut needs);
        let kernel = chosen::arm_kernel(&mut needs);
        let busybox = kernel.with_file_name("busybox");
        needs.path(&busybox, "a static busybox for arm64: scripts/setup.sh test unpacks one");
        let modules = modules::folder(&kernel, &mut needs);
        let within = self.within.then(|| ArmWithin::find(&kernel, &mut needs));
        needs.met()?;
        let archive = self.archive(&busybox, &modules, within.as_ref())?;
        Ok(ArmPlan { settings: self.clone(), qemu, kernel, archive })
    }

    fn archive(&self, busybox: &Path, modules: &Path, within: Option<&ArmWithin>) -> Result<Vec<u8>, Error> {
        let failed = |error| Error::System { doing: "making the arm64 machine's file system".into(), error };
        let mut archive = Archive::default();
        archive.console().map_err(failed)?;
        for folder in ["proc", "sys", "bin"] {
            archive.folder(Path::new(folder)).map_err(failed)?;
        }
        archive.file(Path::new("init"), include_bytes!("../guest/init.sh")).map_err(failed)?;
        archive.file(Path::new("start.sh"), include_bytes!("arm-start.sh")).map_err(failed)?;
        let busybox = read(busybox)?;
        for place in [Path::new("bin/busybox"), &Path::new(PROGRAMS).join("sh")] {
            archive.file(place, &busybox).map_err(failed)?;
        }
        let names = if within.is_some() { &[MODULES, &["vhost_net"]].concat() } else { MODULES };
        let mut order = String::new();
        for Module { name, content } in modules::with_dependencies(modules, names)? {
            archive.file(&Path::new("modules").join(&name), &content).map_err(failed)?;
            order = order + &name + "\n";
        }
        archive.file(Path::new("modules/order"), order.as_bytes()).map_err(failed)?;
        for program in &self.programs {
            let name = program.file_name().unwrap_or_default();
            archive.file(&Path::new(PROGRAMS).join(name), &read(program)?).map_err(failed)?;
        }
        if let Some(within) = within {
            within.add(&mut archive, &busybox, modules)?;
        }
        archive.finish().map_err(failed)
    }
}

/// The parts of an arm64 machine, found on this machine.
struct ArmPlan {
    settings: ArmSettings,
    qemu: PathBuf,
    kernel: PathBuf,
    /// The machine's file system.
    archive: Vec<u8>,
}

impl ArmPlan {
    /// The QEMU that boots the machine.
    ///
    /// # Errors
    /// The file system cannot be written to the folder.
    fn first(&self, folder: &Path) -> Result<Command, Error> {
        self.command(folder, &self.settings.ports, &self.archive)
    }

    /// QEMU with its ports at these places, and this as the machine's file system.
    ///
    /// # Errors
    /// The file system cannot be written to the folder.
    fn command(&self, folder: &Path, ports: &[Port], archive: &[u8]) -> Result<Command, Error> {
        let ArmSettings { mode, gic, clock, within, without_el2, arguments, .. } = &self.settings;
        let initramfs = folder.join("initramfs");
        std::fs::write(&initramfs, archive)
            .map_err(Error::system("writing the arm64 machine's file system"))?;
        let version = QemuVersion::of(&self.qemu);
        let mut command = Command::new(&self.qemu);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        let el2 = if *without_el2 { "off" } else { "on" };
        let board = format!("virt,virtualization={el2},gic-version={},iommu=smmuv3", gic.version());
        command.args(["-machine", &board]);
        let size = if *within { "2G" } else { "1G" };
        command.args(["-cpu", "max", "-smp", "2", "-m", size, "-machine", "memory-backend=memory"]);
        command.args(["-object", &format!("memory-backend-memfd,id=memory,size={size},share=on")]);
        command.args(match clock {
            Clock::Host => ["-accel", "tcg,thread=multi"].as_slice(),
            Clock::Instructions => &["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"],
        });
        command.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&initramfs);
        let line = format!("console=ttyAMA0 quiet panic=-1{}{}", mode.parameter(), gic.parameter());
        command.args(["-append", &line, "-serial", "stdio", "-device", "virtio-serial-pci"]);
        for (index, port) in ports.iter().enumerate() {
            command.args(port.arguments(index, &format!("02:00:00:00:a4:{index:02x}"), version));
        }
        command.args(arguments);
        Ok(command)
    }
}

/// A running arm64 machine. It is killed when this value is dropped.
pub struct ArmMachine(Guest);

impl Deref for ArmMachine {
    type Target = Guest;

    fn deref(&self) -> &Guest {
        &self.0
    }
}
