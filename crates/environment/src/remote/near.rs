//! The near end: connects, proves its key, and relays between its standard input and output and the far end.

use std::fs::File;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use measure::Failure;

use super::relay::{Ended, relay};
use super::tls;

/// The argument after `agent` that starts this end.
pub const ARGUMENT: &str = "--relay-to";

/// How long a connection may take to come up, and again to be proved.
const LIMIT: Duration = Duration::from_secs(10);

/// Relays until either side ends.
///
/// # Errors
/// The far end cannot be reached, does not prove its key, refuses this end's key, or ends by itself.
pub fn serve(address: &str, key: &Path) -> Result<(), Failure> {
    let config = tls::near(key)?;
    let mut socket = connect(address)?;
    let proving = |error: io::Error| {
        Failure::new(
            format!("authenticating to the agent at {address} with {}", key.display()),
            error,
            "use near.pem and far.pem of one `tautline agent keys`, at their ends and not expired; see what the far end printed",
        )
    };
    let mut session = tls::connect(&config).map_err(|error| proving(io::Error::other(error)))?;
    tls::handshake(&mut session, &mut socket, LIMIT).map_err(proving)?;
    let own = |fd: &dyn Fn() -> io::Result<std::os::fd::OwnedFd>| fd().map(File::from).map_err(proving);
    let mut input = own(&|| io::stdin().as_fd().try_clone_to_owned())?;
    let mut output = own(&|| io::stdout().as_fd().try_clone_to_owned())?;
    // In TLS 1.3 a refusal of our key arrives here: the far end judges it after our part of the handshake.
    match relay(&mut session, &mut socket, &mut input, &mut output).map_err(proving)? {
        Ended::Local => Ok(()),
        Ended::Peer => Err(Failure::new(
            format!("working with the agent at {address}"),
            "it closed the connection",
            "see what the far end printed; start `tautline agent --listen` there anew if it ended",
        )),
    }
}

fn connect(address: &str) -> Result<TcpStream, Failure> {
    let failed = |error: io::Error| {
        Failure::new(
            format!("connecting to the agent at {address}"),
            error,
            "start `tautline agent --listen ADDRESS` there, and let that port through the firewalls",
        )
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&address, LIMIT) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}
