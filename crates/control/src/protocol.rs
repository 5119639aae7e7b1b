//! The requests and answers on the control socket: a line of JSON each way, with a version.
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Ports, what they agreed on, their counters.
    Ports,
    /// The table and the workers as well.
    Stats,
    /// Dropped frames by reason, most first.
    Drops,
    /// How each ring stands, in words.
    Rings,
    /// The stations that are known: port, VLAN, address and the seconds since each was seen.
    Stations,
    /// Stations are forgotten, and learned again from their next frames.
    ForgetStations {
        /// The network whose stations they are; all if `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<String>,
    },
    /// Adds a port.
    Add(Add),
    /// Ends a port and forgets it.
    Remove {
        /// Its name.
        port: String,
    },
    /// Frames of a port go to the file that comes with this request.
    Capture {
        /// The port's name.
        port: String,
        /// Frames until the end.
        count: Option<u64>,
        /// Bytes of each frame at most.
        snaplen: u32,
        /// Frames to keep, in the words of pcap-filter(7).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<String>,
    },
    /// The capture of this connection ends.
    EndCapture,
    /// All ports that there are to be, but for those of a configuration file: what is missing is added, what is not
    /// wanted is removed, what is the same goes on. Answered with an [`Applied`].
    Apply {
        /// The ports, by name.
        ports: BTreeMap<String, PortDescription>,
        /// All wires that there are to be between these ports. If `None`, wires stay as they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wires: Option<Vec<(String, String)>>,
    },
    /// Ports of one owner, such as a database: a description adds the port or makes it be as described, `null` removes
    /// it. Ports that are not named, and ports of others, stay as they are. Answered with an [`Applied`].
    Change {
        /// Whose ports they are. Only requests with the same owner change or remove them.
        owner: String,
        /// The ports, by name.
        ports: BTreeMap<String, Option<PortDescription>>,
    },
    /// An [`Event`] comes for all that happens to ports from now on, until the connection ends.
    Subscribe,
    /// Another switch goes on with everything.
    TakeOver {
        /// The format of hand-overs that it reads.
        format: u32,
    },
    /// Frames of a port are copied to another port.
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
    /// By its description.
    Described {
        /// Its name.
        name: String,
        /// What it is.
        port: PortDescription,
    },
    /// As on the command line: what programs of earlier versions send.
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

/// What happened to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// It was added and has started.
    Added,
    /// It was ended and forgotten.
    Removed,
    /// The first of its queues runs.
    Connected,
    /// None of its queues runs any more.
    Disconnected,
    /// It has ended by an error.
    Stopped,
    /// Something that this version does not know.
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

/// What [`Request::Apply`] has changed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Applied {
    /// In the order in which it was done; nothing for a port that is the same.
    pub changes: Vec<Change>,
}

/// What was done to a port, or could not be.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Change {
    /// The port's name.
    pub port: String,
    /// What was done, or tried: `added`, `removed`, `given other limits`, `brought back as it was`, `wired to NAME`,
    /// `unwired from NAME`.
    pub change: String,
    /// Why it could not be done.
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
    /// Done; the answer's document.
    Ok(Value),
    /// Not done, and why.
    Error(String),
}

impl Outcome {
    /// The line that answers with this.
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
