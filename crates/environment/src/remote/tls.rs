//! TLS 1.3 only, by `rustls`; each end proves its key to the other.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use measure::Failure;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use super::keys::{self, FAR_NAME};

/// The most bytes that an end may send until it has proved its key: far more than two certificates need.
const HANDSHAKE_BYTES: usize = 64 << 10;

/// The far end's TLS settings: its own key, and the authority that a peer's certificate must be signed by.
///
/// # Errors
/// The file cannot be read, is accessible to other users, does not hold a private key and two certificates, or its
/// key and certificate do not match.
pub fn far(file: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let keys = keys::load(file)?;
    let failed = |error: String| unusable(file, &error);
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(keys.roots), provider.clone())
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| failed(error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![keys.certificate], keys.key)
        .map_err(|error| failed(error.to_string()))?;
    // Each connection proves the key anew, so that its end date counts.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The near end's TLS settings: its own key, and the authority that the far end's certificate must be signed by.
///
/// # Errors
/// The file cannot be read, is accessible to other users, does not hold a private key and two certificates, or its
/// key and certificate do not match.
pub fn near(file: &Path) -> Result<Arc<ClientConfig>, Failure> {
    let keys = keys::load(file)?;
    let failed = |error: rustls::Error| unusable(file, &error.to_string());
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(failed)?
        .with_root_certificates(keys.roots)
        .with_client_auth_cert(vec![keys.certificate], keys.key)
        .map_err(failed)?;
    Ok(Arc::new(config))
}

fn unusable(file: &Path, answer: &str) -> Failure {
    let remedy = "make new keys with `tautline agent keys`, and copy far.pem to the far end";
    Failure::new(format!("using the key file {}", file.display()), answer, remedy)
}

/// The far end's side of a new connection.
///
/// # Errors
/// `rustls` refuses the settings, as for an invalid fragment size. It accepts the settings of [`far`].
pub fn accept(config: &Arc<ServerConfig>) -> Result<Connection, rustls::Error> {
    Ok(ServerConnection::new(config.clone())?.into())
}

/// The near end's side of a new connection.
///
/// # Errors
/// `rustls` refuses the settings, as for an invalid fragment size. It accepts the settings of [`near`].
pub fn connect(config: &Arc<ClientConfig>) -> Result<Connection, rustls::Error> {
    let name = ServerName::try_from(FAR_NAME).expect("a host name");
    Ok(ClientConnection::new(config.clone(), name)?.into())
}

/// Proves each end's key to the other, within `limit` and [`HANDSHAKE_BYTES`].
///
/// # Errors
/// The peer closes the connection, does not prove its key within `limit` or within [`HANDSHAKE_BYTES`], or proves a
/// key that the authority did not sign or that has expired. Or the socket fails.
pub fn handshake(tls: &mut Connection, socket: &mut TcpStream, limit: Duration) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    let mut received = 0;
    while tls.is_handshaking() || tls.wants_write() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(limit));
        }
        if tls.wants_write() {
            socket.set_write_timeout(Some(left))?;
            tls.write_tls(socket).map_err(|error| or_late(error, limit))?;
            continue;
        }
        socket.set_read_timeout(Some(left))?;
        let mut bytes = [0; 4096];
        let count = socket.read(&mut bytes).map_err(|error| or_late(error, limit))?;
        if count == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it closed the connection before it had proved a key",
            ));
        }
        received += count;
        if received > HANDSHAKE_BYTES {
            return Err(io::Error::other(format!(
                "it sent more than {HANDSHAKE_BYTES} bytes without proving a key"
            )));
        }
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            tls.read_tls(&mut rest)?;
            if let Err(error) = tls.process_new_packets() {
                // The alert tells the other end why, if it can be sent at once.
                let _ = socket.set_write_timeout(Some(Duration::from_millis(100)));
                let _ = tls.write_tls(socket).and_then(|_| socket.flush());
                return Err(io::Error::other(error));
            }
        }
    }
    Ok(())
}

fn late(limit: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("it did not prove a key within {limit:?}"))
}

fn or_late(error: io::Error, limit: Duration) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late(limit),
        _ => error,
    }
}
