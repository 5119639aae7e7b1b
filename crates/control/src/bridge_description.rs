//! A bridge as the control protocol describes it.
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A bridge: a network of ports with flow tables of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeDescription {
    /// The network of its ports.
    pub network: String,
    /// The number by which controllers identify it (datapath id).
    pub datapath_id: u64,
    /// Whether the bridge forwards nothing before it gets flows; if not, its ports learn addresses.
    #[serde(default)]
    pub secure: bool,
    /// The path at which OpenFlow is served; `None` for no such socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openflow: Option<PathBuf>,
}

/// What became of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct BridgeState {
    /// Why OpenFlow is not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
