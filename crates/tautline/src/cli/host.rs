//! The command line of `tautline host`.

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
    /// List every rule with the value found, the value wanted, the reason, and the risk of a change.
    Audit(Audit),
    /// List the changes that would meet the rules, in order; change nothing.
    Plan(Plan),
    /// Make the changes of the plan that can be made while the host runs.
    Apply(Apply),
    /// Measure what the plan's changes give: wake-up latency and interrupts before and after, in turns. All values
    /// are restored at the end.
    Verify(Verify),
    /// Restore everything that apply changed, also after a crash.
    Undo(Undo),
    /// Show how interrupts reach a running guest, directly or through the host's software, by counting at both
    /// ends.
    Interrupts(Interrupts),
    /// Write the same profile for libvirt, Nova, KubeVirt, QEMU or systemd.
    Export(Export),
}

/// Arguments of `audit`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Audit {
    /// The host, and the profile that it is checked against.
    #[command(flatten)]
    pub subject: Subject,

    /// How long interrupts on the CPUs are counted; 0s counts none.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::between(Duration::ZERO..=Duration::from_secs(3600)))]
    pub watch: Duration,

    /// Exit with code 3 if a rule is not met or could not be read.
    #[arg(long)]
    pub gate: bool,

    /// Write everything that was read of the host to this file, for --root on another machine.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `plan`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Plan {
    /// The host, and the profile that it is checked against.
    #[command(flatten)]
    pub subject: Subject,

    /// Write the profile for tuned instead of a plan.
    #[arg(long)]
    pub tuned: bool,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `apply`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES, group(clap::ArgGroup::new("picked").required(true).args(["rules", "all"])))]
pub struct Apply {
    /// The host, and the profile that it is checked against.
    #[command(flatten)]
    pub subject: Subject,

    /// The rules to apply, by the names that the plan shows.
    #[arg(long, value_name = "RULE,…", value_delimiter = ',')]
    pub rules: Vec<String>,

    /// Apply all rules of the plan.
    #[arg(long)]
    pub all: bool,

    /// Apply this rule although its change can cut a connection or stall a CPU.
    #[arg(long, value_name = "RULE")]
    pub accept: Vec<String>,

    /// The file in which the values found are kept for undo.
    #[arg(long, value_name = "FILE", default_value = journal::PLACE)]
    pub journal: PathBuf,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `undo`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Undo {
    /// The file in which apply kept the values found.
    #[arg(long, value_name = "FILE", default_value = journal::PLACE)]
    pub journal: PathBuf,

    /// The value of --root that apply was given.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Export {
    /// The tool.
    #[arg(long, value_enum)]
    pub to: Target,

    /// The CPUs of the guest, one for each vCPU; N is this host's last.
    #[arg(long, value_name = "CPUS")]
    pub isolate: WrittenCpus,

    /// The CPUs of the host's own work [default: the online CPUs that are not set aside].
    #[arg(long, value_name = "CPUS")]
    pub housekeeping: Option<WrittenCpus>,

    /// The guest's memory, as in 4G.
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_mib)]
    pub guest_memory: u64,

    /// The guest's name.
    #[arg(long, value_name = "NAME", default_value = "realtime-guest")]
    pub name: String,

    /// `text` is the tool's own form, `json` an object that contains it.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text, hide_possible_values = true)]
    pub format: Format,

    /// The file to write; - for the standard output.
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
