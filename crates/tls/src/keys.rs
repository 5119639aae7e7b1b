//! The keys for `ssl:`: this end's own, and the authority that both ends' certificates are from.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::by_authority::ByAuthority;

/// The most bytes of a file: some hundred certificates.
const MOST_BYTES: u64 = 256 << 10;

/// The files of the keys, in PEM, as Open vSwitch's programs take them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFiles {
    /// This end's private key (`--private-key`).
    pub private_key: PathBuf,
    /// Its certificate (`--certificate`).
    pub certificate: PathBuf,
    /// The certificate of the authority that has signed both ends' (`--ca-cert`).
    pub authority: PathBuf,
}

/// Keys that were read.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Settings of an end that connects.
    pub client: Arc<ClientConfig>,
    /// Settings of an end that waits.
    pub server: Arc<ServerConfig>,
}

impl KeyFiles {
    /// The files of `--private-key`, `--certificate` and `--ca-cert`.
    ///
    /// # Errors
    /// The private key, the certificate or the authority's certificate is not given. The error is a text for the user.
    pub fn given(files: [&Option<PathBuf>; 3]) -> Result<Self, String> {
        let [Some(private_key), Some(certificate), Some(authority)] = files.map(Clone::clone) else {
            return Err("give --private-key, --certificate and --ca-cert too".to_owned());
        };
        Ok(KeyFiles { private_key, certificate, authority })
    }

    /// Reads the files, without waiting for a file that is a pipe or a device.
    ///
    /// # Errors
    /// A file cannot be read or has no such key. The error is a text for the user.
    pub fn read(&self) -> Result<Keys, String> {
        let bytes = content(&self.private_key)?;
        let key = PrivateKeyDer::from_pem_slice(&bytes)
            .map_err(|error| wrong(&self.private_key, &error.to_string()))?;
        let own = certificates(&self.certificate)?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.authority)? {
            roots.add(certificate).map_err(|error| wrong(&self.authority, &error.to_string()))?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let of_authority =
            |error: rustls::server::VerifierBuilderError| wrong(&self.authority, &error.to_string());
        let servers = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let servers = ByAuthority(servers.build().map_err(of_authority)?);
        let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let clients = clients.build().map_err(of_authority)?;
        let of_key = |error: rustls::Error| {
            wrong(&self.private_key, &format!("with {}: {error}", self.certificate.display()))
        };
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(servers))
            .with_client_auth_cert(own.clone(), key.clone_key())
            .map_err(of_key)?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(clients)
            .with_single_cert(own, key)
            .map_err(of_key)?;
        Ok(Keys { client: Arc::new(client), server: Arc::new(server) })
    }
}

fn wrong(path: &Path, why: &str) -> String {
    format!("{}: {why}; name a file in PEM", path.display())
}

/// The bytes of a file.
fn content(path: &Path) -> Result<Vec<u8>, String> {
    let read = || {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("it is no file"));
        }
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) if bytes.len() as u64 > MOST_BYTES => Err(wrong(path, "it has more than 256 KiB")),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(wrong(path, &error.to_string())),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = content(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err(wrong(path, "it has no certificate")),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(wrong(path, &error.to_string())),
    }
}
