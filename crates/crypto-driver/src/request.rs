//! Set-ups of sessions, and requests, as a driver makes them.
use vhost_user::codec::crypto::{CryptoSetup, SecretKey};
use virtio::crypto::{Aead, Cipher, DataRequest, Hash, Mac, Opcode, Operation};

/// A session of a cipher.
pub fn cipher_session(cipher: Cipher, key: &[u8]) -> CryptoSetup {
    CryptoSetup {
        cipher: cipher.code(),
        key: SecretKey::new(key),
        ..CryptoSetup::empty(Opcode::CipherCreateSession)
    }
}

/// A session of an AEAD algorithm with tags of 16 bytes.
pub fn aead_session(aead: Aead, key: &[u8]) -> CryptoSetup {
    let key = SecretKey::new(key);
    CryptoSetup {
        cipher: aead.code(),
        key,
        hash_result_bytes: 16,
        ..CryptoSetup::empty(Opcode::AeadCreateSession)
    }
}

/// A session of a hash with results of `result_bytes` bytes.
pub fn hash_session(hash: Hash, result_bytes: u32) -> CryptoSetup {
    CryptoSetup {
        hash: hash.code(),
        hash_result_bytes: result_bytes,
        ..CryptoSetup::empty(Opcode::HashCreateSession)
    }
}

/// A session of a MAC with results of `result_bytes` bytes.
pub fn mac_session(mac: Mac, key: &[u8], result_bytes: u32) -> CryptoSetup {
    let auth_key = SecretKey::new(key);
    CryptoSetup {
        hash: mac.code(),
        auth_key,
        hash_result_bytes: result_bytes,
        ..CryptoSetup::empty(Opcode::MacCreateSession)
    }
}

/// A request with `parts`, whose lengths are in its fixed fields.
fn bytes(session_id: u64, operation: Operation, parts: &[&[u8]]) -> Vec<u8> {
    let request = DataRequest { session_id, algorithm: 0, flag: 1, operation };
    [&request.to_bytes()[..], &parts.concat()].concat()
}

/// A request of a cipher. Its result is as long as `data`.
pub fn cipher(session: u64, encrypt: bool, iv: &[u8], data: &[u8]) -> Vec<u8> {
    let (iv_len, len) = (iv.len() as u32, data.len() as u32);
    bytes(session, Operation::Cipher { encrypt, iv_len, src_data_len: len, dst_data_len: len }, &[iv, data])
}

/// A request of an AEAD algorithm. Its result has `result_bytes` bytes: the length of `data`, with the tag or
/// without.
pub fn aead(
    session: u64,
    encrypt: bool,
    nonce: &[u8],
    aad: &[u8],
    data: &[u8],
    result_bytes: usize,
) -> Vec<u8> {
    let operation = Operation::Aead {
        encrypt,
        iv_len: nonce.len() as u32,
        aad_len: aad.len() as u32,
        src_data_len: data.len() as u32,
        dst_data_len: result_bytes as u32,
        tag_len: 16,
    };
    bytes(session, operation, &[nonce, data, aad])
}

/// A request of a hash.
pub fn hash(session: u64, data: &[u8], result_bytes: u32) -> Vec<u8> {
    bytes(
        session,
        Operation::Hash { src_data_len: data.len() as u32, hash_result_len: result_bytes },
        &[data],
    )
}

/// A request of a MAC.
pub fn mac(session: u64, data: &[u8], result_bytes: u32) -> Vec<u8> {
    bytes(session, Operation::Mac { src_data_len: data.len() as u32, hash_result_len: result_bytes }, &[data])
}
