//! The requests and answers on the control socket: a line of JSON each way, with a version.
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of this protocol. A program that reads another version refuses the line and names both.
pub const VERSION: u32 = 1;

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
    },
}

/// A port as on the command line.
#[derive(Debug, Deserialize, Serialize)]
pub struct Add {
    /// `NAME=KIND:TARGET`.
    pub port: String,
    /// The only source addresses that its frames may have; any if it is empty.
    pub allow: Vec<String>,
    /// Bytes of the longest frame from it.
    pub max_frame: Option<u32>,
    /// Frames a second from it that may go to several ports, 0 for any number.
    pub flood_limit: Option<u32>,
    /// Rates that frames from it are held to, such as `100kpps`.
    #[serde(default)]
    pub police: Vec<String>,
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
        let add = Add {
            port: "a=tap:t".into(),
            allow: vec![],
            max_frame: None,
            flood_limit: Some(0),
            police: vec![],
        };
        for request in [Request::Ports, Request::Add(add), Request::Remove { port: "a".into() }] {
            let line = serde_json::to_vec(&Call { version: VERSION, request }).unwrap();
            assert!(parse(&line).is_ok(), "{}", String::from_utf8_lossy(&line));
        }
        let other = parse(br#"{"version":2,"command":"levitate"}"#).unwrap_err();
        assert!(other.contains("version 2") && other.contains('1'), "{other}");
        assert!(parse(br#"{"version":1,"command":"levitate"}"#).unwrap_err().contains("levitate"));
        assert!(parse(b"hello").unwrap_err().contains("JSON"));
        assert!(parse(b"{}").is_err() && parse(b"").is_err() && parse(&[0xff; 9]).is_err());
    }
}
