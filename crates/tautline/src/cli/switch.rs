//! The command line of `switch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use daemon::settings;
use linux::duration;

use super::{EXIT_CODES, ResultsTo};

/// Arguments of `switch`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES, after_long_help = PORTS)]
pub struct Switch {
    /// A port: its name, its kind, and where it is, as in guest=vhost-user:/tmp/guest.sock. See below.
    #[arg(long, required_unless_present_any = ["config", "control"], value_name = "NAME=KIND:TARGET")]
    pub port: Vec<String>,

    /// Read ports and options from FILE (TOML), and again on SIGHUP: only differences are applied.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "wire", "flows", "policy", "openflow", "allow", "cpus", "spin", "max_frame", "flood_limit", "police", "max_moves", "worker_deadline", "mac_table_size", "ageing", "cache_policy"])]
    pub config: Option<PathBuf>,

    /// Listen at this path for `tautline ctl`.
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,

    /// Follow this database of Open vSwitch in place of ovs-vswitchd, and have the ports that `ovs-vsctl` adds:
    /// unix:/var/run/openvswitch/db.sock, tcp:127.0.0.1:6640 or ssl:192.0.2.1:6640. It needs --control.
    #[arg(long, value_name = "SERVER")]
    pub ovsdb: Option<String>,

    /// The key of this end for ssl: (PEM, as of ovs-pki).
    #[arg(long, value_name = "FILE", requires_all = ["ovsdb", "certificate", "ca_cert"])]
    pub private_key: Option<PathBuf>,

    /// The certificate of this end for ssl:.
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,

    /// The certificate of the authority that has signed those of both ends.
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub ca_cert: Option<PathBuf>,

    /// Serve all counters to Prometheus, and to every client: GET /metrics at this address, as 127.0.0.1:9750.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<std::net::SocketAddr>,

    /// Go on where the running switch with this control socket stands: its front-ends notice nothing. Give the same
    /// ports as to that one; without --control this one goes on at that control socket too.
    #[arg(long, value_name = "SOCKET")]
    pub take_over: Option<PathBuf>,

    /// Forward by the flows of FILE, one a line as `ovs-ofctl add-flows` reads them, in place of learning addresses.
    #[arg(long, value_name = "FILE", conflicts_with = "ovsdb")]
    pub flows: Option<PathBuf>,

    /// Let ports begin and accept the connections that FILE (TOML) allows, and their answers.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["flows", "ovsdb"])]
    pub policy: Option<PathBuf>,

    /// Serve OpenFlow at this path, for `ovs-ofctl` and controllers of this user: they show and change the flows.
    #[arg(long, value_name = "SOCKET", conflicts_with = "ovsdb")]
    pub openflow: Option<PathBuf>,

    /// Make a wire of two ports: no addresses are learned, none are looked at.
    #[arg(long, value_name = "A=B")]
    pub wire: Vec<String>,

    /// The only source addresses that frames from this port may have; others are dropped and counted.
    #[arg(long, value_name = "NAME=MAC[+MAC…]")]
    pub allow: Vec<String>,

    /// One worker on each of these CPUs [default: one worker, on any CPU].
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,

    /// How long a worker polls on after the last frame before it sleeps.
    #[arg(long, value_name = "DURATION", default_value = "60us", value_parser = duration::between(settings::SPIN))]
    pub spin: Duration,

    /// Longest frame that is taken from a port, in bytes with Ethernet header [default: any].
    #[arg(long, value_name = "BYTES")]
    pub max_frame: Option<u32>,

    /// Frames a second from each port, or from that one, that may go to several others (broadcast, multicast,
    /// unknown receivers); the rest are dropped and counted. 0 for any number [default: 20000].
    #[arg(long, value_name = "[NAME=]N")]
    pub flood_limit: Vec<String>,

    /// How much may come from this port: packets or bits a second, as 100kpps or 1gbit; the rest is dropped and
    /// counted.
    #[arg(long, value_name = "NAME=RATE[+RATE]")]
    pub police: Vec<String>,

    /// How often an address may leave its port within 10 s; then it is held there, and frames that claim it from
    /// other ports are dropped and counted.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_moves: u16,

    /// How long a worker may be in one pass. After this time the worker counts as stuck: the switch abandons the
    /// worker's thread and ends the port in which the worker is stuck.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::between(settings::WORKER_DEADLINE))]
    pub worker_deadline: Duration,

    /// Addresses that the switch is made to learn.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub mac_table_size: usize,

    /// After how long without a frame from it an address is forgotten.
    #[arg(long, value_name = "DURATION", default_value = "300s", value_parser = duration::between(settings::AGEING))]
    pub ageing: Duration,

    /// The use of caches by vhost-user queues: `auto` measures and tunes it for each queue; all other values fix it.
    /// `none`: temporal copies, nothing demoted; `non-temporal`: non-temporal copies, nothing demoted; temporal copies
    /// and demoted after it was read: `write-back` and `evict`: where frames begin, while the device is idle;
    /// `evict-descriptors`: split rings' descriptors.
    #[arg(long, value_name = "POLICY", default_value = "auto")]
    pub cache_policy: port::CachePolicy,

    /// Where counters go; as JSON one line each time.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

const PORTS: &str = include_str!("switch_ports.txt");
