//! A virtual machine: QEMU boots a stock distribution kernel with the agent as `/init`.

mod accelerator;
mod doorbell;
mod initramfs;
mod kernel_image;
mod modules;
mod nic;
mod profile;
mod qemu;
mod qmp;
mod settings;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use measure::{EnvironmentKind, Failure};

pub use ::vm::{Accelerator, SharedMemory};
pub use accelerator::{is_emulated, kvm_name, open_kvm};
pub use kernel_image::find as find_kernel;
pub use modules::{Module, Modules};
pub use nic::Nic;
pub use settings::{Machine, Settings};

use crate::command::find_command;
use crate::partition::Partition;
use crate::{Environment, Running, Start};

/// How long a guest of a few instructions may take, with the making of its machine: milliseconds where KVM works.
const KVM_TRIAL_LIMIT: Duration = Duration::from_secs(4);

/// A virtual machine that was booted once as a proof.
#[derive(Clone, Debug)]
pub struct Vm {
    boot: qemu::Boot,
    version: String,
    /// The settings that the user asked for.
    wanted: Settings,
    /// The accelerator's name in results: `kvm-vmx`, `tcg`, and the like.
    accelerator_name: String,
    /// The reason why KVM is not used although `/dev/kvm` exists.
    kvm_refused: Option<String>,
    /// The wishes of the profile that this machine, or this run's CPUs, cannot satisfy.
    lacking: Vec<String>,
}

/// The name of the system emulator for this machine.
#[cfg(target_arch = "x86_64")]
pub const QEMU: &str = "qemu-system-x86_64";
/// The name of the system emulator for this machine.
#[cfg(target_arch = "aarch64")]
pub const QEMU: &str = "qemu-system-aarch64";

/// Finds the system emulator [`QEMU`] in `PATH`.
///
/// # Errors
/// The system emulator is not installed.
pub fn find_qemu() -> Result<PathBuf, Failure> {
    find_command(QEMU).ok_or_else(|| {
        Failure::new(format!("looking for {QEMU}"), "not installed", "install QEMU (`make setup` does)")
    })
}

impl Vm {
    /// Finds QEMU and a kernel. With a named accelerator, its start will show whether it boots; else see
    /// [`Vm::prove`].
    fn find(settings: Settings, start: &Start<'_>) -> Result<Self, Failure> {
        let qemu = find_qemu()?;
        let kernel = match &settings.kernel {
            Some(path) => path.clone(),
            None => kernel_image::find()?,
        };
        initramfs::require_static(&start.agent.binary)?;
        let partition = match settings.partition.as_slice() {
            [] => None,
            cpus => Some(Partition::hold(cpus, start.janitor)?),
        };
        let mut vm = Vm {
            version: version(&qemu),
            accelerator_name: accelerator::kvm_name(),
            kvm_refused: None,
            lacking: Vec::new(),
            wanted: settings.clone(),
            boot: qemu::Boot {
                qemu,
                kernel,
                accelerator: Accelerator::Kvm,
                machine: settings.machine,
                memory_mib: settings.memory_mib,
                profile: settings.profile,
                partition,
                doorbell: None,
                nic: None,
                shared: None,
            },
        };
        if let Some(profile) = settings.profile {
            let cpus = vm.boot.cpus(start)?;
            let plan = profile::plan(profile, settings.memory_mib, cpus)?;
            vm.lacking = plan.missing.iter().map(ToString::to_string).collect();
        }
        if vm.wanted.accelerator == Some(Accelerator::Tcg) {
            vm.emulate();
        }
        Ok(vm)
    }

    fn emulate(&mut self) {
        self.boot.accelerator = Accelerator::Tcg;
        self.accelerator_name = Accelerator::Tcg.to_string();
    }

    /// A machine with an ivshmem-doorbell device of the server that listens at `socket`, and with the modules that
    /// give the device to user space in the guest. If an accelerator is named, it is not proven here: the first start
    /// shows whether it works.
    ///
    /// # Errors
    /// The causes of [`Vm::prove`], a board other than q35, or a kernel without readable modules for the device.
    pub fn with_doorbell(settings: Settings, socket: &Path, start: &Start<'_>) -> Result<Self, Failure> {
        let mut vm = Self::trusted(settings, start)?;
        vm.boot.doorbell = Some(doorbell::Doorbell::new(socket, &vm.boot.kernel, vm.boot.machine)?);
        Ok(vm)
    }

    /// A machine with a network interface, on the board with PCI Express. If no kernel is named, the machine boots
    /// one that has the card's driver. If an accelerator is named, it is not proven here.
    ///
    /// # Errors
    /// The causes of [`Vm::prove`], or a kernel without readable modules for the card.
    pub fn with_nic(settings: &Settings, nic: Nic, start: &Start<'_>) -> Result<Self, Failure> {
        let kernel = settings.kernel.clone().map_or_else(|| kernel_image::find_for(&nic.drivers), Ok)?;
        let settings =
            Settings { machine: Machine::Q35, profile: None, kernel: Some(kernel), ..settings.clone() };
        let mut vm = Self::trusted(settings, start)?;
        vm.boot.nic = Some(nic::FittedNic::new(nic, &vm.boot.kernel)?);
        Ok(vm)
    }

    /// Returns this machine with memory of this process that the guest shares.
    pub fn sharing(mut self, memory: SharedMemory) -> Self {
        self.boot.shared = Some(memory);
        self
    }

    /// The machine without a proof, if its accelerator is named: the first start shows whether it boots. Otherwise as
    /// [`Vm::prove`].
    ///
    /// # Errors
    /// The causes of [`Vm::prove`].
    pub fn trusted(settings: Settings, start: &Start<'_>) -> Result<Self, Failure> {
        match settings.accelerator {
            Some(_) => Self::find(settings, start),
            None => Self::prove(settings, start),
        }
    }

    /// Finds QEMU, a kernel, and the accelerator that really boots the kernel.
    ///
    /// # Errors
    /// QEMU or a kernel image is not installed, the agent is not linked statically, or the profile's plan cannot be
    /// made. Or the agent does not greet from a guest: under KVM if KVM was asked for, otherwise under TCG.
    pub fn prove(settings: Settings, start: &Start<'_>) -> Result<Self, Failure> {
        let mut vm = Self::find(settings, start)?;
        let boots = |vm: &Vm| -> Result<(), Failure> {
            let mut running = vm.start(start)?;
            let greeting = running.channel().receive(start.limit);
            greeting.map(drop).map_err(|error| {
                running.explain(
                    &format!("booting a stock kernel with -accel {}", vm.boot.accelerator),
                    &error,
                    "see the guest's last output; `--environments vm:accel=tcg` emulates the CPU",
                )
            })
        };
        if vm.wanted.accelerator != Some(Accelerator::Tcg) {
            // A kernel that never boots takes the whole limit to say so.
            let runs = || kvm::runs_unmodified_guests(KVM_TRIAL_LIMIT);
            match accelerator::open_kvm().and_then(|()| runs()).and_then(|()| boots(&vm)) {
                Ok(()) => return Ok(vm),
                Err(failure) if vm.wanted.accelerator == Some(Accelerator::Kvm) => return Err(failure),
                Err(failure) => vm.kvm_refused = Some(failure.answer),
            }
        }
        vm.emulate();
        boots(&vm)?;
        Ok(vm)
    }

    /// The settings with the accelerator that was chosen.
    pub fn settled(&self) -> Settings {
        Settings { accelerator: Some(self.boot.accelerator), ..self.wanted.clone() }
    }

    /// The reason why KVM is not used, if it is not used.
    pub fn kvm_refused(&self) -> Option<&str> {
        self.kvm_refused.as_deref()
    }

    /// The proven accelerator.
    pub fn accelerator_kind(&self) -> Accelerator {
        self.boot.accelerator
    }
}

impl Environment for Vm {
    fn kind(&self) -> EnvironmentKind {
        EnvironmentKind::Vm
    }

    fn accelerator(&self) -> &str {
        &self.accelerator_name
    }

    fn is_emulated(&self) -> bool {
        is_emulated(self.boot.accelerator)
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![
            ("QEMU".into(), self.version.clone()),
            ("machine".into(), self.boot.machine_type().into()),
            ("guest kernel image".into(), self.boot.kernel.display().to_string()),
            ("guest memory".into(), format!("{} MiB", self.boot.memory_mib)),
        ];
        if let Some(profile) = self.boot.profile {
            facts.push(("profile".into(), profile.name().into()));
        }
        facts.extend(self.boot.partition.as_deref().map(Partition::fact));
        facts.extend(self.lacking.iter().map(|lacking| ("not as in the profile".into(), lacking.clone())));
        if let Some(why) = &self.kvm_refused {
            facts.push(("why not KVM".into(), why.clone()));
        }
        facts
    }

    fn start(&self, start: &Start<'_>) -> Result<Running, Failure> {
        self.boot.start(start)
    }
}

fn version(qemu: &Path) -> String {
    let output = Command::new(qemu).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().trim_start_matches("QEMU emulator version ").to_owned()
}
