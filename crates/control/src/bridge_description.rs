//! A bridge as the control protocol describes it.
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A bridge: a network of ports with flow tables of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeDescription {
    /// The network of its ports.
    pub network: String,
    /// The number by which controllers identify the bridge (datapath id).
    pub datapath_id: u64,
    /// Whether the bridge forwards nothing before it gets flows; if not, its ports learn addresses while it has no flows
    /// and no controller.
    #[serde(default)]
    pub secure: bool,
    /// The most VLAN tags of a frame that flows match and change, 1 or 2; 0 for as many as the switch can; `None` for 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan_limit: Option<u8>,
    /// The path at which OpenFlow is served; `None` for no such socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openflow: Option<PathBuf>,
    /// The path at which the messages from and to controllers are shown; `None` for no such socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoop: Option<PathBuf>,
    /// The bridge's controllers by their targets, as in ovs-vswitchd.conf.db(5): `tcp:IP:PORT`, `ssl:IP:PORT` and
    /// `unix:PATH` to connect to, `ptcp:PORT:IP`, `pssl:PORT:IP` and `punix:PATH` to wait at. A path is directly in the
    /// folder of `openflow`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub controllers: BTreeMap<String, ControllerDescription>,
}

/// The settings of a bridge's connection with a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerDescription {
    /// The time of silence in ms after which the controller is asked whether it is there; 0 for never, `None` for 5 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_ms: Option<u64>,
    /// The longest time in ms between two attempts to connect; `None` for 8 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_pause_ms: Option<u64>,
    /// The number of frames a second that the controller gets at most; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_per_second: Option<u32>,
    /// The number of such frames at once; `None` for a quarter of those of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// The keys of `ssl:` and `pssl:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<ControllerKeys>,
}

/// Files with keys, in PEM. They are read when a connection is made, or when the bridge begins to wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerKeys {
    /// The private key of the switch.
    pub private_key: PathBuf,
    /// The certificate of the switch.
    pub certificate: PathBuf,
    /// The certificate of the authority from which the controller's certificate is.
    pub authority: PathBuf,
}

/// What became of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct BridgeState {
    /// Why OpenFlow is not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The connection with a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ControllerState {
    /// Whether the bridge and the controller have agreed on a version.
    pub is_connected: bool,
    /// The controller's role: `other`, `master` or `slave`, as in ovs-vswitchd.conf.db(5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The seconds since the connection began or ended; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Why there is no connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
