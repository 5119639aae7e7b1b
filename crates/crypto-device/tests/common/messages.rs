//! What a driver asks for: sessions, and requests as bytes.
use vhost_user::codec::crypto::{CryptoSetup, SecretKey};
use virtio::crypto::{DataRequest, Opcode, Operation};

pub fn setup(opcode: u64, algorithm: u32, key: &[u8], result_bytes: u32) -> CryptoSetup {
    let mac = opcode == 0x202;
    CryptoSetup {
        opcode,
        cipher: algorithm,
        key: SecretKey::new(if mac { &[] } else { key }),
        hash: algorithm,
        hash_result_bytes: result_bytes,
        auth_key: SecretKey::new(if mac { key } else { &[] }),
        ..CryptoSetup::empty(Opcode::CipherCreateSession)
    }
}

pub fn bytes(session_id: u64, operation: Operation, parts: &[&[u8]]) -> Vec<u8> {
    let request = DataRequest { session_id, algorithm: 0, flag: 1, operation };
    [&request.to_bytes()[..], &parts.concat()].concat()
}
