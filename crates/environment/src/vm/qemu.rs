//! Builds QEMU's command line and starts QEMU.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ::vm::{Accelerator, Plan, Profile, QemuVersion, SharedMemory, arguments};
use linux::OutputFile;
use linux::child::{enter_cgroups, inherit};
use measure::Failure;

use super::doorbell::Doorbell;
use super::modules::Module;
use super::nic::FittedNic;
use super::settings::Machine;
use super::{doorbell, initramfs, profile, qmp};
use crate::channel::Channel;
use crate::partition::Partition;
use crate::{Running, Start, guest, spawn};

/// The machine and the files that QEMU boots.
#[derive(Clone, Debug)]
pub struct Boot {
    /// The system emulator.
    pub qemu: PathBuf,
    pub kernel: PathBuf,
    pub accelerator: Accelerator,
    pub machine: Machine,
    pub memory_mib: u64,
    pub profile: Option<Profile>,
    /// The CPUs that the vCPUs own.
    pub partition: Option<Arc<Partition>>,
    pub doorbell: Option<Doorbell>,
    pub nic: Option<FittedNic>,
    /// Memory of this process that the guest shares.
    pub shared: Option<SharedMemory>,
}

impl Boot {
    /// QEMU's name for the board.
    pub fn machine_type(&self) -> &'static str {
        match self.machine {
            _ if cfg!(target_arch = "aarch64") => "virt",
            Machine::Q35 => "q35",
            Machine::Microvm => "microvm",
        }
    }

    /// The CPUs of the host on which the vCPUs run: the partition's, or the run's.
    ///
    /// # Errors
    /// The partition has fewer CPUs than the run.
    pub fn cpus<'a>(&'a self, start: &Start<'a>) -> Result<&'a [usize], Failure> {
        match &self.partition {
            Some(partition) => partition.first(start.cpus.len()),
            None => Ok(start.cpus),
        }
    }

    /// Starts QEMU, and pins its vCPUs or places its threads as the profile requires.
    ///
    /// # Errors
    /// The partition is no longer valid, or has too few CPUs. A file of the initramfs cannot be read, memory, descriptors or the process are refused, or QEMU ends, refuses
    /// its arguments or does not answer on its monitor within the start's limit. Or a thread cannot be moved to its
    /// CPU.
    pub fn start(&self, start: &Start<'_>) -> Result<Running, Failure> {
        if let Some(partition) = &self.partition {
            partition.verify()?;
        }
        boot(self, &Start { cpus: self.cpus(start)?, ..*start })
    }
}

fn boot(vm: &Boot, start: &Start<'_>) -> Result<Running, Failure> {
    let fail = |error: std::io::Error| {
        Failure::new("preparing a guest", error, "see what the system said; check free memory and open files")
    };
    let of_doorbell = vm.doorbell.iter().flat_map(|doorbell| doorbell.modules());
    let modules: Vec<&Module> = of_doorbell.chain(vm.nic.iter().flat_map(|fitted| &fitted.modules)).collect();
    let initramfs = initramfs::build(start.agent, &modules).map_err(fail)?;
    // The console's text: the last output of a guest that does not come up.
    let console = OutputFile::new().map_err(fail)?;
    let (agent, agent_qemu) = UnixStream::pair().map_err(fail)?;
    let (control, control_qemu) = UnixStream::pair().map_err(fail)?;

    let plan = vm.profile.map(|profile| profile::plan(profile, vm.memory_mib, start.cpus)).transpose()?;
    let mut command = command(
        vm,
        start,
        plan.as_ref(),
        &initramfs,
        console.file(),
        agent_qemu.as_fd(),
        control_qemu.as_fd(),
    );
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(console.stdio().map_err(fail)?);
    let mut inherited =
        vec![initramfs.as_fd(), console.file().as_fd(), agent_qemu.as_fd(), control_qemu.as_fd()];
    inherited.extend(vm.nic.iter().filter_map(|fitted| Some(fitted.nic.inherited.as_ref()?.as_fd())));
    inherited.extend(vm.shared.iter().map(AsFd::as_fd));
    inherit(&mut command, &inherited);
    let partition = vm.partition.as_deref();
    if let Some(partition) = partition {
        enter_cgroups(&mut command, vec![partition.entrance_of_threads()?]);
    }
    let child = spawn::spawn(&mut command).map_err(|error| {
        Failure::new(format!("starting {}", vm.qemu.display()), error, "check that QEMU is installed whole")
    })?;
    drop((agent_qemu, control_qemu));

    let to_agent = agent.try_clone().map_err(fail)?;
    let channel = Channel::new(agent.into(), to_agent.into()).map_err(fail)?;
    let what = format!("QEMU (-accel {})", vm.accelerator);
    let mut running = Running::new(what, channel, child, console).killed_at_end();
    if let Some(partition) = &vm.partition {
        running = partition.outlives(running);
    }
    let placed = match &plan {
        Some(plan) => qmp::place(control, running.process_id(), &plan.placement, partition, start.limit),
        None => qmp::pin_vcpus(control, start.cpus, partition, start.limit),
    };
    let monitor = placed.map_err(|error| {
        let doing = format!("starting {} with -accel {}", vm.qemu.display(), vm.accelerator);
        running.explain(&doing, &error, "see QEMU's last output")
    })?;
    Ok(running.with_monitor(monitor))
}

fn command(
    vm: &Boot,
    start: &Start<'_>,
    plan: Option<&Plan>,
    initramfs: &File,
    console: &File,
    agent: BorrowedFd<'_>,
    control: BorrowedFd<'_>,
) -> Command {
    let mut command = match vm.nic.as_ref().and_then(|fitted| fitted.nic.enter.split_first()) {
        Some((program, options)) => {
            let mut command = Command::new(program);
            command.args(options).arg(&vm.qemu);
            command
        }
        None => Command::new(&vm.qemu),
    };
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-name",
        "tautline,debug-threads=on",
    ]);
    if let Some(plan) = plan {
        // Stopped: its threads are put in their places first.
        let hardware = plan.hardware(vm.accelerator);
        command.arg("-S").args(arguments::hardware(&hardware, &plan.placement, vm.machine_type()));
    } else {
        command.args(["-machine", vm.machine_type()]);
        match vm.accelerator {
            Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
            Accelerator::Tcg => command.args(["-accel", "tcg,thread=multi"]),
        };
        command.args(["-smp", &start.cpus.len().to_string(), "-m", &format!("{}M", vm.memory_mib)]);
    }
    if vm.accelerator == Accelerator::Tcg {
        // The last one counts.
        command.args(["-cpu", QemuVersion::of(&vm.qemu).emulated_cpu()]);
    }
    let mut kernel_line = kernel_command_line(&start.agent.arguments);
    if let Some(doorbell) = &vm.doorbell {
        command.args(doorbell.arguments());
        kernel_line.insert_str(0, doorbell::KERNEL_WORDS);
    }
    if let Some(FittedNic { nic, .. }) = &vm.nic {
        command.args(&nic.arguments);
        if nic.shares_memory {
            let size = vm.memory_mib;
            let memory = format!("memory-backend-memfd,id=memory,size={size}M,share=on");
            command.args(["-object", &memory, "-machine", "memory-backend=memory"]);
        }
        let (address, bits) = nic.address;
        kernel_line.insert_str(0, &format!("{}={address}/{bits} ", guest::ADDRESS));
    }
    if let Some(shared) = &vm.shared {
        command.args(shared.arguments());
    }
    command.arg("-kernel").arg(&vm.kernel);
    // As `/proc/self/fd`, not `/dev/fd`, which a minimal root file system may lack.
    command.args(["-initrd", &format!("/proc/self/fd/{}", initramfs.as_raw_fd())]);
    command.args(["-append", &kernel_line]);
    command.args([
        "-chardev",
        &format!("file,id=console,path=/proc/self/fd/{}", console.as_raw_fd()),
        "-serial",
        "chardev:console",
        "-chardev",
        &format!("socket,id=agent,fd={}", agent.as_raw_fd()),
        "-serial",
        "chardev:agent",
        "-chardev",
        &format!("socket,id=control,fd={}", control.as_raw_fd()),
        "-mon",
        "chardev=control,mode=control",
    ]);
    command
}

/// Words that the kernel does not know become arguments of `/init` after `--`.
fn kernel_command_line(arguments: &[String]) -> String {
    let console = if cfg!(target_arch = "aarch64") { "ttyAMA0" } else { "ttyS0" };
    format!("console={console} quiet panic=-1 no_timer_check {}=1 -- {}", guest::MARK, arguments.join(" "))
}
