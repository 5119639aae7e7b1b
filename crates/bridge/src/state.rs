//! The state that controllers change. A clone shares each part that has not been changed since.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flow_tables::{Limits, MeterState, Tables};

use crate::port::BridgePort;

/// A meter, and the time at which it was added.
#[derive(Clone, Debug)]
pub(crate) struct MeterEntry {
    pub state: MeterState,
    pub since: Duration,
}

/// Flows, groups, meters and ports.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub tables: Tables,
    /// The time at which each group was added.
    pub groups_since: Arc<BTreeMap<u32, Duration>>,
    pub meters: Arc<BTreeMap<u32, MeterEntry>>,
    pub ports: Arc<BTreeMap<u16, BridgePort>>,
}

impl State {
    pub fn new(max_tags: u8, seed: u64, limits: Limits) -> Self {
        Self {
            tables: Tables::new(max_tags, seed, limits),
            groups_since: Arc::default(),
            meters: Arc::default(),
            ports: Arc::default(),
        }
    }
}
