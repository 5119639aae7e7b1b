//! What the user may write after `tautline host`.

use std::path::PathBuf;
use std::time::Duration;

use ::host::{WrittenCpus, journal};
use clap::{Args, Subcommand, ValueEnum};

use super::{EXIT_CODES, Format, ResultsTo};
use linux::duration;

#[path = "host/interrupts.rs"]
mod interrupts;
#[path = "host/subject.rs"]
mod subject;
#[path = "host/verify.rs"]
mod verify;
pub use interrupts::Interrupts;
pub use subject::Subject;
pub(super) use subject::parse_mib;
pub use verify::Verify;

/// The verbs of `host`.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// What is amiss: every rule with the value found, the value wanted, why, and what a change would risk.
    Audit(Audit),
    /// What would make it so, in order; changes nothing.
    Plan(Plan),
    /// Make the changes of the plan that can be made while the host runs.
    Apply(Apply),
    /// What the plan's changes give: wake-up latency and interrupts before and after, in turns; then all is put back.
    Verify(Verify),
    /// Put back everything that apply changed, also after a crash.
    Undo(Undo),
    /// How interrupts reach a running guest: past the host or by its software, proved by counting both ends.
    Interrupts(Interrupts),
    /// The same profile for libvirt, Nova, KubeVirt, QEMU or systemd.
    Export(Export),
}

/// Arguments of `audit`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Audit {
    /// Which host, for what.
    #[command(flatten)]
    pub subject: Subject,

    /// How long interrupts on the CPUs are counted; 0s for not at all.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::between(Duration::ZERO..=Duration::from_secs(3600)))]
    pub watch: Duration,

    /// Exit code 3 where a rule is not met or could not be read.
    #[arg(long)]
    pub gate: bool,

    /// Write all that was read of the host to this file, for --root on another machine.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `plan`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Plan {
    /// Which host, for what.
    #[command(flatten)]
    pub subject: Subject,

    /// Write the profile for tuned instead.
    #[arg(long)]
    pub tuned: bool,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `apply`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES, group(clap::ArgGroup::new("picked").required(true).args(["rules", "all"])))]
pub struct Apply {
    /// Which host, for what.
    #[command(flatten)]
    pub subject: Subject,

    /// The rules to apply, by the names that the plan shows.
    #[arg(long, value_name = "RULE,…", value_delimiter = ',')]
    pub rules: Vec<String>,

    /// Apply all rules of the plan.
    #[arg(long)]
    pub all: bool,

    /// Apply this rule although it can cut a connection or stall a CPU.
    #[arg(long, value_name = "RULE")]
    pub accept: Vec<String>,

    /// Where the values found are kept for undo.
    #[arg(long, value_name = "FILE", default_value = journal::PLACE)]
    pub journal: PathBuf,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `undo`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Undo {
    /// Where apply kept the values found.
    #[arg(long, value_name = "FILE", default_value = journal::PLACE)]
    pub journal: PathBuf,

    /// The folder that apply was given.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Export {
    /// For which tool.
    #[arg(long, value_enum)]
    pub to: Target,

    /// The CPUs of the guest, one for each vCPU; N is this host's last.
    #[arg(long, value_name = "CPUS")]
    pub isolate: WrittenCpus,

    /// The CPUs of the host's own work [default: those online that are not set aside].
    #[arg(long, value_name = "CPUS")]
    pub housekeeping: Option<WrittenCpus>,

    /// The guest's memory, as in 4G.
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_mib)]
    pub guest_memory: u64,

    /// The guest's name.
    #[arg(long, value_name = "NAME", default_value = "realtime-guest")]
    pub name: String,

    /// text for the tool's own form, or json for an object that holds it.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text, hide_possible_values = true)]
    pub format: Format,

    /// Where it is written; - for the standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// Tools that an export is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// A domain's XML.
    Libvirt,
    /// A flavor's extra specs, and nova.conf.
    Nova,
    /// A VirtualMachine.
    Kubevirt,
    /// Arguments.
    Qemu,
    /// Units and a slice.
    Systemd,
}
