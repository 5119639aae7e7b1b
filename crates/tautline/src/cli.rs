//! The command line. docs/cli.md describes the rules for all commands.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use environment::network::Card;
use linux::duration;

#[path = "cli/agent.rs"]
mod agent;
#[path = "cli/crypto.rs"]
mod crypto;
#[path = "cli/ctl.rs"]
pub mod ctl;
#[path = "cli/host.rs"]
pub mod host;
#[path = "cli/kvm.rs"]
mod kvm;
#[path = "cli/results.rs"]
mod results;
#[path = "cli/scenario.rs"]
mod scenario;
#[path = "cli/switch.rs"]
mod switch;
#[path = "cli/torture.rs"]
mod torture;
#[path = "cli/tti.rs"]
mod tti;
#[path = "cli/vm.rs"]
pub mod vm;

pub use agent::{Agent, AgentCommand, AgentKeys};
pub use crypto::{Crypto, CryptoBench, CryptoCommand};
pub use ctl::{
    Add as CtlAdd, Apply as CtlApply, Capture as CtlCapture, Ctl, CtlCommand, Events as CtlEvents,
    Mirror as CtlMirror, Watch as CtlWatch,
};
pub use host::HostCommand;
pub use kvm::{Followed, Kvm, KvmCommand, KvmCosts, KvmPath, KvmTrace, KvmWorst, WatchedLatency};
pub use results::{EXIT_CODES, Format, Limits, Reported, ResultsTo};
pub use scenario::Scenario;
pub use switch::Switch;
pub use torture::Torture;
pub use tti::{Beside, Tti, Way};
pub use vm::VmCommand;

/// Virtual I/O with no slack, and the proof.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXIT_CODES)]
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

/// Arguments of `completions`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Completions {
    /// bash, elvish, fish, powershell or zsh.
    #[arg(value_enum, hide_possible_values = true)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Man {
    /// The folder for the pages: one page for each command.
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
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

    /// Where to measure; the first is the baseline. Options follow a colon, as in container:cpus=0.5,
    /// vm:accel=tcg or vm:profile=realtime-guest; remote:HOST is another machine with `tautline agent --listen`.
    #[arg(long, value_name = "LIST", default_value = "host,container,vm")]
    pub environments: String,

    /// The CPUs to work on [default: all that this process may use].
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

/// Arguments of `rfc2544`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES, after_long_help = RATES)]
pub struct Rfc2544 {
    /// The port that sends: usually virtio-user:PATH, the driver of the switch's vhost-user socket.
    #[arg(long, value_name = "KIND:TARGET")]
    pub from: String,

    /// The port that receives [default: the same; the device sends back what it gets].
    #[arg(long, value_name = "KIND:TARGET")]
    pub to: Option<String>,

    /// How the rate is searched for.
    #[arg(long, value_enum, default_value_t = Search::Tst009)]
    pub search: Search,

    /// Also the loss at each load, from the most that is offered downwards (RFC 2544 section 26.3).
    #[arg(long)]
    pub frame_loss: bool,

    /// The step in load from one trial of --frame-loss to the next, in percent of the highest load.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=10))]
    pub loss_step: u8,

    /// Also search for the longest burst without loss, and derive the size of the device's buffer (RFC 9004).
    /// Without --quick this may take half an hour a size.
    #[arg(long, conflicts_with = "bidirectional")]
    pub back_to_back: bool,

    /// Searches for the longest burst, of which the mean and deviation are shown [default: 50, or 5 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub bursts: Option<u32>,

    /// Frame sizes in bytes as RFC 2544 counts them, with frame check sequence (64 are 60 in a buffer); or
    /// mixes, spelled out, as in 64x7+570x4+1518x1 [default: RFC 2544's seven; 68 for 64 with --vlan].
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',')]
    pub sizes: Vec<String>,

    /// Use trials of one second and wide bounds: about ten seconds a size. Every output is labelled quick.
    #[arg(long)]
    pub quick: bool,

    /// Length of the deciding trials [default: 60s, or 1s with --quick].
    #[arg(long, value_name = "DURATION", value_parser = duration::between(Duration::from_millis(10)..=Duration::from_secs(86_400)))]
    pub trial: Option<Duration>,

    /// The search ends when its bounds are this close, in percent [default: 0.5, or 2 with --quick].
    #[arg(long, value_name = "PERCENT")]
    pub width: Option<f64>,

    /// How many trials at a load must all lose frames before the load counts as too high (tst009). Use more on a
    /// machine that pauses now and then.
    #[arg(long, value_name = "N", default_value = "2")]
    pub verification_trials: NonZeroU32,

    /// The highest rate to offer, frames per second over all directions [default: what the device took at most].
    #[arg(long, value_name = "FPS")]
    pub max_rate: Option<u64>,

    /// Both directions at once.
    #[arg(long)]
    pub bidirectional: bool,

    /// Number of flows (UDP source ports).
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub flows: u16,

    /// What the receiver reads of each frame: the headers, or every byte.
    #[arg(long, value_enum, default_value_t = Access::Header)]
    pub access: Access,

    /// Ethernet source of the frames.
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:01")]
    pub source_mac: String,

    /// Ethernet destination of the frames.
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:02")]
    pub destination_mac: String,

    /// 802.1Q tag of the frames.
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan: Option<u16>,

    /// The CPU to generate on [default: any].
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<String>,

    /// How long to wait until the ports are up and frames arrive.
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration::between(Duration::from_secs(1)..=Duration::from_secs(3600)))]
    pub timeout: Duration,

    /// The options for the results, for a page of them, and for a gate.
    #[command(flatten)]
    pub reported: Reported,
}

/// Searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Search {
    /// RFC 2544 section 26.1: no frame lost, binary search.
    Rfc2544,
    /// ETSI NFV-TST 009: binary search in which a lossy trial is repeated before it counts.
    Tst009,
    /// RFC 9971: several goals in one search, no loss and 0.5 % loss.
    Mlr,
    /// No search: the highest rate, at any loss.
    Maximum,
}

/// How much of each frame the receiver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Access {
    /// Headers and stamp.
    Header,
    /// Every byte; checksums are verified.
    Payload,
}

const RATES: &str = "\
No DPDK, huge pages or root are needed: the other end is any vhost-user switch.

  tautline switch --port a=vhost-user:/tmp/a --port b=vhost-user:/tmp/b &
  tautline rfc2544 --from virtio-user:/tmp/a --to virtio-user:/tmp/b --sizes 64,1518 --quick

Ports are those of `tautline switch --help`, captures excepted. A path with a TAP is labelled in every output.

Exit codes: 0 success, 1 error, 2 usage, 3 threshold exceeded, 130 interrupted.";

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
