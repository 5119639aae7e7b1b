//! The command line of `tautline ctl`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{EXIT_CODES, Format, ResultsTo};
use linux::duration;

/// Arguments of `ctl`.
#[derive(Args, Debug)]
pub struct Ctl {
    /// The path that the switch was given as --control.
    #[arg(value_name = "SOCKET")]
    pub socket: PathBuf,

    /// The request to the switch.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// The verbs of `ctl`.
#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Show ports, the features agreed on with their peers, and their counters.
    Ports(Look),
    /// Show all counters: of ports, addresses and workers.
    Stats(Look),
    /// Show dropped frames by reason and queue, the most frequent first.
    Drops(Look),
    /// Show the state of each ring, in words: whether driver or device must act next.
    Rings(Look),
    /// Show ports and their rates, at every interval.
    Watch(Watch),
    /// Print a line for each event of a port: added, removed, connected, disconnected, stopped.
    Events(Events),
    /// Add a port.
    Add(Add),
    /// End and remove a port.
    Remove(Remove),
    /// Make the switch have exactly the ports and wires of a file: missing ones are added, others removed,
    /// unchanged ones stay.
    Apply(Apply),
    /// Write frames of a port to a pcapng file, until Ctrl-C.
    Capture(Capture),
    /// Copy what a port sends and receives to another port, which carries only the copies from then on.
    Mirror(Mirror),
    /// Show and change the flows of a bridge, in the notation of `ovs-ofctl`.
    #[command(subcommand)]
    Flows(FlowsCommand),
}

/// The verbs of `flows`.
#[derive(Debug, Subcommand)]
pub enum FlowsCommand {
    /// Show flows with their counts.
    #[command(after_help = EXIT_CODES)]
    Dump {
        /// The flows to show, as table=1,ip [default: all].
        matching: Option<String>,
        #[command(flatten)]
        of: OfBridge,
    },
    /// Add a flow. A flow with the same table, priority and match is replaced.
    #[command(after_help = EXIT_CODES)]
    Add {
        /// The flow, as 'table=1,priority=10,ip,nw_dst=10.0.0.2 actions=output:2'.
        flow: String,
        #[command(flatten)]
        of: OfBridge,
    },
    /// Delete the flows that a match covers.
    #[command(after_help = EXIT_CODES)]
    Del {
        /// The flows to delete, as table=1,ip or cookie=0x5/-1 [default: all].
        matching: Option<String>,
        /// Delete only the flow with exactly this match and priority.
        #[arg(long, requires = "matching")]
        strict: bool,
        #[command(flatten)]
        of: OfBridge,
    },
    /// Make the flows exactly those of a file, all at once. Flows that stay the same keep their counts.
    #[command(after_help = EXIT_CODES)]
    Replace {
        /// The file: a flow on each line.
        file: PathBuf,
        #[command(flatten)]
        of: OfBridge,
    },
    /// Show which tables a frame would visit, and where it would go. No frame is sent, and nothing is counted.
    #[command(after_help = EXIT_CODES)]
    Trace {
        /// The frame's input port and fields, as in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80.
        fields: String,
        /// The frame's bytes in hexadecimal; FIELDS then gives its input port and registers.
        frame: Option<String>,
        #[command(flatten)]
        of: OfBridge,
    },
}

/// The bridge of a command, and where its results go.
#[derive(Args, Debug)]
pub struct OfBridge {
    /// The bridge [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub bridge: Option<String>,
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of the commands that show the state.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Look {
    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `watch`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Watch {
    /// Time between two reports.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::between(Duration::from_millis(100)..=Duration::from_secs(3600)))]
    pub interval: Duration,

    /// Number of reports [default: until Ctrl-C].
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// Where results go. In JSON, one line for each report.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `events`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Events {
    /// Number of events after which the command ends [default: until Ctrl-C].
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

    /// The only source addresses that frames from this port may have.
    #[arg(long, value_name = "MAC[+MAC…]", value_delimiter = '+')]
    pub allow: Vec<String>,

    /// The longest frame that is accepted from this port, in bytes with Ethernet header [default: that of the
    /// switch].
    #[arg(long, value_name = "BYTES")]
    pub max_frame: Option<u32>,

    /// Frames a second from this port that may go to several others; 0 for any number [default: 20000].
    #[arg(long, value_name = "N")]
    pub flood_limit: Option<u32>,

    /// Limit what comes from this port: packets or bits a second, as 100kpps or 1gbit. Frames above the limit are
    /// dropped and counted.
    #[arg(long, value_name = "RATE[+RATE]", value_delimiter = '+')]
    pub police: Vec<String>,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `remove`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Remove {
    /// The port's name.
    pub port: String,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `apply`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Apply {
    /// A file with a table [ports.NAME] for each port and the key wire, as in a configuration file.
    pub file: PathBuf,

    /// The destination and the form of the results.
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

    /// The form of the report at the end: text or json [default: text].
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<Format>,

    /// Number of frames after which the capture ends [default: until Ctrl-C].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Frames to keep, in the words of pcap-filter(7): 'udp port 53 and net 10.0.0.0/8' [default: all].
    #[arg(long, value_name = "EXPRESSION")]
    pub filter: Option<String>,

    /// The most bytes of each frame that are written.
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

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
