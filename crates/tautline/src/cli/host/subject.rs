//! The host that a command reads or changes.

use std::path::PathBuf;
use std::time::Duration;

use ::host::{Profile, Wishes, WrittenCpus};
use clap::{Args, ValueEnum};

/// The host, and the profile that it is checked against.
#[derive(Args, Debug)]
pub struct Subject {
    /// The profile: what the host is used for.
    #[arg(long, value_enum, default_value_t = ProfileName::RealtimeHost)]
    pub profile: ProfileName,

    /// The CPUs to set aside, as in 2-5 or 2-N [default: those that are set aside now].
    #[arg(long, value_name = "CPUS")]
    pub isolate: Option<WrittenCpus>,

    /// Memory that guests take from huge pages, as in 4G or 512M.
    #[arg(long, value_name = "SIZE", value_parser = parse_mib)]
    pub guest_memory: Option<u64>,

    /// 0 if CPUs are set aside permanently, 1 if pods come and go.
    #[arg(long, value_name = "0|1", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub timer_migration: u8,

    /// A recorded host: its file, or the folder that contains its proc, sys, dev and etc.
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub root: PathBuf,
}

impl Subject {
    /// The wishes, with counters watched for the time `watch`.
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

/// The profiles.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ProfileName {
    /// Low latency, without CPUs set aside.
    Latency,
    /// CPUs set aside for real-time guests.
    RealtimeHost,
    /// A guest whose own CPUs are set aside for real-time work.
    RealtimeGuest,
    /// Highest throughput.
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

pub fn parse_mib(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size; write for example 4G or 512M");
    let (number, factor) = match text.strip_suffix('G') {
        Some(number) => (number, 1024),
        None => (text.strip_suffix('M').ok_or_else(wrong)?, 1),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)?;
    if (1..=1 << 30).contains(&size) { Ok(size) } else { Err(wrong()) }
}
