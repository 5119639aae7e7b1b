//! The settings of a switch, from flags or from the configuration file.
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use control::PortDescription;
use linux::{cpus, duration};
use port::CachePolicy;

use crate::error::Invalid;

/// Bounds of [`Settings::spin`].
pub const SPIN: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);

/// Bounds of [`Settings::worker_deadline`].
pub const WORKER_DEADLINE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

/// Bounds of [`Settings::ageing`].
pub const AGEING: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(1_000_000);

/// The settings that a configuration file may hold beside its ports.
const KEYS: [&str; 15] = [
    "wire",
    "flows",
    "policy",
    "cpus",
    "spin",
    "max-frame",
    "flood-limit",
    "max-moves",
    "worker-deadline",
    "mac-table-size",
    "ageing",
    "cache-policy",
    "control",
    "openflow",
    "metrics",
];

/// A switch and its ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The ports by name, in the order in which they are added.
    pub ports: Vec<(String, PortDescription)>,
    /// Wires, each between two of the ports.
    pub wires: Vec<(String, String)>,
    /// The file of the flows by which frames are forwarded in place of learning.
    pub flows: Option<PathBuf>,
    /// The file of the connections that ports may begin and accept.
    pub policy: Option<PathBuf>,
    /// One worker on each of these CPUs; one worker on any CPU if `None`.
    pub cpus: Option<Vec<usize>>,
    /// How long a worker polls on after the last frame before it sleeps.
    pub spin: Duration,
    /// Bytes of the longest frame from a port that has no limit of its own.
    pub max_frame: Option<u32>,
    /// Frames a second that may go to several ports, from a port that has no limit of its own; 0 for any number.
    pub flood_limit: Option<u32>,
    /// How often an address may leave its port within 10 s.
    pub max_moves: u16,
    /// How long a worker may be in one pass before it counts as stuck.
    pub worker_deadline: Duration,
    /// Addresses that the switch can learn.
    pub mac_table_size: usize,
    /// After how long without a frame an address is forgotten.
    pub ageing: Duration,
    /// The cache policy of vhost-user queues.
    pub cache_policy: CachePolicy,
    /// The path of the control socket.
    pub control: Option<PathBuf>,
    /// The path at which OpenFlow controllers are served.
    pub openflow: Option<PathBuf>,
    /// The address of the metrics.
    pub metrics: Option<SocketAddr>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            ports: Vec::new(),
            wires: Vec::new(),
            flows: None,
            policy: None,
            cpus: None,
            spin: Duration::from_micros(60),
            max_frame: None,
            flood_limit: None,
            max_moves: 5,
            worker_deadline: Duration::from_secs(1),
            mac_table_size: 4096,
            ageing: Duration::from_secs(300),
            cache_policy: CachePolicy::default(),
            control: None,
            openflow: None,
            metrics: None,
        }
    }
}

impl Settings {
    /// The description of a port.
    pub fn port_mut(&mut self, name: &str) -> Option<&mut PortDescription> {
        self.ports.iter_mut().find_map(|(other, port)| (other == name).then_some(port))
    }

    /// Adds a wire: `A=B`.
    ///
    /// # Errors
    /// The text has no `=`.
    pub fn add_wire(&mut self, text: &str) -> Result<(), Invalid> {
        let (a, b) = text.split_once('=').ok_or_else(|| Invalid("write A=B".to_owned()))?;
        self.wires.push((a.to_owned(), b.to_owned()));
        Ok(())
    }

    /// Limits floods: `N` for all ports, `NAME=N` for one port that was already added.
    ///
    /// # Errors
    /// The text is no number, or names no port.
    pub fn limit_floods(&mut self, text: &str) -> Result<(), Invalid> {
        let (name, number) =
            text.rsplit_once('=').map_or((None, text), |(name, number)| (Some(name), number));
        let limit = number.parse().map_err(|_| Invalid("write frames a second, or NAME=that".to_owned()))?;
        let place = match name {
            None => &mut self.flood_limit,
            Some(name) => &mut self.port_mut(name).ok_or_else(no_such_port)?.flood_limit,
        };
        *place = Some(limit);
        Ok(())
    }

    /// The ports, each with the limits that hold for all.
    pub(crate) fn ports_with_limits(&self) -> impl Iterator<Item = (&str, PortDescription)> {
        self.ports.iter().map(|(name, port)| {
            let flood_limit = port.flood_limit.or(self.flood_limit);
            (name.as_str(), PortDescription { flood_limit, ..port.clone() })
        })
    }

    /// Applies one key of the configuration file.
    pub(crate) fn set(&mut self, key: &str, text: &str) -> Result<(), Invalid> {
        let Settings { spin, max_frame, max_moves, worker_deadline, mac_table_size, .. } = self;
        let Settings { ageing, cache_policy, control, openflow, metrics, flows, .. } = self;
        match key {
            "wire" => self.add_wire(text)?,
            "flows" => *flows = Some(text.into()),
            "policy" => self.policy = Some(text.into()),
            "cpus" => self.cpus = Some(cpus::choose(text).map_err(invalid)?),
            "spin" => *spin = duration::between(SPIN)(text).map_err(Invalid)?,
            "max-frame" => *max_frame = Some(parsed(text)?),
            "flood-limit" => self.limit_floods(text)?,
            "max-moves" => match parsed(text)? {
                0 => return Err(Invalid("write 1 or more".to_owned())),
                moves => *max_moves = moves,
            },
            "worker-deadline" => {
                *worker_deadline = duration::between(WORKER_DEADLINE)(text).map_err(Invalid)?
            }
            "mac-table-size" => *mac_table_size = parsed(text)?,
            "ageing" => *ageing = duration::between(AGEING)(text).map_err(Invalid)?,
            "cache-policy" => *cache_policy = parsed(text)?,
            "control" => *control = Some(text.into()),
            "openflow" => *openflow = Some(text.into()),
            "metrics" => *metrics = Some(parsed(text)?),
            _ => {
                return Err(Invalid(format!(
                    "there is no such key; there are {} and [ports.NAME]",
                    KEYS.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// The keys that differ between both and that cannot change while the switch runs.
    pub(crate) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let same = [
            ("wire", self.wires == other.wires),
            ("flows", self.flows == other.flows),
            ("policy", self.policy == other.policy),
            ("cpus", self.cpus == other.cpus),
            ("spin", self.spin == other.spin),
            ("max-frame", self.max_frame == other.max_frame),
            ("max-moves", self.max_moves == other.max_moves),
            ("worker-deadline", self.worker_deadline == other.worker_deadline),
            ("mac-table-size", self.mac_table_size == other.mac_table_size),
            ("ageing", self.ageing == other.ageing),
            ("cache-policy", self.cache_policy == other.cache_policy),
            ("control", self.control == other.control),
            ("openflow", self.openflow == other.openflow),
            ("metrics", self.metrics == other.metrics),
        ];
        same.into_iter().filter_map(|(key, same)| (!same).then_some(key)).collect()
    }
}

/// The error for a name that no port has.
pub fn no_such_port() -> Invalid {
    Invalid("there is no port of this name".to_owned())
}

fn invalid(error: impl Display) -> Invalid {
    Invalid(error.to_string())
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, Invalid> {
    text.parse().map_err(invalid)
}
