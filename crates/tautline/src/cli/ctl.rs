//! What the user may write after `tautline ctl`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{EXIT_CODES, Format, ResultsTo};
use linux::duration;

/// Arguments of `ctl`.
#[derive(Args, Debug)]
pub struct Ctl {
    /// The control socket of the switch: what it was given as --control.
    #[arg(value_name = "SOCKET")]
    pub socket: PathBuf,

    /// What to do.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// The verbs of `ctl`.
#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Ports: what they agreed on with their peers, and their counters.
    Ports(Look),
    /// Everything that is counted: ports, addresses, workers.
    Stats(Look),
    /// Dropped frames by reason and place, most first.
    Drops(Look),
    /// How each ring stands, in words: who waits for whom.
    Rings(Look),
    /// Ports and their rates, again and again.
    Watch(Watch),
    /// What happens to ports, a line each: added, removed, connected, disconnected, stopped.
    Events(Events),
    /// Add a port.
    Add(Add),
    /// End a port and forget it.
    Remove(Remove),
    /// Have the ports and wires of a file and no others: add what is missing, remove what is not in it, keep what is the
    /// same.
    Apply(Apply),
    /// Write frames of a port to a pcapng file, until Ctrl-C.
    Capture(Capture),
    /// Copy what a port sends and receives to another port, which does nothing else from then on.
    Mirror(Mirror),
}

/// Arguments of the verbs that look.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Look {
    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `watch`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Watch {
    /// Time between two looks.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::between(Duration::from_millis(100)..=Duration::from_secs(3600)))]
    pub interval: Duration,

    /// Looks until the end [default: until Ctrl-C].
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// Where results go; as JSON one line each time.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `events`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Events {
    /// Events until the end [default: until Ctrl-C].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// How they are printed: text or json [default: text].
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<Format>,
}

/// Arguments of `add`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Add {
    /// The port, as `switch --port` takes it.
    #[arg(value_name = "NAME=KIND:TARGET")]
    pub port: String,

    /// The only source addresses that its frames may have.
    #[arg(long, value_name = "MAC[+MAC…]", value_delimiter = '+')]
    pub allow: Vec<String>,

    /// Longest frame that is taken from it, in bytes with Ethernet header [default: that of the switch].
    #[arg(long, value_name = "BYTES")]
    pub max_frame: Option<u32>,

    /// Frames a second from it that may go to several others; 0 for any number [default: 20000].
    #[arg(long, value_name = "N")]
    pub flood_limit: Option<u32>,

    /// How much may come from it: packets or bits a second, as 100kpps or 1gbit; the rest is dropped and counted.
    #[arg(long, value_name = "RATE[+RATE]", value_delimiter = '+')]
    pub police: Vec<String>,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `remove`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Remove {
    /// The port's name.
    pub port: String,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `apply`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Apply {
    /// A file with a table [ports.NAME] for each port and the key wire, as in a configuration file.
    pub file: PathBuf,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `capture`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Capture {
    /// The port's name.
    pub port: String,

    /// The file that the frames go to, as pcapng: FILE.pcapng.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,

    /// How its end is told: text or json [default: text].
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<Format>,

    /// Frames until the end [default: until Ctrl-C].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Frames to keep, in the words of pcap-filter(7): 'udp port 53 and net 10.0.0.0/8' [default: all].
    #[arg(long, value_name = "EXPRESSION")]
    pub filter: Option<String>,

    /// Bytes of each frame at most.
    #[arg(long, value_name = "BYTES", default_value_t = 65_549, value_parser = clap::value_parser!(u32).range(14..=65_549))]
    pub snaplen: u32,
}

/// Arguments of `mirror`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Mirror {
    /// The port whose frames are copied.
    pub from: String,

    /// The port that gets the copies. The mirror ends with `remove mirror-of-FROM`.
    #[arg(long, value_name = "PORT")]
    pub to: String,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
