//! The device's configuration space (VIRTIO 1.3 §5.9.4).
use super::{Aead, Cipher, Hash, Mac, Service};

/// The fields of `virtio_crypto_config` that a device chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CryptoConfig {
    /// Whether the device is ready (`VIRTIO_CRYPTO_S_HW_READY`).
    pub ready: bool,
    /// The number of data queues. The control queue comes after them.
    pub data_queues: u32,
    /// Services.
    pub services: Vec<Service>,
    /// Ciphers.
    pub ciphers: Vec<Cipher>,
    /// Hashes.
    pub hashes: Vec<Hash>,
    /// Message authentication codes.
    pub macs: Vec<Mac>,
    /// AEAD algorithms.
    pub aeads: Vec<Aead>,
    /// The longest key of a cipher in bytes.
    pub max_cipher_key_bytes: u32,
    /// The longest key of a MAC in bytes.
    pub max_auth_key_bytes: u32,
    /// The longest content of a request in bytes.
    pub max_request_bytes: u64,
}

impl CryptoConfig {
    /// Length in bytes.
    pub const BYTES: usize = 56;

    /// The bytes that the driver reads. No asymmetric algorithm is offered (`akcipher_algo` is 0).
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        fn mask(codes: impl Iterator<Item = u32>) -> u64 {
            codes.fold(0, |mask, code| mask | 1 << code)
        }
        let services = mask(self.services.iter().map(|service| service.code()));
        let ciphers = mask(self.ciphers.iter().map(|cipher| cipher.code()));
        let macs = mask(self.macs.iter().map(|mac| mac.code()));
        let words = [
            self.ready.into(),
            self.data_queues,
            services as u32,
            ciphers as u32,
            (ciphers >> 32) as u32,
            mask(self.hashes.iter().map(|hash| hash.code())) as u32,
            macs as u32,
            (macs >> 32) as u32,
            mask(self.aeads.iter().map(|aead| aead.code())) as u32,
            self.max_cipher_key_bytes,
            self.max_auth_key_bytes,
            0,
        ];
        let mut bytes = [0; Self::BYTES];
        for (into, word) in bytes.chunks_exact_mut(4).zip(words) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        bytes[48..].copy_from_slice(&self.max_request_bytes.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_specification_puts_them() {
        let config = CryptoConfig {
            ready: true,
            data_queues: 2,
            services: vec![Service::Cipher, Service::Aead],
            ciphers: vec![Cipher::AesCbc],
            hashes: vec![Hash::Sha256],
            macs: vec![Mac::HmacSha256, Mac::GmacAes],
            aeads: vec![Aead::AesGcm],
            max_cipher_key_bytes: 64,
            max_auth_key_bytes: 512,
            max_request_bytes: 0x1_0000_0000,
        };
        let bytes = config.to_bytes();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(
            (0..14).map(|at| word(4 * at)).collect::<Vec<_>>(),
            [1, 2, 0b1001, 8, 0, 16, 16, 1 << 9, 2, 64, 512, 0, 0, 1]
        );
    }
}
