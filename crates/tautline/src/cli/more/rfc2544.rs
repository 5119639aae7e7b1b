//! The command line of `rfc2544`.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use linux::duration;

use super::{EXIT_CODES, Reported};

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

    /// Number of searches for the longest burst; mean and deviation are shown [default: 50, or 5 with --quick].
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
