//! The keys for `ssl:`: this end's own, and the authority that both ends' certificates are from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

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

    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or has no such key. The error is a text for the user.
    pub fn read(&self) -> Result<Arc<ClientConfig>, String> {
        let wrong = |path: &Path, why: String| format!("{}: {why}; name a file in PEM", path.display());
        let key = PrivateKeyDer::from_pem_file(&self.private_key)
            .map_err(|error| wrong(&self.private_key, error.to_string()))?;
        let own = certificates(&self.certificate)?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.authority)? {
            roots.add(certificate).map_err(|error| wrong(&self.authority, error.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|error| wrong(&self.authority, error.to_string()))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ByAuthority(verifier)))
            .with_client_auth_cert(own, key)
            .map_err(|error| {
                wrong(&self.private_key, format!("with {}: {error}", self.certificate.display()))
            })?;
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => Err(format!("{} has no certificate", path.display())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("{}: {error}; name a file in PEM", path.display())),
    }
}

/// Accepts each server whose certificate is from the authority, whatever its name: the certificates of Open vSwitch
/// (ovs-pki(8)) name no addresses.
#[derive(Debug)]
struct ByAuthority(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for ByAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is compared last, after all else was found valid.
        let verified = self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
