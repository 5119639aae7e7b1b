//! The command line of `tautline vm`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ::host::CpuList;
use ::vm::Profile;
use ::vm::arguments::Network;
use ::vm::assign::Assignment;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::host::parse_mib;
use super::{EXIT_CODES, ResultsTo};
use linux::duration;

/// The verbs of `vm`.
#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// Start a guest as a profile says, and keep its threads in place until it ends.
    Run(VmRun),
    /// Place the threads of a running guest as a profile says.
    Attach(VmAttach),
    /// Run a task in a guest of `run --pv-sched`. It is due at every interval, tells the host so, and reports how
    /// late it ran.
    Task(VmTask),
    /// Restore what attach changed, or what a killed run has left.
    Detach(VmDetach),
}

/// The CPUs of a guest's threads.
#[derive(Args, Debug)]
pub struct PlaceThreads {
    /// What the guest is used for.
    #[arg(long, value_enum, default_value_t = ProfileName::Latency)]
    pub profile: ProfileName,

    /// The CPUs of the vCPUs, one for each [default: the CPUs that are set aside, else the last ones].
    #[arg(long, value_name = "CPUS")]
    pub vcpu_cpus: Option<CpuList>,

    /// The CPUs of all other threads [default: the others that are not set aside].
    #[arg(long, value_name = "CPUS")]
    pub housekeeping: Option<CpuList>,

    /// Put vCPUs into SCHED_FIFO at this priority [default: 1 with realtime-guest, else the ordinary policy].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=99))]
    pub priority: Option<i32>,

    /// Continue without what this machine cannot give.
    #[arg(long)]
    pub best_effort: bool,
}

/// Arguments of `vm run`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES, group(ArgGroup::new("boot").required(true).multiple(true).args(["kernel", "disk"])))]
pub struct VmRun {
    /// The kernel to boot.
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,

    /// The initial file system of the guest.
    #[arg(long, value_name = "FILE", requires = "kernel")]
    pub initrd: Option<PathBuf>,

    /// The kernel's command line.
    #[arg(long, value_name = "TEXT", requires = "kernel", allow_hyphen_values = true)]
    pub append: Option<String>,

    /// A disk. The disk to boot if no kernel is named. Its format is qcow2 if the name ends so, else raw.
    #[arg(long, value_name = "FILE")]
    pub disk: Option<PathBuf>,

    /// The guest's memory.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_mib)]
    pub memory: u64,

    /// The number of vCPUs; the command chooses their CPUs [default: 1].
    #[arg(long, value_name = "N", conflicts_with = "vcpu_cpus", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cpus: Option<u16>,

    /// Where its threads go.
    #[command(flatten)]
    pub place: PlaceThreads,

    /// Share a page with the guest, in which it says when an important task runs or is due. While it says so, its
    /// vCPUs are raised to SCHED_FIFO at priority 1, each for at most 2ms of 10ms.
    #[arg(long, conflicts_with = "priority")]
    pub pv_sched: bool,

    /// Take the guest's memory from huge pages.
    #[arg(long)]
    pub hugepages: bool,

    /// A network card: vhost-user:PATH (a port of `tautline switch`), tap:NAME or user. May be repeated.
    #[arg(long, value_name = "KIND:TARGET")]
    pub network: Vec<Network>,

    /// Assign a PCI device to the guest. Properties of QEMU's device may follow, as in 06:00.0,rombar=0. May be
    /// repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub assign: Vec<Assignment>,

    /// kvm, tcg (emulated) or auto. `auto` uses KVM if a stock kernel boots with it.
    #[arg(long, value_enum, default_value_t = Accel::Auto, hide_possible_values = true)]
    pub accel: Accel,

    /// Where the guest's first serial line goes; - for the standard output [default: nowhere].
    #[arg(long, value_name = "FILE|-")]
    pub serial: Option<PathBuf>,

    /// How long the guest may take to shut down when this command is interrupted.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::between(Duration::ZERO..=Duration::from_secs(3600)))]
    pub grace: Duration,

    /// Print QEMU's command line and where each thread would go; start nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,

    /// Further arguments for QEMU.
    #[arg(last = true, value_name = "QEMU'S")]
    pub further: Vec<OsString>,
}

/// Arguments of `vm task`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct VmTask {
    /// From one time at which the task is due to the next.
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = duration::between(Duration::from_micros(100)..=Duration::from_secs(10)))]
    pub interval: Duration,

    /// How long.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(86_400)))]
    pub time: Duration,

    /// CPU time of its work.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::between(Duration::ZERO..=Duration::from_secs(1)))]
    pub work: Duration,

    /// The vCPU that the task runs on.
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u16).range(0..32))]
    pub vcpu: u16,

    /// The task's SCHED_FIFO priority in the guest.
    #[arg(long, value_name = "N", default_value = "80", value_parser = clap::value_parser!(u8).range(1..=98))]
    pub priority: u8,

    /// Do not tell the host, for comparison.
    #[arg(long)]
    pub silent: bool,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// A running guest.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("guest").required(true).args(["domain", "pid"])))]
pub struct RunningGuest {
    /// A domain of libvirt.
    #[arg(value_name = "DOMAIN")]
    pub domain: Option<String>,

    /// A QEMU's process.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub pid: Option<u32>,
}

/// Arguments of `vm attach`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct VmAttach {
    /// Which guest.
    #[command(flatten)]
    pub guest: RunningGuest,

    /// The socket of QEMU's monitor (-qmp). Without it, threads are identified by their names.
    #[arg(long, value_name = "SOCKET", requires = "pid")]
    pub qmp: Option<PathBuf>,

    /// Where its threads go.
    #[command(flatten)]
    pub place: PlaceThreads,

    /// Print the present and the wanted placement; change nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// The file in which the present values are kept for detach [default: /var/lib/tautline/vm/attach-PID.jsonl].
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `vm detach`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct VmDetach {
    /// Which guest.
    #[command(flatten)]
    pub guest: RunningGuest,

    /// The file in which attach kept the values that it found [default: /var/lib/tautline/vm/attach-PID.jsonl].
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// The profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileName {
    /// As QEMU starts it, for comparison.
    Plain,
    /// Each vCPU on a CPU, all other threads on others.
    Throughput,
    /// As throughput; in addition, all memory is allocated before the guest runs, and locked.
    Latency,
    /// As latency; in addition, vCPUs run in SCHED_FIFO.
    RealtimeGuest,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Plain => Profile::Plain,
            ProfileName::Throughput => Profile::Throughput,
            ProfileName::Latency => Profile::Latency,
            ProfileName::RealtimeGuest => Profile::RealtimeGuest,
        }
    }
}

/// What runs the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// The CPU.
    Kvm,
    /// QEMU's emulation.
    Tcg,
    /// KVM if a stock kernel boots with it, else TCG.
    Auto,
}
