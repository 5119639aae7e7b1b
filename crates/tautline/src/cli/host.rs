//! What the user may write after `tautline host`.

use std::path::PathBuf;
use std::time::Duration;

use ::host::tuning::{CpuList, Profile, Wishes, journal};
use clap::{Args, Subcommand, ValueEnum};

use super::{EXIT_CODES, ResultsTo};
use crate::duration;

#[path = "host/interrupts.rs"]
mod interrupts;
#[path = "host/verify.rs"]
mod verify;
pub use interrupts::Interrupts;
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

/// Which host, for what.
#[derive(Args, Debug)]
pub struct Subject {
    /// What the host is for.
    #[arg(long, value_enum, default_value_t = ProfileName::RealtimeHost)]
    pub profile: ProfileName,

    /// The CPUs to set aside, as in 2-5 [default: those that are].
    #[arg(long, value_name = "CPUS")]
    pub isolate: Option<CpuList>,

    /// Memory that guests take from huge pages, as in 4G or 512M.
    #[arg(long, value_name = "SIZE", value_parser = parse_mib)]
    pub guest_memory: Option<u64>,

    /// 0 where CPUs are set aside for good, 1 where pods come and go.
    #[arg(long, value_name = "0|1", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub timer_migration: u8,

    /// The folder below which proc, sys, dev and etc lie: of a host that was recorded.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

impl Subject {
    /// The wishes, with counters watched for so long.
    pub fn wishes(&self, watch: Duration) -> Wishes {
        Wishes {
            profile: self.profile.into(),
            isolate: self.isolate.clone(),
            guest_memory_mib: self.guest_memory,
            timer_migration: self.timer_migration,
            watch,
        }
    }
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
}

/// Arguments of `export`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Export {
    /// For which tool.
    #[arg(long, value_enum)]
    pub to: Target,

    /// The CPUs of the guest, one for each vCPU.
    #[arg(long, value_name = "CPUS")]
    pub isolate: CpuList,

    /// The CPUs of the host's own work [default: those online that are not set aside].
    #[arg(long, value_name = "CPUS")]
    pub housekeeping: Option<CpuList>,

    /// The guest's memory, as in 4G.
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_mib)]
    pub guest_memory: u64,

    /// The guest's name.
    #[arg(long, value_name = "NAME", default_value = "realtime-guest")]
    pub name: String,

    /// Where it is written; - for the standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// The profiles.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ProfileName {
    /// Quick answers, without CPUs set aside.
    Latency,
    /// CPUs set aside for real-time guests.
    RealtimeHost,
    /// A guest whose own CPUs are set aside for real-time work.
    RealtimeGuest,
    /// As much work as can be done.
    Throughput,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Latency => Profile::Latency,
            ProfileName::RealtimeHost => Profile::RealtimeHost,
            ProfileName::RealtimeGuest => Profile::RealtimeGuest,
            ProfileName::Throughput => Profile::Throughput,
        }
    }
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

pub(super) fn parse_mib(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size; write for example 4G or 512M");
    let (number, factor) = match text.strip_suffix('G') {
        Some(number) => (number, 1024),
        None => (text.strip_suffix('M').ok_or_else(wrong)?, 1),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)?;
    if (1..=1 << 30).contains(&size) { Ok(size) } else { Err(wrong()) }
}
