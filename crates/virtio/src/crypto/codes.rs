//! Codes of services, operations, algorithms and results (VIRTIO 1.3 §5.9.4, §5.9.7).

/// Codes that are told apart by number, with the numbers that the specification gives.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident: $number:ty { $($(#[$of:meta])* $variant:ident = $code:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$of])* $variant,)+ }

        impl $name {
            /// All values, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The number in a request.
            pub const fn code(self) -> $number {
                match self { $(Self::$variant => $code,)+ }
            }

            /// The meaning of a number; `None` if it is not in the list above.
            pub const fn from_code(code: $number) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }
        }
    )+};
}

codes! {
    /// The services that a device can have (§5.9.4, `VIRTIO_CRYPTO_SERVICE_*`); each is a bit in the configuration.
    Service: u32 {
        /// Ciphers.
        Cipher = 0,
        /// Hashes.
        Hash = 1,
        /// Message authentication codes.
        Mac = 2,
        /// Authenticated encryption with associated data.
        Aead = 3,
        /// Asymmetric keys.
        Akcipher = 4,
    }

    /// The operation of a request (§5.9.7.1, §5.9.7.2): the service in bits 8 and above, the operation in the bits
    /// below.
    Opcode: u32 {
        /// Encrypt.
        CipherEncrypt = 0x000,
        /// Decrypt.
        CipherDecrypt = 0x001,
        /// Create a session of a cipher.
        CipherCreateSession = 0x002,
        /// End a session of a cipher.
        CipherDestroySession = 0x003,
        /// Hash.
        Hash = 0x100,
        /// Create a session of a hash.
        HashCreateSession = 0x102,
        /// End a session of a hash.
        HashDestroySession = 0x103,
        /// Authenticate.
        Mac = 0x200,
        /// Create a session of a MAC.
        MacCreateSession = 0x202,
        /// End a session of a MAC.
        MacDestroySession = 0x203,
        /// Encrypt and authenticate.
        AeadEncrypt = 0x300,
        /// Verify and decrypt.
        AeadDecrypt = 0x301,
        /// Create a session of an AEAD algorithm.
        AeadCreateSession = 0x302,
        /// End a session of an AEAD algorithm.
        AeadDestroySession = 0x303,
        /// Encrypt with an asymmetric key.
        AkcipherEncrypt = 0x400,
        /// Decrypt with an asymmetric key.
        AkcipherDecrypt = 0x401,
        /// Sign.
        AkcipherSign = 0x402,
        /// Verify a signature.
        AkcipherVerify = 0x403,
        /// Create a session of an asymmetric key.
        AkcipherCreateSession = 0x404,
        /// End a session of an asymmetric key.
        AkcipherDestroySession = 0x405,
    }

    /// Ciphers (§5.9.5.2.1, `VIRTIO_CRYPTO_CIPHER_*`).
    Cipher: u32 {
        /// RC4.
        Arc4 = 1,
        /// AES in ECB mode.
        AesEcb = 2,
        /// AES in CBC mode.
        AesCbc = 3,
        /// AES in counter mode.
        AesCtr = 4,
        /// DES in ECB mode.
        DesEcb = 5,
        /// DES in CBC mode.
        DesCbc = 6,
        /// Triple DES in ECB mode.
        TripleDesEcb = 7,
        /// Triple DES in CBC mode.
        TripleDesCbc = 8,
        /// Triple DES in counter mode.
        TripleDesCtr = 9,
        /// KASUMI F8.
        KasumiF8 = 10,
        /// SNOW 3G UEA2.
        Snow3gUea2 = 11,
        /// AES in F8 mode.
        AesF8 = 12,
        /// AES in XTS mode.
        AesXts = 13,
        /// ZUC EEA3.
        ZucEea3 = 14,
    }

    /// Hashes (§5.9.5.2.2, `VIRTIO_CRYPTO_HASH_*`).
    Hash: u32 {
        /// MD5.
        Md5 = 1,
        /// SHA-1.
        Sha1 = 2,
        /// SHA-224.
        Sha224 = 3,
        /// SHA-256.
        Sha256 = 4,
        /// SHA-384.
        Sha384 = 5,
        /// SHA-512.
        Sha512 = 6,
        /// SHA3-224.
        Sha3With224 = 7,
        /// SHA3-256.
        Sha3With256 = 8,
        /// SHA3-384.
        Sha3With384 = 9,
        /// SHA3-512.
        Sha3With512 = 10,
        /// SHAKE128.
        Shake128 = 11,
        /// SHAKE256.
        Shake256 = 12,
    }

    /// Message authentication codes (§5.9.5.2.3, `VIRTIO_CRYPTO_MAC_*`).
    Mac: u32 {
        /// HMAC with MD5.
        HmacMd5 = 1,
        /// HMAC with SHA-1.
        HmacSha1 = 2,
        /// HMAC with SHA-224.
        HmacSha224 = 3,
        /// HMAC with SHA-256.
        HmacSha256 = 4,
        /// HMAC with SHA-384.
        HmacSha384 = 5,
        /// HMAC with SHA-512.
        HmacSha512 = 6,
        /// CMAC with triple DES.
        CmacTripleDes = 25,
        /// CMAC with AES.
        CmacAes = 26,
        /// KASUMI F9.
        KasumiF9 = 27,
        /// SNOW 3G UIA2.
        Snow3gUia2 = 28,
        /// GMAC with AES.
        GmacAes = 41,
        /// GMAC with Twofish.
        GmacTwofish = 42,
        /// CBC-MAC with AES.
        CbcmacAes = 49,
        /// CBC-MAC with KASUMI F9.
        CbcmacKasumiF9 = 50,
        /// XCBC with AES.
        XcbcAes = 53,
        /// ZUC EIA3.
        ZucEia3 = 54,
    }

    /// Authenticated encryption (§5.9.5.2.4, `VIRTIO_CRYPTO_AEAD_*`).
    Aead: u32 {
        /// AES-GCM.
        AesGcm = 1,
        /// AES-CCM.
        AesCcm = 2,
        /// ChaCha20-Poly1305.
        ChaCha20Poly1305 = 3,
    }

    /// The result of a request (§5.9.7, `VIRTIO_CRYPTO_*`), which is its last writable byte.
    Status: u8 {
        /// Done.
        Ok = 0,
        /// Failed for a reason without a code.
        Error = 1,
        /// The request is malformed, or an authentication tag does not match.
        BadMessage = 2,
        /// The device does not support this.
        NotSupported = 3,
        /// There is no such session.
        InvalidSession = 4,
        /// There is no room for one more session.
        NoSpace = 5,
        /// The key was rejected.
        KeyRejected = 6,
    }
}

/// The operations of a data queue, each with its service.
pub const SERVICES: [(Opcode, Service); 10] = [
    (Opcode::CipherEncrypt, Service::Cipher),
    (Opcode::CipherDecrypt, Service::Cipher),
    (Opcode::Hash, Service::Hash),
    (Opcode::Mac, Service::Mac),
    (Opcode::AeadEncrypt, Service::Aead),
    (Opcode::AeadDecrypt, Service::Aead),
    (Opcode::AkcipherEncrypt, Service::Akcipher),
    (Opcode::AkcipherDecrypt, Service::Akcipher),
    (Opcode::AkcipherSign, Service::Akcipher),
    (Opcode::AkcipherVerify, Service::Akcipher),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_there_and_back_and_others_mean_nothing() {
        for code in 0..0x600 {
            assert!(Opcode::from_code(code).is_none_or(|opcode| opcode.code() == code));
            assert!(Cipher::from_code(code).is_none_or(|cipher| cipher.code() == code));
            assert!(Mac::from_code(code).is_none_or(|mac| mac.code() == code));
        }
        assert_eq!(Cipher::from_code(0), None);
        assert_eq!(Opcode::from_code(0x101), None);
        assert_eq!(Status::from_code(7), None);
    }

    #[test]
    fn an_operation_carries_its_service_in_its_upper_bits() {
        for (opcode, service) in SERVICES {
            assert_eq!(opcode.code() >> 8, service.code());
        }
    }
}
