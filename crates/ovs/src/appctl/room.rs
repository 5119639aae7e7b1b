//! What commands ask.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Instant;

use control::{Client, Request};
use serde_json::Value;

use super::bridge::{Served, SharedBridges};
use super::coverage::{Coverage, totals};

/// The switch that is asked, and what is kept between two questions.
#[derive(Debug)]
pub struct Room {
    control: PathBuf,
    bridges: SharedBridges,
    /// Addresses that the table has room for.
    pub(super) addresses: usize,
    /// How often things happened.
    pub(super) coverage: Coverage,
    /// Whether the process is to end.
    pub(super) ends: bool,
}

impl Room {
    /// With a switch that has this control socket and a table of so many addresses.
    pub fn new(control: PathBuf, bridges: SharedBridges, addresses: usize) -> Self {
        Room { control, bridges, addresses, coverage: Coverage::default(), ends: false }
    }

    /// The bridges now.
    pub fn bridges(&self) -> Vec<Served> {
        self.bridges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a sample of what is counted every few seconds.
    pub fn sample(&mut self, now: Instant) {
        if !self.coverage.is_due(now) {
            return;
        }
        // Without an answer there is none.
        if let Ok(counters) = self.counters() {
            self.coverage.add(totals(&counters));
        }
    }

    /// The counters of the switch.
    ///
    /// # Errors
    /// The switch does not answer, in words.
    pub fn counters(&self) -> Result<Value, String> {
        self.ask(Request::Stats)
    }

    /// What the switch answers to a request.
    ///
    /// # Errors
    /// The switch refuses, or does not answer, in words.
    pub(super) fn ask(&self, request: Request) -> Result<Value, String> {
        let ask = || Client::connect(&self.control)?.ask(request);
        ask().map_err(|error| error.to_string())
    }
}
