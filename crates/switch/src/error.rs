//! Why a switch cannot be made, changed, or continue.
use std::io;
use std::time::Duration;

use port::PortError;

use crate::tables::MOST_HELD;
use crate::{MAX_NETWORKS, MAX_PORTS};

/// Where to find a panic's location.
pub(crate) const WHERE: &str = "standard error names the line, which is a mistake of Tautline";

/// Why a switch cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Two ports have the same name.
    #[error("two ports are named '{0}'; give each a name of its own")]
    NameTwice(String),
    /// A wire names a port that does not exist.
    #[error("cannot connect '{port}': there is no such port; the ports are {known}")]
    NoSuchPort {
        /// The name as it was given.
        port: String,
        /// The existing names.
        known: String,
    },
    /// A port is wired to itself.
    #[error("cannot connect '{0}' to itself; name two ports")]
    ToItself(String),
    /// A port is an end of two wires.
    #[error("'{0}' is connected twice; a wire has two ends, leave ports unconnected to switch by address")]
    ConnectedTwice(String),
    /// There are more ports than [`MAX_PORTS`].
    #[error("{0} ports are more than the {max} that there can be", max = MAX_PORTS)]
    TooManyPorts(usize),
    /// No worker.
    #[error("no worker: give at least one")]
    NoWorker,
    /// A port with VLANs of a switch with flow tables.
    #[error(
        "port '{0}' has VLANs, and the switch has flow tables: give the port none, and match dl_vlan in flows"
    )]
    VlansBesideFlows(String),
    /// Two ports of a network have the same OpenFlow number.
    #[error("port '{port}' has the OpenFlow number {number}, which another port has; give it another ofport")]
    NumberTwice {
        /// The port.
        port: String,
        /// The number.
        number: u16,
    },
    /// A burst of no frames, or more than the indices of a burst can name.
    #[error("a burst of {0} frames: give 1 to 1024")]
    Burst(usize),
}

/// Why a switch ended without a request of its operator.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A port could not start.
    #[error("port '{name}': {error}")]
    Start {
        /// The port.
        name: String,
        /// Why.
        error: PortError,
    },
    /// The other switch could not be taken over: it continues, or has ended with its ports.
    #[error("taking over: {0}")]
    TakeOver(String),
    /// All ports have ended by errors.
    #[error("no port is left; the last that ended was '{name}': {error}")]
    NoPortLeft {
        /// The port that ended last.
        name: String,
        /// Why.
        error: PortError,
    },
    /// The control side of a port panicked while the switch started or ended, or that port was the last one.
    #[error(
        "running port '{name}': its control code panicked: {message}; {WHERE}; start the switch without this port"
    )]
    PortPanicked {
        /// The port.
        name: String,
        /// The message of the panic.
        message: String,
    },
    /// A worker panicked.
    #[error(
        "running worker {worker}: it panicked outside of any queue: {message}; {WHERE}; start the switch again"
    )]
    WorkerPanicked {
        /// The worker.
        worker: usize,
        /// The message of the panic.
        message: String,
    },
    /// A worker could not continue.
    #[error("worker {worker}: {action}: {source}")]
    Worker {
        /// The worker.
        worker: usize,
        /// What was tried.
        action: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// More threads are stuck than can be abandoned.
    #[error(
        "{threads} threads of workers are stuck, each for {} s or longer; see where they hang with \
         'cat /proc/PID/task/*/stack' and start the switch again",
        .deadline.as_secs_f32()
    )]
    WorkersStuck {
        /// How many.
        threads: usize,
        /// The time after which a worker counts as stuck.
        deadline: Duration,
    },
    /// The control thread could not continue.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system answered.
        source: io::Error,
    },
}

/// Why a change of a running switch failed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Another port has this name.
    #[error("there is a port named '{0}' already; give another name, or remove that one first")]
    NameTwice(String),
    /// No port has this name.
    #[error("there is no port named '{name}'; the ports are {known}")]
    NoSuchPort {
        /// As given.
        name: String,
        /// The existing names.
        known: String,
    },
    /// There are [`MAX_PORTS`] ports already.
    #[error("there are {MAX_PORTS} ports, the most that there can be; remove one first")]
    TooManyPorts,
    /// [`MAX_NETWORKS`] networks are there already.
    #[error("there are {MAX_NETWORKS} networks, the most that there can be; name one of them")]
    TooManyNetworks,
    /// The port is an end of a wire.
    #[error("port '{0}' is the end of a wire; take the wire away first, or start the switch without it")]
    Wired(String),
    /// The port has no such wire, or can have none: it is an end of a mirror, or would be connected to itself.
    #[error(
        "port '{0}' has no such wire and can have none; a wire is between two ports that are no mirror's"
    )]
    NoWire(String),
    /// The port is an end of a mirror.
    #[error("port '{0}' is one end of a mirror; remove the mirror first")]
    Mirrored(String),
    /// No station can be held behind the port.
    #[error(
        "port '{0}' is the end of a wire and learns no addresses, or its network holds {MOST_HELD} stations already, \
         the most that there can be"
    )]
    NotHeld(String),
    /// The port could not start, or could not hand over its state.
    #[error(transparent)]
    Start(#[from] PortError),
    /// Another port of the network has this OpenFlow number.
    #[error(
        "port '{name}' asks for the OpenFlow number {number}, which another port has; give it another ofport"
    )]
    NumberTwice {
        /// The port.
        name: String,
        /// The number.
        number: u16,
    },
    /// The port has VLANs, and the switch has flow tables.
    #[error(
        "port '{0}' has VLANs, and the switch has flow tables: give the port none, and match dl_vlan in flows"
    )]
    VlansBesideFlows(String),
    /// The switch is about to end.
    #[error("the switch ends: {0}")]
    Ends(String),
    /// The system refused a call.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system answered.
        source: std::io::Error,
    },
}
