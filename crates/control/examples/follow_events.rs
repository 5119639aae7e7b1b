//! Adds a port to a running switch, and prints what happens to the ports until that port is removed:
//! `follow_events /run/tautline/control three vhost-user /tmp/three.sock`
use std::error::Error;
use std::io::Write;
use std::path::Path;

use control::{Client, EventKind, PortDescription};

/// Adds the port and writes a line for each event.
pub fn follow(
    socket: &Path,
    name: &str,
    port: PortDescription,
    mut out: impl Write,
) -> Result<(), Box<dyn Error>> {
    // First: an event that comes between the two is not missed.
    let mut events = Client::connect(socket)?.subscribe()?;
    Client::connect(socket)?.add(name, port)?;
    loop {
        let event = events.next(None)?;
        writeln!(out, "{}: {}", event.port, event.event)?;
        if event.port == name && event.event == EventKind::Removed {
            return Ok(());
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, name, kind, target] = &arguments[..] else {
        return Err("write SOCKET NAME KIND TARGET".into());
    };
    let port = PortDescription { kind: kind.clone(), target: target.clone(), ..PortDescription::default() };
    follow(Path::new(socket), name, port, std::io::stdout())
}
