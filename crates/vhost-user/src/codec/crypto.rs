//! Sessions of a crypto device: CREATE_CRYPTO_SESSION in the two forms that QEMU has defined. No feature bit
//! distinguishes the forms; the size of the message does.
use std::fmt;

use zeroize::Zeroizing;

use super::bytes::{Reader, Wire, put32, put64};
use crate::violation::Violation;

/// The most bytes of a cipher's key in a message.
pub const MAX_CIPHER_KEY_BYTES: usize = 64;

/// The most bytes of an authentication key in a message.
pub const MAX_AUTH_KEY_BYTES: usize = 512;

/// A key. Its bytes are overwritten when it is dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(Zeroizing<Vec<u8>>);

impl SecretKey {
    /// Takes a copy of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key of {} bytes", self.0.len())
    }
}

/// The layout of the message that creates a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CryptoForm {
    /// QEMU up to 7.2: 632 bytes, the session's number first. Symmetric sessions only.
    NumberFirst,
    /// QEMU since 8.0: 1072 bytes, the operation first and the session's number last.
    OperationFirst,
}

impl CryptoForm {
    /// Payload bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::NumberFirst => 632,
            Self::OperationFirst => 1072,
        }
    }
}

/// The algorithms and keys of a session. Codes are those of [`virtio::crypto`], not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CryptoSetup {
    /// The operation that creates the session ([`virtio::crypto::Opcode`]), such as CIPHER_CREATE_SESSION.
    pub opcode: u64,
    /// The cipher; in a session of AEAD, the AEAD algorithm.
    pub cipher: u32,
    /// The cipher's key.
    pub key: SecretKey,
    /// Hash or MAC.
    pub hash: u32,
    /// Bytes of a hash, MAC or tag.
    pub hash_result_bytes: u32,
    /// The MAC's key.
    pub auth_key: SecretKey,
    /// Bytes of associated data.
    pub aad_bytes: u32,
    /// 1: cipher; 2: chain of cipher and hash.
    pub operation_type: u8,
    /// 1: encrypt; 2: decrypt.
    pub direction: u8,
    /// 1: hash; 2: MAC; 3: nested.
    pub hash_mode: u8,
    /// 1: hash, then cipher; 2: cipher, then hash.
    pub chain_order: u8,
}

impl CryptoSetup {
    /// A set-up with this operation, without algorithm and key.
    pub fn empty(opcode: virtio::crypto::Opcode) -> Self {
        CryptoSetup {
            opcode: opcode.code().into(),
            cipher: 0,
            key: SecretKey::new(&[]),
            hash: 0,
            hash_result_bytes: 0,
            auth_key: SecretKey::new(&[]),
            aad_bytes: 0,
            operation_type: 1,
            direction: 1,
            hash_mode: 0,
            chain_order: 0,
        }
    }
}

/// The content of CREATE_CRYPTO_SESSION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateCryptoSession {
    /// The layout of the message and of its reply.
    pub form: CryptoForm,
    /// The session's set-up; `None` for an asymmetric key, which is discarded.
    pub setup: Option<CryptoSetup>,
}

/// CIPHER_CREATE_SESSION: the only one in [`CryptoForm::NumberFirst`].
const CIPHER_CREATE: u64 = virtio::crypto::Opcode::CipherCreateSession.code() as u64;
const AKCIPHER_CREATE: u64 = virtio::crypto::Opcode::AkcipherCreateSession.code() as u64;

impl Wire for CreateCryptoSession {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let form = match reader.whole() {
            632 => CryptoForm::NumberFirst,
            1072 => CryptoForm::OperationFirst,
            other => return Err(reader.violation("payload size", other as u64, "632 or 1072 bytes")),
        };
        // The other form has the session's number here, which the back-end gives.
        let first = reader.u64()?;
        let opcode = if form == CryptoForm::OperationFirst { first } else { CIPHER_CREATE };
        if opcode == AKCIPHER_CREATE {
            reader.rest();
            return Ok(Self { form, setup: None });
        }
        let (cipher, key_bytes, hash) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (hash_result_bytes, auth_key_bytes, aad_bytes) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (operation_type, direction) = (reader.u8()?, reader.u8()?);
        let (hash_mode, chain_order) = (reader.u8()?, reader.u8()?);
        // Padding, and two addresses within the front-end that mean nothing here.
        let _ = (reader.u32()?, reader.u64()?, reader.u64()?);
        let mut key = |most: usize, field, len: u32, expected| {
            let room = reader.bytes(most)?;
            match room.get(..len as usize) {
                Some(bytes) => Ok(SecretKey::new(bytes)),
                None => Err(reader.violation(field, len.into(), expected)),
            }
        };
        let cipher_key = key(MAX_CIPHER_KEY_BYTES, "key length", key_bytes, "at most 64")?;
        let auth_key = key(MAX_AUTH_KEY_BYTES, "authentication key length", auth_key_bytes, "at most 512")?;
        reader.rest();
        let setup = CryptoSetup {
            opcode,
            cipher,
            key: cipher_key,
            hash,
            hash_result_bytes,
            auth_key,
            aad_bytes,
            operation_type,
            direction,
            hash_mode,
            chain_order,
        };
        Ok(Self { form, setup: Some(setup) })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        // One allocation of the whole size: a vector that grows would leave copies of the keys behind.
        out.reserve_exact(self.form.bytes());
        let setup = self.setup.as_ref();
        let first = setup.map_or(AKCIPHER_CREATE, |setup| setup.opcode);
        put64(out, &[if self.form == CryptoForm::OperationFirst { first } else { 0 }]);
        if let Some(setup) = setup {
            let (key, auth_key) = (setup.key.as_bytes(), setup.auth_key.as_bytes());
            put32(out, &[setup.cipher, key.len() as u32, setup.hash]);
            put32(out, &[setup.hash_result_bytes, auth_key.len() as u32, setup.aad_bytes]);
            out.extend_from_slice(&[
                setup.operation_type,
                setup.direction,
                setup.hash_mode,
                setup.chain_order,
            ]);
            out.resize(start + 56, 0);
            out.extend_from_slice(key);
            out.resize(start + 56 + MAX_CIPHER_KEY_BYTES, 0);
            out.extend_from_slice(auth_key);
        }
        out.resize(start + self.form.bytes(), 0);
    }
}

/// The reply: the session's number, or -1. All other fields are zero: keys are not sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptoSessionReply {
    /// The layout, as in the request.
    pub form: CryptoForm,
    /// The session; negative if there is none.
    pub number: i64,
}

impl Wire for CryptoSessionReply {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let form = match reader.whole() {
            632 => CryptoForm::NumberFirst,
            1072 => CryptoForm::OperationFirst,
            other => return Err(reader.violation("payload size", other as u64, "632 or 1072 bytes")),
        };
        if form == CryptoForm::OperationFirst {
            reader.bytes(form.bytes() - 8)?;
        }
        let number = reader.u64()? as i64;
        reader.rest();
        Ok(Self { form, number })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (start, number) = (out.len(), self.number as u64);
        if self.form == CryptoForm::OperationFirst {
            out.resize(start + self.form.bytes() - 8, 0);
        }
        put64(out, &[number]);
        out.resize(start + self.form.bytes(), 0);
    }
}
