//! The job of a receiver of ticks.

use std::path::PathBuf;

use ::ticks::receiver;
use serde::{Deserialize, Serialize};

pub use crate::load::Load;

/// The way in which the receiver gets its end of the doorbell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doorbell {
    /// As a client of the server at this socket.
    Socket(PathBuf),
    /// As the PCI device of this guest.
    Device,
}

/// The source of the ticks, the receiver's settings, and the load at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicksJob {
    /// The doorbell of the source.
    pub doorbell: Doorbell,
    /// `Some` if the guest's kernel records when it handles ticks, with the number of ticks to come.
    pub traced: Option<u64>,
    /// The receiver's settings.
    pub receiver: receiver::Plan,
    /// The load on the receiver's CPU, at normal priority.
    pub load: Option<Load>,
    /// The CPUs to use; the first runs the receiver.
    pub cpus: Vec<usize>,
    /// The time limit within which the source has ended, in ms.
    pub limit_ms: u64,
}
