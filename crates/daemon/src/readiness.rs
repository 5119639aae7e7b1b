//! Notifies systemd of the service's state (sd_notify(3)): a datagram to the socket that systemd names.
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

/// All ports have started.
pub fn ready() {
    tell("READY=1");
}

/// This process continues in place of another, whose process id the manager knows.
pub fn main_process(process: Pid) {
    tell(&format!("MAINPID={}", process.as_raw_pid()));
}

/// The configuration is being read again; `ready` follows.
pub fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let microseconds = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
}

/// The switch is about to end.
pub fn stopping() {
    tell("STOPPING=1");
}

/// Sends a state to systemd, if it has named a socket. Does not wait for a reader, and ignores errors.
fn tell(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(std::path::Path::new(
            &std::env::var_os("NOTIFY_SOCKET").unwrap_or_default(),
        )),
    };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    if let (Ok(address), Ok(())) = (address, socket.set_nonblocking(true)) {
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}
