//! The state that controllers change. A clone shares each part that has not been changed since.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flow_tables::{Limits, Tables};

use crate::port::BridgePort;

/// Flows, groups, meters and ports.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub tables: Tables,
    /// The time at which each group was added.
    pub groups_since: Arc<BTreeMap<u32, Duration>>,
    /// The time at which each meter was added.
    pub meters_since: Arc<BTreeMap<u32, Duration>>,
    pub ports: Arc<BTreeMap<u16, BridgePort>>,
}

impl State {
    pub fn new(max_tags: u8, seed: u64, limits: Limits) -> Self {
        Self {
            tables: Tables::new(max_tags, seed, limits),
            groups_since: Arc::default(),
            meters_since: Arc::default(),
            ports: Arc::default(),
        }
    }
}
