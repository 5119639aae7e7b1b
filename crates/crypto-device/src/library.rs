//! The library, called directly.
use vhost_user::codec::crypto::CryptoSetup;
use virtio::crypto::Status;

use crate::Rejected;
use crate::algorithm::Algorithm;

/// A session's algorithm without a device: no request, no ring, no copy. What a device costs is seen beside it.
pub struct Library(Algorithm);

impl Library {
    /// The algorithm of a set-up, with its key expanded.
    ///
    /// # Errors
    /// There is no such algorithm here, or it takes no such key or gives no such result.
    pub fn new(setup: &CryptoSetup) -> Result<Self, Rejected> {
        Algorithm::new(setup).map(Self)
    }

    /// Enciphers or deciphers in place.
    ///
    /// # Errors
    /// The status that a device would give.
    pub fn cipher_in_place(&self, encrypt: bool, iv: &[u8], data: &mut [u8]) -> Result<(), Status> {
        self.0.cipher_in_place(encrypt, iv, data)
    }

    /// Enciphers in place and gives the tag.
    ///
    /// # Errors
    /// The status that a device would give.
    pub fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8]) -> Result<[u8; 16], Status> {
        self.0.seal(nonce, aad, data)
    }

    /// The hash of these bytes.
    ///
    /// # Errors
    /// The status that a device would give.
    pub fn hash_of(&self, data: &[u8]) -> Result<Vec<u8>, Status> {
        self.0.hash_of(data)
    }

    /// The MAC of these bytes.
    ///
    /// # Errors
    /// The status that a device would give.
    pub fn mac_of(&self, data: &[u8]) -> Result<Vec<u8>, Status> {
        self.0.mac_of(data)
    }
}
