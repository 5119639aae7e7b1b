//! The command line. docs/cli.md describes the rules for all commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use environment::network::Card;
use linux::duration;

pub mod ctl;
pub mod host;
mod kvm;
#[cfg_attr(not(feature = "all-commands"), path = "left_out.rs")]
mod more;
mod results;
mod switch;
mod tti;
pub mod vm;

pub use ctl::{
    Add as CtlAdd, Apply as CtlApply, Capture as CtlCapture, Ctl, CtlCommand, Events as CtlEvents,
    FlowsCommand, Mirror as CtlMirror, OfBridge, Watch as CtlWatch,
};
pub use host::HostCommand;
pub use kvm::{Followed, Kvm, KvmCommand, KvmCosts, KvmPath, KvmTrace, KvmWorst, WatchedLatency};
pub use more::*;
pub use results::{EXIT_CODES, Format, Limits, Reported, ResultsTo};
pub use switch::Switch;
pub use tti::{Beside, Tti, Way};
pub use vm::VmCommand;

/// Virtual I/O with no slack, and the proof.
#[derive(Debug, Parser)]
#[command(version = more::VERSION, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// When to colour. `auto` colours only on a terminal, and not if NO_COLOR is set.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto, hide_possible_values = true)]
    pub color: Color,

    /// Print results and errors only: no progress, no remarks.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Also print each step, if the error output is no terminal.
    #[arg(long, short, global = true)]
    pub verbose: bool,

    /// The subcommand to carry out.
    #[command(subcommand)]
    pub command: Command,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what this machine can do; every capability is proved by using it.
    Doctor(Doctor),
    /// Measure the same work on the host, in a container and in a VM, side by side.
    Compare(Compare),
    /// Connect guests, containers and the kernel's network stack.
    Switch(Switch),
    /// Encipher, decipher and hash for guests: crypto devices behind vhost-user sockets.
    Crypto(Crypto),
    /// Give a guest's rings to a vDPA device: a relay between a vhost-user socket and /dev/vhost-vdpa-N.
    Vdpa(Vdpa),
    /// Inspect and change a running switch.
    Ctl(Ctl),
    /// Find the packet rate of a vhost-user switch, with and without loss, and its latency under load.
    Rfc2544(Rfc2544),
    /// Measure what exits, interrupts and faults of a virtual machine cost on this machine.
    Kvm(Kvm),
    /// Let another machine measure on this one, or make the keys for that.
    Agent(Agent),
    /// Make this host ready for real-time guests: audit, plan, apply, undo, export.
    #[command(subcommand)]
    Host(HostCommand),
    /// Send an interrupt at every interval and measure when it reaches user space: on the host, in a container, in
    /// a guest.
    Tti(Tti),
    /// Find how many users a chain of programs serves in time, in each environment. The programs pass frames on at
    /// each tick.
    Scenario(Scenario),
    /// Attack a vhost-user back-end as a hostile front-end, and check that it still serves others.
    Torture(Torture),
    /// Start guests with every thread on its CPU, or place the threads of a running guest.
    #[command(subcommand)]
    Vm(VmCommand),
    /// Redraw a results file; with two, compare two runs or two machines.
    Report(Report),
    /// Print the completions of a shell.
    Completions(Completions),
    /// Write the man pages.
    Man(Man),
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Doctor {
    /// A capability that must be proven, by its name in JSON. Exit code 3 if it is not. May be repeated.
    #[arg(long, value_name = "CAPABILITY")]
    pub require: Vec<String>,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `compare`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Compare {
    /// Measure fewer metrics with shorter trials: about four minutes. Every output is labelled quick.
    #[arg(long)]
    pub quick: bool,

    /// List the metrics and environments instead of measuring.
    #[arg(long)]
    pub list: bool,

    /// Print all figures in tables, as `tautline report` does, instead of the summary of one screen.
    #[arg(long)]
    pub tables: bool,

    /// Only these groups (cpu, memory, os, wakeup, net, kvm, external), or metrics whose names begin with these
    /// words (os.pipe). kvm is measured only if it is named here.
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Where to measure; the first is the baseline. Options follow a colon, as in container:cpus=0.5, vm:accel=tcg;
    /// partition:CPUS takes CPUs from everything else; remote:HOST is a machine with `tautline agent --listen`.
    #[arg(long, value_name = "LIST", default_value = "host,container,vm")]
    pub environments: String,

    /// The CPUs to work on, without those of partitions [default: all that this process may use].
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,

    /// Check every byte that arrives over the paths of the group net; their receivers then take longer.
    #[arg(long)]
    pub verify_payload: bool,

    /// Assign this PCI device, a network card, to a guest of the group net. Properties of QEMU's device may
    /// follow, as in 06:00.0,rombar=0. The host cannot use the card meanwhile.
    #[arg(long, value_name = "ADDRESS", requires = "assign_far")]
    pub assign: Option<::vm::assign::Assignment>,

    /// The host's interface at the other end of that card's cable; it must be down.
    #[arg(long, value_name = "INTERFACE", requires = "assign")]
    pub assign_far: Option<String>,

    /// Fresh starts of every environment. 6 or more give intervals of at least 95 % [default: 6 quick, 10
    /// otherwise].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub blocks: Option<u32>,

    /// Rounds over all metrics in each start [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,

    /// Time for each trial [default: 20ms quick, 100ms otherwise].
    #[arg(long, value_name = "DURATION", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(600)))]
    pub trial: Option<Duration>,

    /// Time for each wake-up trial [default: 200ms quick, 2s otherwise].
    #[arg(long, value_name = "DURATION", value_parser = duration::between(Duration::from_millis(10)..=Duration::from_secs(86_400)))]
    pub wakeup_trial: Option<Duration>,

    /// How long an agent may take to answer, in addition to the length of the trial.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::between(Duration::from_secs(1)..=Duration::from_secs(3600)))]
    pub timeout: Duration,

    /// The options for the results, for a page of them, and for a gate.
    #[command(flatten)]
    pub reported: Reported,

    /// Programs of yours to run as workloads.
    #[arg(long, value_name = "FILE")]
    pub workloads: Option<PathBuf>,

    /// Run cyclictest on the host in turns with the wake-up work, and show both.
    #[arg(long)]
    pub cyclictest: bool,
}

impl Compare {
    /// The card that a guest is given, and where its cable ends.
    pub fn card(&self) -> Option<Card> {
        let (assignment, far) = (self.assign.clone()?, self.assign_far.clone()?);
        Some(Card { assignment, far })
    }
}

/// Arguments of `report`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Report {
    /// Files that a command wrote with --output FILE.json; of `compare` and `rfc2544` a second is compared to the first, and
    /// of `compare` three or more are set side by side, archives of --share among them.
    #[arg(required = true, num_args = 1.., value_name = "FILE.json")]
    pub files: Vec<PathBuf>,

    /// Make one archive of a results file of `compare`, an audit and the capabilities of this machine. Names of
    /// hosts and users, and addresses, are removed. It is shown before it is written.
    #[arg(long, value_name = "FILE")]
    pub share: Option<PathBuf>,

    /// Write the archive of --share without asking.
    #[arg(long, requires = "share")]
    pub yes: bool,

    /// The options for the results, for a page of them, and for a gate.
    #[command(flatten)]
    pub reported: Reported,
}
