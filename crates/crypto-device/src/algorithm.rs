//! Algorithms with their expanded keys.
use aes::cipher::block_padding::NoPadding;
use aes::cipher::{
    BlockDecryptMut, BlockEncryptMut, InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper,
};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::AesGcm;
use aes_gcm::aead::AeadInPlace;
use aes_gcm::aead::consts::U12;
use chacha20poly1305::ChaCha20Poly1305;
use cmac::{Cmac, Mac as _};
use hmac::Hmac;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use vhost_user::codec::crypto::{CryptoSetup, SecretKey};
use virtio::crypto::{Aead, Cipher, Hash, Mac, Opcode, Status};
use xts_mode::Xts128;

/// Bytes of a block of AES, of the IV of its modes, and of a tag.
const BLOCK: usize = 16;
const NONCE: usize = 12;

/// Why a session cannot be made from a set-up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The device does not have the algorithm.
    #[error("{0} with code {1} is not supported")]
    Algorithm(&'static str, u64),
    /// The algorithm takes no key of this length.
    #[error("{algorithm} takes no key of {bytes} bytes")]
    KeyLength {
        /// Its name.
        algorithm: &'static str,
        /// Bytes of the key.
        bytes: usize,
    },
    /// The algorithm gives no hash, MAC or tag of this length.
    #[error("{algorithm} gives no result of {bytes} bytes")]
    ResultLength {
        /// Its name.
        algorithm: &'static str,
        /// Bytes of the result.
        bytes: u32,
    },
    /// The connection has reached its limit of sessions or of key bytes.
    #[error("this connection has {sessions} sessions with {key_bytes} bytes of keys, and may have no more")]
    Full {
        /// Sessions that exist.
        sessions: usize,
        /// Bytes of their keys.
        key_bytes: usize,
    },
}

/// A cipher of 128-bit blocks with an expanded key of one of three lengths.
pub(crate) enum OfAes<A, B, C> {
    L128(A),
    L192(B),
    L256(C),
}

type Gcm<C> = AesGcm<C, U12>;
type Aes = OfAes<Aes128, Aes192, Aes256>;

/// Runs the same code on each length of key.
macro_rules! each {
    ($aes:expr, $cipher:ident => $do:expr) => {
        match $aes {
            OfAes::L128($cipher) => $do,
            OfAes::L192($cipher) => $do,
            OfAes::L256($cipher) => $do,
        }
    };
}

impl<A: KeyInit, B: KeyInit, C: KeyInit> OfAes<A, B, C> {
    fn new(key: &[u8], algorithm: &'static str) -> Result<Self, Rejected> {
        let rejected = |_| Rejected::KeyLength { algorithm, bytes: key.len() };
        match key.len() {
            24 => B::new_from_slice(key).map(OfAes::L192).map_err(rejected),
            32 => C::new_from_slice(key).map(OfAes::L256).map_err(rejected),
            _ => A::new_from_slice(key).map(OfAes::L128).map_err(rejected),
        }
    }
}

/// A session's algorithm, ready for requests.
pub(crate) enum Algorithm {
    Cbc(Aes),
    Ctr(Aes),
    Xts128(Box<Xts128<Aes128>>),
    Xts256(Box<Xts128<Aes256>>),
    Gcm(Box<OfAes<Gcm<Aes128>, Gcm<Aes192>, Gcm<Aes256>>>),
    ChaCha20Poly1305(Box<ChaCha20Poly1305>),
    Hash(Hash),
    /// The key itself is kept, because the library's state of an HMAC is not overwritten when it is dropped.
    Hmac(Mac, SecretKey),
    Cmac(Box<OfAes<Cmac<Aes128>, Cmac<Aes192>, Cmac<Aes256>>>),
}

impl Algorithm {
    /// The algorithm of a set-up, with its key expanded.
    pub(crate) fn new(setup: &CryptoSetup) -> Result<Self, Rejected> {
        let opcode = u32::try_from(setup.opcode).ok().and_then(Opcode::from_code);
        let key = setup.key.as_bytes();
        match opcode {
            Some(Opcode::CipherCreateSession) if setup.operation_type == 1 => Self::cipher(setup.cipher, key),
            Some(Opcode::AeadCreateSession) => Self::aead(setup.cipher, key, setup.hash_result_bytes),
            Some(Opcode::HashCreateSession) => Self::hash(setup.hash, setup.hash_result_bytes),
            Some(Opcode::MacCreateSession) => Self::mac(setup),
            Some(Opcode::CipherCreateSession) => {
                Err(Rejected::Algorithm("symmetric operation", setup.operation_type.into()))
            }
            _ => Err(Rejected::Algorithm("operation", setup.opcode)),
        }
    }

    fn cipher(code: u32, key: &[u8]) -> Result<Self, Rejected> {
        let length = |algorithm| Rejected::KeyLength { algorithm, bytes: key.len() };
        match Cipher::from_code(code) {
            Some(Cipher::AesCbc) => Aes::new(key, "AES-CBC").map(Self::Cbc),
            Some(Cipher::AesCtr) => Aes::new(key, "AES-CTR").map(Self::Ctr),
            Some(Cipher::AesXts) => {
                // Two keys, which must differ, or the cipher gives its tweaks away.
                let (first, second) = key.split_at(key.len() / 2);
                let differ = first.iter().zip(second).fold(0, |bits, (a, b)| bits | (a ^ b)) != 0;
                let short = || Some((new::<Aes128>(first)?, new::<Aes128>(second)?));
                let long = || Some((new::<Aes256>(first)?, new::<Aes256>(second)?));
                match (differ, key.len()) {
                    (true, 32) => short().map(|(a, b)| Self::Xts128(Box::new(Xts128::new(a, b)))),
                    (true, 64) => long().map(|(a, b)| Self::Xts256(Box::new(Xts128::new(a, b)))),
                    _ => None,
                }
                .ok_or(length("AES-XTS (two different keys)"))
            }
            _ => Err(Rejected::Algorithm("cipher", code.into())),
        }
    }

    fn aead(code: u32, key: &[u8], tag_bytes: u32) -> Result<Self, Rejected> {
        let (algorithm, made) = match Aead::from_code(code) {
            Some(Aead::AesGcm) => ("AES-GCM", OfAes::new(key, "AES-GCM").map(|k| Self::Gcm(Box::new(k)))?),
            Some(Aead::ChaCha20Poly1305) => {
                let algorithm = "ChaCha20-Poly1305";
                let key =
                    new(key).ok_or(Rejected::KeyLength { algorithm, bytes: key.len() }).map(Box::new)?;
                (algorithm, Self::ChaCha20Poly1305(key))
            }
            _ => return Err(Rejected::Algorithm("AEAD", code.into())),
        };
        if tag_bytes as usize != BLOCK {
            return Err(Rejected::ResultLength { algorithm, bytes: tag_bytes });
        }
        Ok(made)
    }

    fn hash(code: u32, bytes: u32) -> Result<Self, Rejected> {
        let hash = Hash::from_code(code)
            .filter(|hash| hash_bytes(*hash).is_some())
            .ok_or(Rejected::Algorithm("hash", code.into()))?;
        if hash_bytes(hash) != Some(bytes as usize) {
            return Err(Rejected::ResultLength { algorithm: "SHA-2", bytes });
        }
        Ok(Self::Hash(hash))
    }

    fn mac(setup: &CryptoSetup) -> Result<Self, Rejected> {
        let (code, key) = (setup.hash, setup.auth_key.as_bytes());
        let mac = Mac::from_code(code)
            .filter(|mac| mac_bytes(*mac).is_some())
            .ok_or(Rejected::Algorithm("MAC", code.into()))?;
        if mac_bytes(mac) != Some(setup.hash_result_bytes as usize) {
            return Err(Rejected::ResultLength { algorithm: "MAC", bytes: setup.hash_result_bytes });
        }
        match mac {
            Mac::CmacAes => OfAes::new(key, "CMAC").map(|key| Self::Cmac(Box::new(key))),
            mac => Ok(Self::Hmac(mac, setup.auth_key.clone())),
        }
    }

    /// Enciphers or deciphers in place.
    pub(crate) fn cipher_in_place(&self, encrypt: bool, iv: &[u8], data: &mut [u8]) -> Result<(), Status> {
        let iv: &[u8; BLOCK] = iv.try_into().map_err(|_| Status::BadMessage)?;
        let len = data.len();
        let done = match self {
            Self::Cbc(_) if !len.is_multiple_of(BLOCK) => return Err(Status::BadMessage),
            Self::Cbc(aes) if encrypt => each!(aes, key => {
                cbc::Encryptor::inner_iv_init(key, iv.into()).encrypt_padded_mut::<NoPadding>(data, len).is_ok()
            }),
            Self::Cbc(aes) => each!(aes, key => {
                cbc::Decryptor::inner_iv_init(key, iv.into()).decrypt_padded_mut::<NoPadding>(data).is_ok()
            }),
            Self::Ctr(aes) => each!(aes, key => {
                let core = ctr::CtrCore::<_, ctr::flavors::Ctr128BE>::inner_iv_init(key, iv.into());
                StreamCipherCoreWrapper::from_core(core).try_apply_keystream(data).is_ok()
            }),
            Self::Xts128(_) | Self::Xts256(_) if len < BLOCK => return Err(Status::BadMessage),
            Self::Xts128(key) => {
                xts(key, encrypt, iv, data);
                true
            }
            Self::Xts256(key) => {
                xts(key, encrypt, iv, data);
                true
            }
            _ => return Err(Status::InvalidSession),
        };
        if done { Ok(()) } else { Err(Status::Error) }
    }

    /// Enciphers in place and gives the tag.
    pub(crate) fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8]) -> Result<[u8; BLOCK], Status> {
        let nonce: &[u8; NONCE] = nonce.try_into().map_err(|_| Status::BadMessage)?;
        let tag = match self {
            Self::Gcm(key) => {
                each!(&**key, key => key.encrypt_in_place_detached(nonce.into(), aad, data))
            }
            Self::ChaCha20Poly1305(key) => key.encrypt_in_place_detached(nonce.into(), aad, data),
            _ => return Err(Status::InvalidSession),
        };
        tag.map(Into::into).map_err(|_| Status::Error)
    }

    /// Verifies the tag, in constant time, and deciphers in place. If the tag is wrong, nothing is deciphered.
    pub(crate) fn open(
        &self,
        nonce: &[u8],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; BLOCK],
    ) -> Result<(), Status> {
        let nonce: &[u8; NONCE] = nonce.try_into().map_err(|_| Status::BadMessage)?;
        let opened = match self {
            Self::Gcm(key) => {
                each!(&**key, key => key.decrypt_in_place_detached(nonce.into(), aad, data, tag.into()))
            }
            Self::ChaCha20Poly1305(key) => key.decrypt_in_place_detached(nonce.into(), aad, data, tag.into()),
            _ => return Err(Status::InvalidSession),
        };
        opened.map_err(|_| Status::BadMessage)
    }

    /// The hash of these bytes.
    pub(crate) fn hash_of(&self, data: &[u8]) -> Result<Vec<u8>, Status> {
        match self {
            Self::Hash(Hash::Sha224) => Ok(Sha224::digest(data).to_vec()),
            Self::Hash(Hash::Sha256) => Ok(Sha256::digest(data).to_vec()),
            Self::Hash(Hash::Sha384) => Ok(Sha384::digest(data).to_vec()),
            Self::Hash(Hash::Sha512) => Ok(Sha512::digest(data).to_vec()),
            _ => Err(Status::InvalidSession),
        }
    }

    /// The MAC of these bytes.
    pub(crate) fn mac_of(&self, data: &[u8]) -> Result<Vec<u8>, Status> {
        match self {
            Self::Hmac(Mac::HmacSha224, key) => hmac_of::<Hmac<Sha224>>(key, data),
            Self::Hmac(Mac::HmacSha256, key) => hmac_of::<Hmac<Sha256>>(key, data),
            Self::Hmac(Mac::HmacSha384, key) => hmac_of::<Hmac<Sha384>>(key, data),
            Self::Hmac(Mac::HmacSha512, key) => hmac_of::<Hmac<Sha512>>(key, data),
            Self::Cmac(key) => each!(&**key, key => {
                Ok(key.clone().chain_update(data).finalize().into_bytes().to_vec())
            }),
            _ => Err(Status::InvalidSession),
        }
    }
}

fn new<C: KeyInit>(key: &[u8]) -> Option<C> {
    C::new_from_slice(key).ok()
}

fn xts<C>(key: &Xts128<C>, encrypt: bool, iv: &[u8; BLOCK], data: &mut [u8])
where
    C: aes::cipher::BlockEncrypt + aes::cipher::BlockDecrypt + aes::cipher::BlockCipher,
{
    if encrypt { key.encrypt_sector(data, *iv) } else { key.decrypt_sector(data, *iv) }
}

fn hmac_of<M: hmac::Mac + KeyInit>(key: &SecretKey, data: &[u8]) -> Result<Vec<u8>, Status> {
    let mac = new::<M>(key.as_bytes()).ok_or(Status::Error)?;
    Ok(mac.chain_update(data).finalize().into_bytes().to_vec())
}

/// The bytes of a hash that the device supports.
fn hash_bytes(hash: Hash) -> Option<usize> {
    match hash {
        Hash::Sha224 => Some(28),
        Hash::Sha256 => Some(32),
        Hash::Sha384 => Some(48),
        Hash::Sha512 => Some(64),
        _ => None,
    }
}

/// The bytes of a MAC that the device supports.
fn mac_bytes(mac: Mac) -> Option<usize> {
    match mac {
        Mac::HmacSha224 => Some(28),
        Mac::HmacSha256 => Some(32),
        Mac::HmacSha384 => Some(48),
        Mac::HmacSha512 => Some(64),
        Mac::CmacAes => Some(BLOCK),
        _ => None,
    }
}
