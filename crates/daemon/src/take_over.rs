//! `--take-over`: this switch continues in place of a running one. The other switch's end is in `control_socket`.
//!
//! ```text
//!   new: workers wait for frames
//!        take-over, format        ──►  old: checks who asks, stands still
//!        state, descriptors       ◄──
//!   new: all ports go on; no frame has moved
//!        taken over               ──►  old: ends without a word to front-ends
//!   new: frames move
//! ```
//!
//! The old switch continues if the new one ends, sends anything else than the confirmation, or takes too long. The
//! old switch closes its end first, so the confirmation has either arrived by then or cannot be sent any more.
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use control::protocol::{Answer, Call, Outcome, Request, VERSION};
use linux::peer::peer;
use rustix::process::geteuid;
use serde::Deserialize;
use switch::SwitchState;

use crate::exchange::{Exchange, connect_by};
use crate::hand_over_format::{self as format, FORMAT, HandOver, Owned, TAKEN};

/// How long the running switch may take to hand over its state, from the connection on.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most bytes of a switch's state.
const MAX_BYTES: usize = 1 << 30;

/// The state that the running switch has handed over.
pub struct Inherited {
    pub state: SwitchState,
    /// The old switch's control socket.
    pub control: Option<OwnedFd>,
    /// The ports and bridges of owners.
    pub owned: Owned,
}

/// The connection to the running switch.
pub struct TakeOver {
    path: PathBuf,
    socket: Option<UnixStream>,
    stood_still_at: u64,
}

impl TakeOver {
    pub fn new(path: PathBuf) -> Self {
        TakeOver { path, socket: None, stood_still_at: 0 }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the running switch to stand still and to hand over its state and descriptors.
    ///
    /// # Errors
    /// No switch listens at the path, another user runs it, it refuses or does not answer within 10 s, its format is
    /// too old or too new, or not all of its descriptors came (`ulimit -n`).
    pub fn ask(&mut self) -> Result<Inherited, String> {
        let path = self.path.display().to_string();
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what} {path}: {error}");
        let deadline = Instant::now() + PATIENCE;
        let socket = connect_by(deadline, &self.path).map_err(|error| {
            failed("connecting to", &format_args!("{error}; name the --control socket of a running switch"))
        })?;
        let system = |error: io::Error| failed("talking to the switch at", &error);
        if peer(&socket).map_err(system)?.user != geteuid() {
            let why = "another user runs it; start this one as the same user";
            return Err(failed("the switch at", &why));
        }
        let call = Call { version: VERSION, request: Request::TakeOver { format: FORMAT } };
        let mut line = serde_json::to_vec(&call).map_err(|error| failed("asking", &error))?;
        line.push(b'\n');
        let exchange = Exchange::new(&socket, deadline);
        exchange.send(&line, &[]).map_err(system)?;
        let (bytes, files) = receive(&exchange).map_err(|why| failed("the switch at", &why))?;
        let handed = format::read(&bytes).map_err(|why| failed("the switch at", &why))?;
        self.stood_still_at = handed.stood_still_at;
        let inherited = inherit(handed, files).map_err(|why| failed("the switch at", &why))?;
        self.socket = Some(socket);
        Ok(inherited)
    }

    /// Confirms to the running switch that this one has taken over. Returns how long neither switch moved a frame.
    ///
    /// # Errors
    /// [`TakeOver::ask`] has not succeeded before, or the running switch has closed the connection and goes on.
    pub fn take_charge(&mut self) -> Result<Duration, String> {
        let gone =
            |error: &dyn std::fmt::Display| format!("the running switch went on without this one: {error}");
        let socket = self.socket.take().ok_or_else(|| gone(&"it is not connected"))?;
        let exchange = Exchange::new(&socket, Instant::now() + PATIENCE);
        exchange.send(TAKEN, &[]).map_err(|error| gone(&error))?;
        Ok(Duration::from_nanos(format::now().saturating_sub(self.stood_still_at)))
    }
}

fn inherit(handed: HandOver, files: Vec<OwnedFd>) -> Result<Inherited, String> {
    let mut files: Vec<Option<OwnedFd>> = files.into_iter().map(Some).collect();
    let mut take = |at: usize| {
        files.get_mut(at).and_then(Option::take).ok_or_else(|| format!("descriptor {at} did not come along"))
    };
    let control = handed.control.map(&mut take).transpose()?;
    let mut state = SwitchState::default();
    if let Some(at) = handed.connections {
        let mut file = File::from(take(at)?);
        let mut read = || {
            file.rewind()
                .and_then(|()| Read::take(&file, MAX_BYTES as u64).read_to_end(&mut state.connections.bytes))
        };
        read().map_err(|error| format!("reading its connections: {error}"))?;
        state.connections.ports = handed.connection_ports;
    }
    for (name, port) in handed.ports {
        let files = port.files.into_iter().map(|at| take(at).map(Into::into)).collect::<Result<_, _>>()?;
        state.ports.insert(name, port::PortState { words: port.words, files });
    }
    let without_vlan = handed.stations.into_iter().map(|(address, name)| (0, address, name));
    for (vlan, address, name) in without_vlan.chain(handed.vlan_stations) {
        if let Ok(address) = address.parse() {
            state.stations.push((vlan, address, name));
        }
    }
    Ok(Inherited { state, control, owned: handed.owned })
}

/// Reads the answer's line, then as many bytes and descriptors as the line announces.
fn receive(exchange: &Exchange<'_>) -> Result<(Vec<u8>, Vec<OwnedFd>), String> {
    #[derive(Deserialize)]
    struct Coming {
        bytes: usize,
        files: usize,
    }
    const CLOSED: &str = "it closed the connection";
    let (mut line, mut files) = (Vec::new(), Vec::new());
    let mut byte = [0];
    // Descriptors come with the bytes behind it, so not one byte more is read.
    while byte != *b"\n" && line.len() < 1 << 16 {
        match exchange.receive(&mut byte, &mut files) {
            Ok(0) => return Err(format!("it did not answer: {CLOSED}")),
            Ok(_) => line.push(byte[0]),
            Err(error) => return Err(format!("it did not answer: {error}")),
        }
    }
    let answer: Answer = serde_json::from_slice(&line).map_err(|error| format!("not understood: {error}"))?;
    let coming: Coming = match answer.outcome {
        Outcome::Ok(value) => {
            serde_json::from_value(value).map_err(|error| format!("not understood: {error}"))?
        }
        Outcome::Error(why) => return Err(why),
    };
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while bytes.len() < coming.bytes.min(MAX_BYTES) {
        let room = buffer.len().min(coming.bytes - bytes.len());
        let received = exchange
            .receive(&mut buffer[..room], &mut files)
            .map_err(|error| format!("its state did not come: {error}"))?;
        if received == 0 {
            return Err(CLOSED.to_owned());
        }
        bytes.extend_from_slice(&buffer[..received]);
    }
    if files.len() != coming.files {
        let (came, of) = (files.len(), coming.files);
        return Err(format!("{came} of its {of} descriptors came; raise the open-files limit (ulimit -n)"));
    }
    Ok((bytes, files))
}
