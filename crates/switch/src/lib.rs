//! The switch: workers that move frames between ports and poll or sleep, and ports that come and go.
//!
//! A [`Switch`] is put together ([`Switch::add_port`], [`Switch::add_wire`]) and then run on the calling
//! thread, which becomes the control thread, until its [`Operator`] ends it. It starts one worker for each
//! entry of [`Options::workers`].
//!
//! ```text
//!   control thread            worker 0 .. W-1                       all workers
//!   ──────────────            ───────────────                       ───────────
//!   Port::ready, timers       Source::rx_burst                      MacTable: who is behind which port
//!   attaches and        ──►   Forwarder::forward: the port's
//!   detaches by mailbox         Program decides, group by sink
//!                             TxQueues::flush: Sink::accept once for each sink
//!                             Source::release
//! ```
//!
//! A frame that arrives is admitted by its source address and length, its sender is learned, and it goes to
//! the port behind which its receiver was seen; to all others if none was, or if it is for a group. Ports
//! that are connected to each other are a wire instead: nothing is looked at. VLAN tags pass untouched, and
//! stations are learned without regard to them, unless a port says anything of VLANs ([`VlanOptions`]).
//!
//! # Threads
//!
//! The control thread never touches a frame, and workers never touch a socket. A source belongs to one worker. A
//! sink belongs to one worker too, unless more workers send to a port than it has sinks: then they share one. A
//! worker claims a queue for one burst at a time, which is the only lock on the packet path; it waits for the lock
//! only where a sink is shared. The control thread puts its requests into a worker's mailbox, which the worker
//! reads between two passes; it waits for the answer when it takes a queue out or puts a sink in. A worker that
//! finds nothing for the spin budget ([`WorkerOptions::spin`]) asks its sources for wake-ups and sleeps until one
//! of them or a message wakes it.
//!
//! # Workers that hang
//!
//! A source's or sink's call that does not return would take all queues of its worker along. So the control thread
//! watches the passes that workers make. One that makes none for [`Options::worker_deadline`], in which it was
//! blocked or used its CPU, is stuck: its thread is given up with the queues that it is in, and a new one claims all
//! others. Ports hear of what is lost by `Port::stopped` with `QueueError::Lost`; the port to blame is ended. A
//! thread that comes back finds that it was given up before it claims or releases anything. A panic in a port's
//! code is dealt with in the same way. What this does not help against is a port whose *control* side blocks: it
//! blocks the control thread, and with it what comes and goes at all ports, but no frame.
//!
//! # Counting
//!
//! Each frame that a source receives is counted there as passed, and then it is either given to sinks, each of
//! which counts it as passed or dropped, or dropped by the switch, which counts it on the *source*'s queue:
//! spoofed, too long, moving too often, over the limit of floods, receiver not connected, nowhere to go, and by flows or
//! their limit. A flood, or a frame that flows send to several ports, goes to those that have a queue running; it is a drop if there is none. So, once all is quiet,
//!
//! - frames of all sources = copies - flood copies + flooded + drops of these kinds,
//! - copies = frames + drops of all sinks,
//!
//! except for what the control thread announced, and for a flood at the moment in which one of its sinks
//! stops: that copy is counted as dropped although the others went through. Likewise a sink that returns an
//! error is expected to have counted all frames of the burst.
//!
//! # Where to change what
//!
//! - To change how a running switch is changed: `changes.rs`; captures and mirrors: `copies.rs`, `mirror.rs`.
//! - To change which ports reach each other: `programs.rs`; what is kept for each network of ports: `tables.rs`.
//! - To change when a worker polls or sleeps: `running_worker.rs`; for how long it spins `spin.rs`.
//! - To change which worker has which queue: `queue_plan.rs`. How workers get flow tables: `flows.rs`, `worker_pool.rs`.
//! - To change when a worker counts as stuck, or who is to blame: `watchdog.rs`, `suspects.rs`.
#![forbid(unsafe_code)]

mod activity;
mod announce;
mod changes;
mod context;
mod control;
mod copies;
mod edits;
mod error;
mod flows;
mod forward;
mod hand_over;
mod heartbeat;
mod incident;
mod mailbox;
mod mirror;
mod panicked;
mod poller;
mod port_entry;
mod port_event;
mod programs;
mod queue_plan;
mod resting;
mod ring_report;
mod rings;
mod running_worker;
mod setup;
mod shared_queue;
mod snapshot;
mod spin;
mod stations;
mod suspects;
mod switch_state;
mod tables;
mod tx_queues;
mod watchdog;
mod worker;
mod worker_counters;
mod worker_event;
mod worker_handle;
mod worker_options;
mod worker_pool;

pub use ::pipeline::{
    MOVE_WINDOW_SECONDS, Policing, PortId, PriorityTags, TableCounts, TableOptions, VlanMode, VlanOptions,
};
pub use control::{Operator, View};
pub use copies::{Copied, CopiesId};
pub use error::{ChangeError, RunError, SetupError};
pub use port_event::PortEvent;
pub use ring_report::RingReport;
pub use setup::{Ended, Options, PortOptions, Switch};
pub use snapshot::{InterfaceSnapshot, Link, NetworkSnapshot, PortSnapshot, QueueSnapshot, Snapshot};
pub use stations::StationReport;
pub use switch_state::SwitchState;
pub use worker_counters::WorkerCounts;
pub use worker_options::WorkerOptions;

/// Ports of one switch at most: workers and the table have room for so many from the start.
pub const MAX_PORTS: usize = 1024;

/// Networks of one switch at most: each has a table of addresses.
pub const MAX_NETWORKS: usize = 64;

/// A queue pair of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QueueId {
    pub port: PortId,
    pub pair: u16,
}
