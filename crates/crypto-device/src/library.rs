//! Direct calls of the library, without a device.
use vhost_user::codec::crypto::CryptoSetup;
use virtio::crypto::Status;

use crate::Rejected;
use crate::algorithm::Algorithm;

/// A session's algorithm without requests, rings or copies. Its cost, compared with a device's, shows the cost of the
/// device.
pub struct Library(Algorithm);

impl Library {
    /// The algorithm of a set-up, with its key expanded.
    ///
    /// # Errors
    /// The algorithm is not supported, or it takes no key or gives no result of this length.
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
