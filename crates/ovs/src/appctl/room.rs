//! The state that commands use.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use control::{Client, Request};
use serde_json::Value;

use super::bridge::{Served, SharedBridges};
use super::coverage::{Coverage, totals};
use super::history::History;

/// The switch that is queried, and state that is kept between two commands.
#[derive(Debug)]
pub struct Room {
    control: PathBuf,
    bridges: SharedBridges,
    /// The number of addresses for which the table has room.
    pub(super) addresses: usize,
    /// The CPU of each worker; empty if workers run on any.
    pub(super) cpus: Vec<usize>,
    /// Times of workers in the last minute.
    pub(super) history: History,
    /// Totals of events.
    pub(super) coverage: Coverage,
    /// Whether the process shall end.
    pub(super) ends: bool,
}

impl Room {
    /// The state for the switch with this control socket, a table of this number of addresses, and a worker on each of
    /// these CPUs.
    pub fn new(control: PathBuf, bridges: SharedBridges, addresses: usize, cpus: Vec<usize>) -> Self {
        let (history, coverage) = (History::default(), Coverage::default());
        Room { control, bridges, addresses, cpus, history, coverage, ends: false }
    }

    /// The present bridges.
    pub fn bridges(&self) -> Vec<Served> {
        self.bridges.bridges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the database has limits of zones.
    pub fn limits_zones(&self) -> bool {
        self.bridges.limits_zones.load(Ordering::Relaxed)
    }

    /// Takes a sample of the event totals every few seconds.
    pub fn sample(&mut self, now: Instant) {
        if !self.coverage.is_due(now) {
            return;
        }
        // Without an answer there is none.
        if let Ok(counters) = self.counters() {
            self.coverage.add(totals(&counters));
            self.history.add(&counters);
        }
    }

    /// The counters of the switch.
    ///
    /// # Errors
    /// The switch does not answer. The error is a text for the user.
    pub fn counters(&self) -> Result<Value, String> {
        self.ask(Request::Stats)
    }

    /// Sends a request to the switch and returns the answer.
    ///
    /// # Errors
    /// The switch refuses the request, or does not answer. The error is a text for the user.
    pub(super) fn ask(&self, request: Request) -> Result<Value, String> {
        let ask = || Client::connect(&self.control)?.ask(request);
        ask().map_err(|error| error.to_string())
    }
}
