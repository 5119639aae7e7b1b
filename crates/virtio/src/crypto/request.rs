//! Requests of a data queue (VIRTIO 1.3 §5.9.7.2): a header of 24 bytes, 48 bytes of fixed fields, then data whose
//! lengths these fields give. This module reads the first 72 bytes and checks only codes. The device must check
//! whether lengths fit the buffers.
use super::Opcode;

/// Why the fixed part of a request is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The operation is not one of a data queue.
    #[error("operation {0:#x} is not one of a data queue (VIRTIO 1.3 §5.9.7.2)")]
    Opcode(u32),
    /// The kind of symmetric operation is neither a cipher nor a chain of algorithms.
    #[error("symmetric operation of kind {0} (VIRTIO 1.3 §5.9.7.2.6 knows 0 to 2)")]
    OperationType(u32),
}

/// Lengths and offsets of a chain of cipher and hash (`virtio_crypto_alg_chain_data_flf`), in bytes.
#[allow(missing_docs, reason = "each is named as in the specification")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    pub iv_len: u32,
    pub src_data_len: u32,
    pub dst_data_len: u32,
    pub cipher_start_src_offset: u32,
    pub len_to_cipher: u32,
    pub hash_start_src_offset: u32,
    pub len_to_hash: u32,
    pub aad_len: u32,
    pub hash_result_len: u32,
}

/// The operation, with its lengths in bytes.
#[allow(missing_docs, reason = "fields are named as in the specification")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A symmetric operation of kind NONE.
    Nothing,
    /// Cipher alone (§5.9.7.2.6).
    Cipher { encrypt: bool, iv_len: u32, src_data_len: u32, dst_data_len: u32 },
    /// Cipher and hash (§5.9.7.2.6).
    Chain { encrypt: bool, chain: Chain },
    /// Hash (§5.9.7.2.4).
    Hash { src_data_len: u32, hash_result_len: u32 },
    /// MAC (§5.9.7.2.5).
    Mac { src_data_len: u32, hash_result_len: u32 },
    /// AEAD (§5.9.7.2.8). The header of Linux has no `tag_len`, which is then 0: the session gives the length.
    Aead { encrypt: bool, iv_len: u32, aad_len: u32, src_data_len: u32, dst_data_len: u32, tag_len: u32 },
    /// Asymmetric (§5.9.7.2.9).
    Akcipher { src_data_len: u32, dst_data_len: u32 },
}

/// The fixed part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRequest {
    /// The session's number. It has no meaning in a stateless request.
    pub session_id: u64,
    /// The algorithm, which the session gives too.
    pub algorithm: u32,
    /// `flag`: 1 in the mode with sessions, the only mode of a device without the feature bits of stateless modes.
    /// Drivers of such a device set it to 0 or 1 (§5.9.7.2).
    pub flag: u32,
    /// The operation.
    pub operation: Operation,
}

impl DataRequest {
    /// The length of header and fixed fields in bytes, including padding.
    pub const BYTES: usize = 72;

    /// Reads header and fixed fields.
    ///
    /// # Errors
    /// The operation, or the kind of symmetric operation, does not belong to a data queue.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self, Malformed> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let field = |index: usize| word(24 + 4 * index);
        let code = word(0);
        let opcode = Opcode::from_code(code).ok_or(Malformed::Opcode(code))?;
        let operation = match opcode {
            Opcode::CipherEncrypt | Opcode::CipherDecrypt => {
                Self::symmetric(opcode == Opcode::CipherEncrypt, field)?
            }
            Opcode::Hash => Operation::Hash { src_data_len: field(0), hash_result_len: field(1) },
            Opcode::Mac => Operation::Mac { src_data_len: field(0), hash_result_len: field(1) },
            Opcode::AeadEncrypt | Opcode::AeadDecrypt => Operation::Aead {
                encrypt: opcode == Opcode::AeadEncrypt,
                iv_len: field(0),
                aad_len: field(1),
                src_data_len: field(2),
                dst_data_len: field(3),
                tag_len: field(4),
            },
            Opcode::AkcipherEncrypt
            | Opcode::AkcipherDecrypt
            | Opcode::AkcipherSign
            | Opcode::AkcipherVerify => {
                Operation::Akcipher { src_data_len: field(0), dst_data_len: field(1) }
            }
            _ => return Err(Malformed::Opcode(code)),
        };
        let session_id = u64::from(word(8)) | u64::from(word(12)) << 32;
        Ok(Self { session_id, algorithm: word(4), flag: word(16), operation })
    }

    fn symmetric(encrypt: bool, field: impl Fn(usize) -> u32) -> Result<Operation, Malformed> {
        match field(10) {
            0 => Ok(Operation::Nothing),
            1 => Ok(Operation::Cipher {
                encrypt,
                iv_len: field(0),
                src_data_len: field(1),
                dst_data_len: field(2),
            }),
            2 => Ok(Operation::Chain {
                encrypt,
                chain: Chain {
                    iv_len: field(0),
                    src_data_len: field(1),
                    dst_data_len: field(2),
                    cipher_start_src_offset: field(3),
                    len_to_cipher: field(4),
                    hash_start_src_offset: field(5),
                    len_to_hash: field(6),
                    aad_len: field(7),
                    hash_result_len: field(8),
                },
            }),
            other => Err(Malformed::OperationType(other)),
        }
    }

    /// The bytes that a driver writes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let (opcode, fields) = match self.operation {
            Operation::Nothing => (Opcode::CipherEncrypt, [0; 11]),
            Operation::Cipher { encrypt, iv_len, src_data_len, dst_data_len } => {
                (cipher(encrypt), [iv_len, src_data_len, dst_data_len, 0, 0, 0, 0, 0, 0, 0, 1])
            }
            Operation::Chain { encrypt, chain: c } => (
                cipher(encrypt),
                [
                    c.iv_len,
                    c.src_data_len,
                    c.dst_data_len,
                    c.cipher_start_src_offset,
                    c.len_to_cipher,
                    c.hash_start_src_offset,
                    c.len_to_hash,
                    c.aad_len,
                    c.hash_result_len,
                    0,
                    2,
                ],
            ),
            Operation::Hash { src_data_len, hash_result_len } => {
                (Opcode::Hash, first([src_data_len, hash_result_len]))
            }
            Operation::Mac { src_data_len, hash_result_len } => {
                (Opcode::Mac, first([src_data_len, hash_result_len]))
            }
            Operation::Aead { encrypt, iv_len, aad_len, src_data_len, dst_data_len, tag_len } => {
                let opcode = if encrypt { Opcode::AeadEncrypt } else { Opcode::AeadDecrypt };
                (opcode, first([iv_len, aad_len, src_data_len, dst_data_len, tag_len]))
            }
            Operation::Akcipher { src_data_len, dst_data_len } => {
                (Opcode::AkcipherEncrypt, first([src_data_len, dst_data_len]))
            }
        };
        let header = [
            opcode.code(),
            self.algorithm,
            self.session_id as u32,
            (self.session_id >> 32) as u32,
            self.flag,
            0,
        ];
        let mut bytes = [0; Self::BYTES];
        for (into, word) in bytes.chunks_exact_mut(4).zip(header.into_iter().chain(fields)) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

fn cipher(encrypt: bool) -> Opcode {
    if encrypt { Opcode::CipherEncrypt } else { Opcode::CipherDecrypt }
}

fn first<const N: usize>(some: [u32; N]) -> [u32; 11] {
    let mut fields = [0; 11];
    fields[..N].copy_from_slice(&some);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What Linux 6.1 sends for one block of AES-CBC: `virtio_crypto_op_data_req` of its header file.
    #[test]
    fn fields_lie_where_the_driver_puts_them() {
        let mut bytes = [0; DataRequest::BYTES];
        bytes[0] = 1;
        bytes[4] = 3;
        bytes[8..16].copy_from_slice(&0x1_0000_0002u64.to_le_bytes());
        bytes[24] = 16;
        bytes[28] = 32;
        bytes[32] = 48;
        bytes[64] = 1;
        let operation = Operation::Cipher { encrypt: false, iv_len: 16, src_data_len: 32, dst_data_len: 48 };
        let request = DataRequest { session_id: 0x1_0000_0002, algorithm: 3, flag: 0, operation };
        assert_eq!(DataRequest::from_bytes(&bytes), Ok(request));
        assert_eq!(request.to_bytes(), bytes);
        bytes[64] = 3;
        assert_eq!(DataRequest::from_bytes(&bytes), Err(Malformed::OperationType(3)));
        // A session is made in the control queue, not here.
        bytes[0] = 2;
        assert_eq!(DataRequest::from_bytes(&bytes), Err(Malformed::Opcode(2)));
    }

    proptest! {
        #[test]
        fn any_drivers_bytes_are_understood_or_refused(
            mut bytes in proptest::array::uniform32(any::<u8>()),
            rest in proptest::collection::vec(0u8..3, DataRequest::BYTES - 32),
            opcode in proptest::sample::select(super::super::SERVICES.to_vec()),
        ) {
            bytes[..4].copy_from_slice(&opcode.0.code().to_le_bytes());
            let bytes: [u8; DataRequest::BYTES] = [&bytes[..], &rest].concat().try_into().unwrap();
            if let Ok(request) = DataRequest::from_bytes(&bytes) {
                prop_assert_eq!(DataRequest::from_bytes(&request.to_bytes()), Ok(request));
            }
        }
    }
}
