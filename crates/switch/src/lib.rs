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
//! A received frame is admitted by its source address and length, and its sender is learned. The frame goes to the port
//! behind which its receiver was seen. If the receiver is unknown or a group, the frame goes to all other ports. Two
//! ports can be connected by a wire instead: each forwards all frames to the other, whatever their addresses. If no
//! port has options for VLANs ([`VlanOptions`]), VLAN tags pass unchanged, and addresses are learned without regard to
//! them.
//!
//! # Threads
//!
//! The control thread never touches a frame, and workers never touch a socket. A source belongs to one worker. A
//! sink belongs to one worker too, unless more workers send to a port than it has sinks: then they share one. A
//! worker claims a queue for one burst at a time. The claim is the only lock on the packet path, and a worker
//! waits for it only if a sink is shared. The control thread puts its requests into a worker's mailbox, which the
//! worker reads between two passes. The control thread waits for the answer when it removes a queue or adds a
//! sink. A worker that finds nothing for the spin budget ([`WorkerOptions::spin`]) asks its sources for wake-ups
//! and sleeps until one of them or a message wakes it.
//!
//! # Workers that hang
//!
//! A call of a source or sink that does not return blocks all queues of its worker. The control thread therefore
//! watches the passes of all workers. A worker is stuck if it completes no pass for [`Options::worker_deadline`]
//! while it is blocked or uses its CPU. Its thread is abandoned with the queues that it holds, and a new thread
//! claims all others. Ports are informed of lost queues by `Port::stopped` with `QueueError::Lost`, and the port
//! that caused the loss is ended. An abandoned thread that continues finds that it is abandoned before it claims
//! or releases anything. A panic in a port's code is dealt with in the same way. A port whose *control* side
//! blocks is not covered: it blocks the control thread, and so connections and changes of all ports, but no frame.
//!
//! # Counting
//!
//! Each frame that a source receives is counted there as passed. Then the frame is given to sinks, or the switch drops
//! it. Each sink counts the frame as passed or dropped. The switch counts its drops on the *source*'s queue: spoofed,
//! too long, moving too often, over the limit of floods, receiver not connected, nowhere to go, and by flows or their
//! limit. A flood, or a frame that flows send to several ports, is copied to the ports that have a running queue; if
//! there is no such port, the frame is a drop. Therefore, when no frame is in the switch:
//!
//! - frames of all sources = copies - flood copies + flooded + drops of these kinds,
//! - copies = frames + drops of all sinks,
//!
//! except for frames that the control thread sent (announcements), and for a flood during which one of its sinks
//! stops: that copy is counted as dropped although the others were delivered. A sink that returns an error is
//! expected to have counted all frames of the burst.
//!
//! # Where to change what
//!
//! - To change how a running switch is changed: `changes.rs`; captures and mirrors: `copies.rs`, `mirror.rs`.
//! - To change which ports reach each other: `programs.rs`; what is kept for each network of ports: `tables.rs`.
//! - To change which ports of a bond carry frames: `bonds.rs`.
//! - To change when a worker polls or sleeps: `running_worker.rs`; for how long it spins `spin.rs`.
//! - To change which worker has which queue: `queue_plan.rs`. How workers get flow tables: `flows.rs`,
//!   `flow_sets.rs`, `worker_pool.rs`.
//! - To change when a worker counts as stuck, or which port is the cause: `watchdog.rs`, `suspects.rs`.
#![forbid(unsafe_code)]

mod activity;
mod announce;
mod balance;
mod bond_changes;
mod bonds;
mod changes;
mod connections;
mod context;
mod control;
mod copies;
mod edits;
mod error;
mod flow_sets;
mod flows;
mod forward;
mod hand_over;
mod heartbeat;
mod incident;
mod mailbox;
mod mirror;
mod panicked;
mod places;
mod poller;
mod port_entry;
mod port_event;
mod port_number;
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
    BondMode, ControllersFrame, MOVE_WINDOW_SECONDS, Policing, PortId, PriorityTags, PuntedFrame, Selection,
    TableCounts, TableOptions, TupleSelection, VlanMode, VlanOptions, Wanted, flow_ms,
};
pub use connections::{ConnectionReport, ConnectionsReport, LimitsReport, TupleReport, ZoneReport};
pub use control::{Operator, View};
pub use copies::{Copied, CopiesId};
pub use error::{ChangeError, RunError, SetupError};
pub use flows::{NumberedPort, Raised};
pub use port_event::PortEvent;
pub use ring_report::RingReport;
pub use setup::{BondOptions, Ended, Options, PortOptions, Switch};
pub use snapshot::{
    BondSnapshot, InterfaceSnapshot, Link, NetworkSnapshot, PortSnapshot, QueueSnapshot, Snapshot,
};
pub use stations::StationReport;
pub use switch_state::{AddedPort, Inherited, SavedConnections, SwitchState};
pub use worker_counters::WorkerCounts;
pub use worker_options::WorkerOptions;

/// The most ports of one switch. Workers and the table have room for them from the start.
pub const MAX_PORTS: usize = 1024;

/// The largest number of networks of one switch. Each network has a table of addresses.
pub const MAX_NETWORKS: usize = 64;

/// A queue pair of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QueueId {
    pub port: PortId,
    pub pair: u16,
}
