//! The measured algorithms: each as a session, a request, and a call of the library.
use std::hint::black_box;

use crypto_device::Library;
use vhost_user::codec::crypto::CryptoSetup;
use virtio::crypto::{Aead, Cipher, Hash, Mac, Status};

use crate::{DriverError, request};

/// Keys, IVs, nonces and associated data. A session's halves of a key differ, as XTS demands.
const KEY: [u8; 64] = {
    let mut key = [0; 64];
    let mut at = 0;
    while at < key.len() {
        key[at] = at as u8;
        at += 1;
    }
    key
};
const IV: [u8; 16] = [0x49; 16];
const NONCE: [u8; 12] = [0x4e; 12];
/// Additional data with the length of a TLS record's header.
const AAD: [u8; 13] = [0x41; 13];
const TAG_BYTES: usize = 16;

/// An algorithm with its key length and direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// The name on the command line.
    pub name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cipher { cipher: Cipher, key_bytes: usize, encrypt: bool },
    Seal { aead: Aead, key_bytes: usize },
    Hash { hash: Hash, bytes: u32 },
    Mac { mac: Mac, key_bytes: usize, bytes: u32 },
}

const fn cipher(name: &'static str, cipher: Cipher, key_bytes: usize, encrypt: bool) -> Algorithm {
    Algorithm { name, kind: Kind::Cipher { cipher, key_bytes, encrypt } }
}

impl Algorithm {
    /// All algorithms that are measured. CBC is measured in both directions, because only decryption can process
    /// several blocks at once.
    pub const ALL: [Algorithm; 10] = [
        cipher("aes-128-cbc", Cipher::AesCbc, 16, true),
        cipher("aes-128-cbc-decrypt", Cipher::AesCbc, 16, false),
        cipher("aes-128-ctr", Cipher::AesCtr, 16, true),
        cipher("aes-256-xts", Cipher::AesXts, 64, true),
        Algorithm { name: "aes-128-gcm", kind: Kind::Seal { aead: Aead::AesGcm, key_bytes: 16 } },
        Algorithm {
            name: "chacha20-poly1305",
            kind: Kind::Seal { aead: Aead::ChaCha20Poly1305, key_bytes: 32 },
        },
        Algorithm { name: "sha-256", kind: Kind::Hash { hash: Hash::Sha256, bytes: 32 } },
        Algorithm { name: "sha-512", kind: Kind::Hash { hash: Hash::Sha512, bytes: 64 } },
        Algorithm {
            name: "hmac-sha-256",
            kind: Kind::Mac { mac: Mac::HmacSha256, key_bytes: 32, bytes: 32 },
        },
        Algorithm { name: "aes-128-cmac", kind: Kind::Mac { mac: Mac::CmacAes, key_bytes: 16, bytes: 16 } },
    ];

    /// The session for this algorithm.
    pub fn setup(&self) -> CryptoSetup {
        match self.kind {
            Kind::Cipher { cipher, key_bytes, .. } => request::cipher_session(cipher, &KEY[..key_bytes]),
            Kind::Seal { aead, key_bytes } => request::aead_session(aead, &KEY[..key_bytes]),
            Kind::Hash { hash, bytes } => request::hash_session(hash, bytes),
            Kind::Mac { mac, key_bytes, bytes } => request::mac_session(mac, &KEY[..key_bytes], bytes),
        }
    }

    /// A request in that session, and the bytes of its result.
    pub fn request(&self, session: u64, data: &[u8]) -> (Vec<u8>, usize) {
        match self.kind {
            Kind::Cipher { encrypt, .. } => (request::cipher(session, encrypt, &IV, data), data.len()),
            Kind::Seal { .. } => {
                let result = data.len() + TAG_BYTES;
                (request::aead(session, true, &NONCE, &AAD, data, result), result)
            }
            Kind::Hash { bytes, .. } => (request::hash(session, data, bytes), bytes as usize),
            Kind::Mac { bytes, .. } => (request::mac(session, data, bytes), bytes as usize),
        }
    }

    /// The most bytes of a request in addition to its data.
    pub const fn overhead_bytes() -> usize {
        virtio::crypto::DataRequest::BYTES + IV.len() + AAD.len() + TAG_BYTES + 64
    }

    /// A direct call of the library for this algorithm.
    ///
    /// # Errors
    /// The library does not have the algorithm.
    pub fn library(&self) -> Result<Work, DriverError> {
        let failed = |answer: String| DriverError::Library { what: self.name.to_owned(), answer };
        let library = Library::new(&self.setup()).map_err(|rejected| failed(rejected.to_string()))?;
        Ok(Work { algorithm: *self, library })
    }
}

impl std::str::FromStr for Algorithm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = Self::ALL;
        all.into_iter().find(|algorithm| algorithm.name == name).ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|algorithm| algorithm.name).collect();
            format!("{name} is not measured; there are {}", names.join(", "))
        })
    }
}

/// The library with its expanded key.
pub struct Work {
    algorithm: Algorithm,
    library: Library,
}

impl Work {
    /// Works on these bytes once, in place where the algorithm changes them. Returns the algorithm's result that is not
    /// written in place.
    fn done(&self, data: &mut [u8]) -> Result<Vec<u8>, Status> {
        match self.algorithm.kind {
            Kind::Cipher { encrypt, .. } => {
                self.library.cipher_in_place(encrypt, &IV, data).map(|()| Vec::new())
            }
            Kind::Seal { .. } => self.library.seal(&NONCE, &AAD, data).map(|tag| tag.to_vec()),
            Kind::Hash { .. } => self.library.hash_of(data),
            Kind::Mac { .. } => self.library.mac_of(data),
        }
    }

    /// Processes these bytes once, to measure the time.
    ///
    /// # Errors
    /// The library reports an error.
    pub fn once(&self, data: &mut [u8]) -> Result<(), DriverError> {
        black_box(self.done(black_box(data)).map_err(|status| self.failed(status))?);
        Ok(())
    }

    /// The result for these bytes, as a device gives it.
    ///
    /// # Errors
    /// The library reports an error.
    pub fn result(&self, data: &[u8]) -> Result<Vec<u8>, DriverError> {
        let mut data = data.to_vec();
        let behind = self.done(&mut data).map_err(|status| self.failed(status))?;
        Ok(match self.algorithm.kind {
            Kind::Cipher { .. } | Kind::Seal { .. } => [data, behind].concat(),
            Kind::Hash { .. } | Kind::Mac { .. } => behind,
        })
    }

    fn failed(&self, status: Status) -> DriverError {
        DriverError::Library { what: self.algorithm.name.to_owned(), answer: format!("{status:?}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_known_by_its_name_and_the_library_has_it() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name.parse(), Ok(algorithm));
            let data = [7; 64];
            let (request, result_bytes) = algorithm.request(1, &data);
            assert_eq!(algorithm.library().unwrap().result(&data).unwrap().len(), result_bytes);
            assert!(request.len() <= data.len() + Algorithm::overhead_bytes());
        }
        assert!("rot-13".parse::<Algorithm>().unwrap_err().contains("aes-128-gcm"));
    }
}
