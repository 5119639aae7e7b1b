//! One TLS session over a socket that does not wait.

use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use rustls::{ClientConnection, Connection, ServerConnection};

use crate::Keys;

/// Plaintext that is kept encrypted while the socket has no room, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// A TLS session. The socket is the caller's, and does not wait: its calls fail with `WouldBlock`.
#[derive(Debug)]
pub struct Session(Connection);

impl Session {
    /// The most bytes that one call of [`Session::read`] can have to give: a record, and part of the next one.
    pub const READ_BYTES: usize = 20 << 10;

    /// A session with a server at this address.
    ///
    /// # Errors
    /// `rustls` refuses the settings; it accepts those of [`crate::KeyFiles::read`].
    pub fn connect(keys: &Keys, address: IpAddr) -> io::Result<Self> {
        let session = ClientConnection::new(Arc::clone(&keys.client), address.into());
        session.map(|session| Self::of(session.into())).map_err(io::Error::other)
    }

    /// A session with a client.
    ///
    /// # Errors
    /// `rustls` refuses the settings; it accepts those of [`crate::KeyFiles::read`].
    pub fn accept(keys: &Keys) -> io::Result<Self> {
        let session = ServerConnection::new(Arc::clone(&keys.server));
        session.map(|session| Self::of(session.into())).map_err(io::Error::other)
    }

    fn of(mut session: Connection) -> Self {
        session.set_buffer_limit(Some(KEPT_BYTES));
        Session(session)
    }

    /// Whether the ends have not proved their keys yet.
    pub fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Whether bytes wait for room in the socket, of `bytes` that are still to be sent or of the session itself.
    pub fn waits(&self, bytes: &[u8]) -> bool {
        self.0.wants_write() || (!bytes.is_empty() && !self.0.is_handshaking())
    }

    /// Reads once from the socket, and gives all that this has decrypted. Returns 0 if nothing has come. `buffer` has at
    /// least [`Session::READ_BYTES`] bytes, so that nothing stays in the session: the socket says when to read again.
    ///
    /// # Errors
    /// The peer has ended the session, its certificate or its bytes are refused, or the socket failed.
    pub fn read(&mut self, socket: &mut (impl Read + Write), buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read_tls(socket) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if is_later(&error) => return Ok(0),
            Err(error) => return Err(error),
        }
        if let Err(error) = self.0.process_new_packets() {
            // The alert that says why, as far as the socket has room.
            let _ = self.0.write_tls(socket);
            return Err(io::Error::other(error));
        }
        let mut count = 0;
        while count < buffer.len() {
            match self.0.reader().read(&mut buffer[count..]) {
                // The peer has ended the session; the bytes before its end come first.
                Ok(0) if count == 0 => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// Sends bytes as far as the socket has room, and removes what was taken. While the handshake lasts, they wait.
    ///
    /// # Errors
    /// The socket failed.
    pub fn write(&mut self, socket: &mut impl Write, bytes: &mut Vec<u8>) -> io::Result<()> {
        loop {
            while self.0.wants_write() {
                match self.0.write_tls(socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            if bytes.is_empty() || self.0.is_handshaking() {
                return Ok(());
            }
            let taken = self.0.writer().write(bytes)?;
            bytes.drain(..taken);
            if taken == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;
    use crate::KeyFiles;

    /// Keys of an end and its authority, in files of this folder.
    fn keys(folder: &Path, authority: &str) -> Keys {
        let (key, own) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, authority);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let certificate = CertificateParams::default().signed_by(&own, &issuer).unwrap().pem();
        let write = |name: &str, text: &str| {
            let path = folder.join(format!("{authority}-{name}.pem"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let files = KeyFiles {
            private_key: write("key", &own.serialize_pem()),
            certificate: write("certificate", &certificate),
            authority: write("authority", &root),
        };
        files.read().unwrap()
    }

    /// Both ends of a connection, each with its socket, what it sends and what it received.
    struct End(Session, UnixStream, Vec<u8>, Vec<u8>);

    impl End {
        fn step(&mut self) -> io::Result<()> {
            let mut buffer = [0; Session::READ_BYTES];
            let End(session, socket, sent, received) = self;
            let count = session.read(socket, &mut buffer)?;
            received.extend_from_slice(&buffer[..count]);
            session.write(socket, sent)
        }
    }

    fn ends(client: &Keys, server: &Keys) -> [End; 2] {
        let (near, far) = UnixStream::pair().unwrap();
        [&near, &far].iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        let client = Session::connect(client, [192, 0, 2, 1].into()).unwrap();
        let bytes = |seed: usize| (0..1_000_000).map(|at| (at * seed % 251) as u8).collect();
        [
            End(client, near, bytes(3), Vec::new()),
            End(Session::accept(server).unwrap(), far, bytes(7), Vec::new()),
        ]
    }

    #[test]
    fn bytes_pass_in_both_directions_and_none_stay_in_a_session() {
        let folder = tempfile::tempdir().unwrap();
        let keys = keys(folder.path(), "ca");
        let [mut client, mut server] = ends(&keys, &keys);
        let sent = [client.2.clone(), server.2.clone()];
        // An end that hears nothing waits for its socket, and not for room to write.
        server.step().unwrap();
        assert!(server.0.is_handshaking() && !server.0.waits(&server.2) && client.0.waits(&[]));
        for _ in 0..10_000 {
            client.step().unwrap();
            server.step().unwrap();
            if client.3.len() == sent[1].len() && server.3.len() == sent[0].len() {
                break;
            }
        }
        assert!(server.3 == sent[0] && client.3 == sent[1], "{} {}", server.3.len(), client.3.len());
        drop(client);
        assert_eq!(server.step().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn ends_of_another_authority_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [keys, other] = ["ca", "other"].map(|authority| keys(folder.path(), authority));
        let mixed = Keys { client: Arc::clone(&other.client), server: Arc::clone(&keys.server) };
        for (client, server) in [(&other, &keys), (&mixed, &keys)] {
            let [mut client, mut server] = ends(client, server);
            let mut errors = Vec::new();
            for _ in 0..100 {
                errors.extend(client.step().err().map(|error| error.to_string()));
                errors.extend(server.step().err().map(|error| error.to_string()));
            }
            assert!(errors[0].contains("invalid peer certificate: UnknownIssuer"), "{errors:?}");
            assert!(errors.iter().any(|error| error.contains("UnknownCA")), "{errors:?}");
            assert!(server.3.is_empty(), "{} bytes", server.3.len());
        }
    }

    #[test]
    fn files_without_keys_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let none = folder.path().join("none");
        let device = Path::new("/dev/zero").to_owned();
        for path in [none, device, folder.path().to_owned()] {
            let files = KeyFiles { private_key: path.clone(), certificate: path.clone(), authority: path };
            let error = files.read().unwrap_err();
            assert!(error.ends_with("; name a file in PEM"), "{error}");
        }
    }
}
