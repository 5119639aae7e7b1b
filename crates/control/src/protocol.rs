//! The requests and answers on the control socket: a line of JSON each way, with a version.
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bridge_description::BridgeDescription;
use crate::connection_filter::ConnectionFilter;
use crate::port_description::PortDescription;

/// The version of this protocol. A program that reads another version refuses the line and names both.
pub const VERSION: u32 = 1;

/// The schema of the documents in answers.
pub const SCHEMA: &str = "tautline-ctl/1";

/// Bytes of a request at most.
pub const REQUEST_BYTES: usize = 64 << 10;

/// A request with its version.
#[derive(Debug, Deserialize, Serialize)]
pub struct Call {
    /// [`VERSION`] of the program that asks.
    pub version: u32,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
}

/// A request.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Returns ports, the features agreed on, and their counters.
    Ports,
    /// Returns the same as `Ports`, and the address table and the workers.
    Stats,
    /// Returns dropped frames by reason, the most frequent first.
    Drops,
    /// Returns the state of each ring, in words.
    Rings,
    /// The stations that are known: port, VLAN, address and the seconds since each was seen.
    Stations,
    /// Stations are forgotten, and learned again from their next frames.
    ForgetStations {
        /// The network of the stations; `None` for all networks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<String>,
    },
    /// Holds a station behind a port until the port is removed: it does not age, and frames from other ports that have
    /// its address as their source are dropped.
    HoldStation {
        /// The port's name.
        port: String,
        /// The VLAN of the station; 0 for frames without a tag.
        #[serde(default)]
        vlan: u16,
        /// The address.
        address: String,
    },
    /// Releases a held station and forgets its port: the switch learns the station again from its next frame.
    ReleaseStation {
        /// The network of the station.
        network: String,
        /// The VLAN of the station; 0 for frames without a tag.
        #[serde(default)]
        vlan: u16,
        /// The address.
        address: String,
    },
    /// Adds a port.
    Add(Add),
    /// Ends and removes a port.
    Remove {
        /// Its name.
        port: String,
    },
    /// Writes frames of a port to the file that comes with this request.
    Capture {
        /// The port's name.
        port: String,
        /// The number of frames after which the capture ends.
        count: Option<u64>,
        /// The most bytes of each frame that are written.
        snaplen: u32,
        /// Frames to keep, in the words of pcap-filter(7).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<String>,
    },
    /// Ends the capture of this connection.
    EndCapture,
    /// Names all ports that the switch shall have besides those of a configuration file. Missing ports are added,
    /// others removed, unchanged ones stay. Answered with an [`Applied`].
    Apply {
        /// The ports, by name.
        ports: BTreeMap<String, PortDescription>,
        /// All wires that the switch shall have between these ports. If `None`, wires stay as they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wires: Option<Vec<(String, String)>>,
    },
    /// Changes ports of one owner, such as a database. A description adds the port or changes it to be as
    /// described; `null` removes it. Ports that are not named, and ports of other owners, stay as they are.
    /// Answered with an [`Applied`].
    Change {
        /// The owner of the ports. Only requests with the same owner change or remove them.
        owner: String,
        /// The ports, by name.
        ports: BTreeMap<String, Option<PortDescription>>,
    },
    /// Names all bridges of one owner. Missing ones are made, others are removed with their flows, the flows of unchanged
    /// ones stay. Answered with `bridges`: a [`crate::BridgeState`] for each name.
    Bridges {
        /// The owner of the bridges. Only requests with the same owner change or remove them.
        owner: String,
        /// The bridges, by name.
        bridges: BTreeMap<String, BridgeDescription>,
    },
    /// Ends the tracked connections that a filter selects.
    FlushConnections(ConnectionFilter),
    /// Shows a part of the tracked connections. Answered with `connections` and `next`, the place from which the next part
    /// goes on, which is `null` at the end.
    Connections {
        /// The zone; `None` for all zones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone: Option<u16>,
        /// The place from which this part goes on; 0 for the first part.
        #[serde(default)]
        from: u64,
    },
    /// Changes limits of zones of tracked connections, and shows them. Answered with `connections` and `most`, the number
    /// of connections of the switch and the most that it can have, with `default` and with `zones`: `zone`, `limit` and
    /// `count` of each. A limit is `null` if there is none.
    ConnectionLimits {
        /// The limit of each zone without a limit of its own: 0 for none, `None` if it stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<u32>,
        /// Zones and their limits; `null` removes a zone's own limit.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        zones: Vec<(u16, Option<u32>)>,
        /// The zones to show; without any, those with a limit of their own.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shown: Vec<u16>,
    },
    /// Shows the tunnels, and the interfaces at whose addresses they end, with their routes and neighbours. Answered with
    /// `underlays`, `routes`, `tunnels` and `hop`.
    Tunnels {
        /// The address whose next hop is asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<IpAddr>,
    },
    /// Shows the connections of all bridges with controllers. Answered with `controllers`: for each bridge with
    /// controllers, a [`crate::ControllerState`] for each target.
    Controllers,
    /// Sends an [`Event`] for everything that happens to ports, until the connection ends.
    Subscribe,
    /// Another switch takes over all ports.
    TakeOver {
        /// The format of hand-overs that the other switch reads.
        format: u32,
    },
    /// Shows flows of a bridge. Answered with `flows`, a list of [`FlowEntry`].
    FlowsDump {
        /// The bridge; `None` for the only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bridge: Option<String>,
        /// Which flows: a match as `ovs-ofctl dump-flows` takes it, such as `table=1,ip`; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        matching: Option<String>,
    },
    /// Changes flows of a bridge: all as requested, or none. Answered with a [`FlowsChanged`]. A text that is too long
    /// for a request is in a memory file that comes with the request (`memfd_create`), which is sealed against writing
    /// and shrinking.
    FlowsChange {
        /// The bridge; `None` for the only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bridge: Option<String>,
        /// How they change.
        change: FlowsChange,
        /// A flow on each line, or for a deletion a match on each line. `None` if it is in the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Follows a frame through the tables of a bridge. Answered with `trace`, a text.
    FlowsTrace {
        /// The bridge; `None` for the only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bridge: Option<String>,
        /// The frame's input port and fields, as a match: `in_port=1,tcp,nw_dst=10.0.0.2`.
        flow: String,
        /// The frame's bytes in hexadecimal; with them, `flow` gives the input port and metadata alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        frame: Option<String>,
    },
    /// Copies the frames of a port to another port.
    Mirror {
        /// The port that is observed.
        from: String,
        /// The port that gets the copies.
        to: String,
        /// Only frames of this direction.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<Direction>,
    },
}

/// A flow and its counts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct FlowEntry {
    /// The flow's cookie.
    pub cookie: u64,
    /// Seconds since the flow was added.
    pub seconds: f64,
    /// The flow's table.
    pub table: u8,
    /// The frames that the flow has matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The rest of the flow, as `ovs-ofctl` writes it.
    pub flow: String,
}

/// How [`Request::FlowsChange`] changes flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowsChange {
    /// Adds flows. A flow with the same table, priority and match is replaced.
    Add,
    /// Deletes the flows that a match covers.
    Delete,
    /// Deletes the flow with exactly this match and priority.
    DeleteStrict,
    /// Makes the flows of the bridge exactly these. Flows that are the same keep their counts.
    Replace,
}

/// The answer to [`Request::FlowsChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct FlowsChanged {
    /// The number of flows that the bridge has now.
    pub flows: u64,
}

/// A direction of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Frames that the switch receives from the port.
    FromGuest,
    /// Frames that the switch sends to the port.
    ToGuest,
}

/// A port to add.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "AddFields", untagged)]
pub enum Add {
    /// The port by its description.
    Described {
        /// Its name.
        name: String,
        /// The description.
        port: PortDescription,
    },
    /// The port in the syntax of the command line, as programs of earlier versions send it.
    Text {
        /// `NAME=KIND:TARGET`, with options.
        port: String,
        /// As [`PortDescription::allow`].
        allow: Vec<String>,
        /// As [`PortDescription::max_frame`].
        max_frame: Option<u32>,
        /// As [`PortDescription::flood_limit`].
        flood_limit: Option<u32>,
        /// As [`PortDescription::police`].
        police: Vec<String>,
    },
}

/// The fields of both forms of [`Add`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddFields {
    name: Option<String>,
    port: Value,
    allow: Option<Vec<String>>,
    max_frame: Option<u32>,
    flood_limit: Option<u32>,
    police: Option<Vec<String>>,
}

impl TryFrom<AddFields> for Add {
    type Error = String;

    fn try_from(fields: AddFields) -> Result<Self, String> {
        let AddFields { name, port, allow, max_frame, flood_limit, police } = fields;
        match (name, port) {
            (None, Value::String(port)) => Ok(Add::Text {
                port,
                allow: allow.unwrap_or_default(),
                max_frame,
                flood_limit,
                police: police.unwrap_or_default(),
            }),
            (Some(name), port @ Value::Object(_)) => {
                if allow.is_some() || max_frame.is_some() || flood_limit.is_some() || police.is_some() {
                    return Err("limits of the port belong into 'port'".to_owned());
                }
                let port = serde_json::from_value(port).map_err(|error| format!("port: {error}"))?;
                Ok(Add::Described { name, port })
            }
            _ => Err("write 'name', and 'port' with kind and target".to_owned()),
        }
    }
}

/// Something that happened to a port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Event {
    /// What happened.
    pub event: EventKind,
    /// The port's name.
    pub port: String,
}

/// The kind of event of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The port was added and has started.
    Added,
    /// The port was ended and removed.
    Removed,
    /// The first queue of the port runs.
    Connected,
    /// No queue of the port runs any more.
    Disconnected,
    /// The port has ended by an error.
    Stopped,
    /// An event that this version does not know.
    #[serde(other)]
    Unknown,
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventKind::Added => "added",
            EventKind::Removed => "removed",
            EventKind::Connected => "connected",
            EventKind::Disconnected => "disconnected",
            EventKind::Stopped => "stopped",
            EventKind::Unknown => "unknown",
        })
    }
}

/// The changes that [`Request::Apply`] made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Applied {
    /// The changes in the order in which they were made; none for an unchanged port.
    pub changes: Vec<Change>,
}

/// A change of a port, made or failed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Change {
    /// The port's name.
    pub port: String,
    /// The change, made or tried: `added`, `removed`, `given other limits`, `brought back as it was`, `wired to
    /// NAME`, `unwired from NAME`.
    pub change: String,
    /// Why the change failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { port, change, .. } = self;
        match &self.error {
            None => write!(f, "{port}: {change}"),
            Some(why) => write!(f, "{port}: not {change}: {why}"),
        }
    }
}

/// An answer with its version.
#[derive(Debug, Deserialize, Serialize)]
pub struct Answer {
    /// [`VERSION`] of the switch.
    pub version: u32,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The result of a request.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The request was carried out; this is the answer's document.
    Ok(Value),
    /// The request failed, for this reason.
    Error(String),
}

impl Outcome {
    /// The line of JSON for this answer.
    pub fn line(self) -> Vec<u8> {
        let answer = Answer { version: VERSION, outcome: self };
        let mut line = serde_json::to_vec(&answer).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// Reads a request's line.
///
/// # Errors
/// The line is no request of this version.
pub fn parse(line: &[u8]) -> Result<Request, String> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let said: Version = serde_json::from_slice(line)
        .map_err(|error| format!("not a request: {error}; send a line of JSON with version and command"))?;
    if said.version != VERSION {
        let said = said.version;
        return Err(format!(
            "version {said} is not spoken here, {VERSION} is; use the 'tautline' of this switch"
        ));
    }
    let call: Call = serde_json::from_slice(line).map_err(|error| format!("not understood: {error}"))?;
    Ok(call.request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_back_and_other_versions_are_told_apart() {
        let text = Add::Text {
            port: "a=tap:t".into(),
            allow: vec![],
            max_frame: None,
            flood_limit: Some(0),
            police: vec![],
        };
        let port = PortDescription { kind: "tap".into(), target: "t".into(), ..PortDescription::default() };
        let described = Add::Described { name: "a".into(), port };
        let adds = [text, described].map(Request::Add);
        for request in [Request::Ports, Request::Remove { port: "a".into() }].into_iter().chain(adds) {
            let said = format!("{request:?}");
            let line = serde_json::to_vec(&Call { version: VERSION, request }).unwrap();
            assert_eq!(format!("{:?}", parse(&line).unwrap()), said, "{}", String::from_utf8_lossy(&line));
        }
        let other = parse(br#"{"version":2,"command":"levitate"}"#).unwrap_err();
        assert!(other.contains("version 2") && other.contains('1'), "{other}");
        assert!(parse(br#"{"version":1,"command":"levitate"}"#).unwrap_err().contains("levitate"));
        assert!(parse(b"hello").unwrap_err().contains("JSON"));
        assert!(parse(b"{}").is_err() && parse(b"").is_err() && parse(&[0xff; 9]).is_err());
    }

    #[test]
    fn a_port_that_is_not_understood_is_named() {
        for (fields, said) in [
            (r#""port":"a=tap:t","allow":[]"#, None),
            (r#""name":"a","port":{"kind":"tap","target":"t"}"#, None),
            (r#""port":{"kind":"tap","target":"t"}"#, Some("write 'name'")),
            (r#""name":"a","port":{"kind":"tap"}"#, Some("port: missing field `target`")),
            (r#""name":"a","port":"a=tap:t""#, Some("write 'name'")),
            (r#""name":"a","port":{"kind":"tap","target":"t"},"flood_limit":1"#, Some("belong into 'port'")),
            (r#""name":"a","port":{"kind":"tap","target":"t"},"color":1"#, Some("color")),
        ] {
            let line = format!(r#"{{"version":1,"command":"add",{fields}}}"#);
            let refused = parse(line.as_bytes()).err();
            assert_eq!(refused.is_some(), said.is_some(), "{line}: {refused:?}");
            assert!(refused.is_none_or(|error| error.contains(said.unwrap_or_default())), "{line}");
        }
    }
}
