//! Execution of one request, from the driver's bytes to the driver's bytes.
use virtio::crypto::{DataRequest, Operation, Status};
use zeroize::Zeroize;

use crate::sessions::Sessions;

/// The driver's buffers of one request, in shared memory that the driver may change at any time.
pub trait Buffers {
    /// Bytes that the device reads.
    fn readable_bytes(&self) -> usize;

    /// Bytes that the device writes.
    fn writable_bytes(&self) -> usize;

    /// Copies bytes from the buffers, from `offset` on. Returns how many bytes were copied.
    fn read(&self, offset: usize, into: &mut [u8]) -> usize;

    /// Copies bytes to the buffers, from `offset` on. Returns how many bytes fitted.
    fn write(&self, offset: usize, from: &[u8]) -> usize;
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The length for the used ring: bytes that were written from the first writable byte on. A device may state too
    /// few, never too many (VIRTIO 1.3 §2.7.8.2). The status is counted if there is no gap before it. The status of a
    /// failed request is not counted if the driver has given room for a result.
    pub written: u32,
    /// The status that the driver gets; `None` if there was no room for one.
    pub status: Option<Status>,
}

/// Executes requests, one after the other, in memory of its own.
#[derive(Default)]
pub struct Executor {
    /// The readable bytes, each read once. A result replaces the source data in place. Between requests all bytes are
    /// zero, so that the cost of a request depends on its own length and not on the longest request's.
    bytes: Vec<u8>,
}

/// The bytes to write: a part of the request's bytes, and the bytes behind it.
struct Output {
    part: std::ops::Range<usize>,
    behind: Vec<u8>,
}

impl Executor {
    /// An executor without memory; it grows to the longest request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Executes a request, and writes its result and status. The status is the last writable byte. Nothing is written
    /// between the result and the status, and nothing but the status for a failed request, because such bytes may be
    /// the source or belong to something else.
    pub fn execute(&mut self, sessions: &Sessions, buffers: &impl Buffers) -> Executed {
        let Some(room) = buffers.writable_bytes().checked_sub(1) else {
            return Executed { written: 0, status: None };
        };
        let readable = buffers.readable_bytes();
        let is_read = readable <= sessions.limits().request_bytes;
        let result = if is_read { self.work(sessions, buffers, readable, room) } else { Err(Status::Error) };
        let (status, len) = match &result {
            Ok(Output { part, behind }) => {
                let wrote = buffers.write(0, &self.bytes[part.clone()]);
                (Status::Ok, wrote + buffers.write(part.len(), behind))
            }
            Err(status) => (*status, 0),
        };
        buffers.write(room, &[status.code()]);
        // A slice: of a vector each byte would be overwritten alone, and all that it has room for.
        if is_read {
            self.bytes[..readable].zeroize();
        }
        let written = if len == room { len + 1 } else { len };
        Executed { written: u32::try_from(written).unwrap_or(u32::MAX), status: Some(status) }
    }

    fn work(
        &mut self,
        sessions: &Sessions,
        buffers: &impl Buffers,
        readable: usize,
        room: usize,
    ) -> Result<Output, Status> {
        if self.bytes.len() < readable {
            self.bytes.resize(readable, 0);
        }
        // The only read: lengths, IV and data are checked and used as they are now.
        let read = buffers.read(0, &mut self.bytes[..readable]);
        let bytes = &mut self.bytes[..read];
        let (head, rest) =
            bytes.split_first_chunk_mut::<{ DataRequest::BYTES }>().ok_or(Status::BadMessage)?;
        let request = DataRequest::from_bytes(head).map_err(|_| Status::NotSupported)?;
        let algorithm = sessions.algorithm(request.session_id);
        let found = || algorithm.ok_or(Status::InvalidSession);
        let head = DataRequest::BYTES;
        let fits = |bytes: usize| if bytes <= room { Ok(()) } else { Err(Status::BadMessage) };
        match request.operation {
            Operation::Cipher { encrypt, iv_len, src_data_len, dst_data_len } => {
                if src_data_len != dst_data_len {
                    return Err(Status::BadMessage);
                }
                let [iv, data] = split(rest, [iv_len, src_data_len])?;
                fits(data.len())?;
                found()?.cipher_in_place(encrypt, iv, data)?;
                let start = head + iv.len();
                Ok(Output { part: start..start + data.len(), behind: Vec::new() })
            }
            Operation::Aead { encrypt, iv_len, aad_len, src_data_len, dst_data_len, tag_len } => {
                let [iv, data, aad] = split(rest, [iv_len, src_data_len, aad_len])?;
                if !matches!(tag_len, 0 | 16) {
                    return Err(Status::BadMessage);
                }
                let start = head + iv.len();
                if encrypt {
                    let len = data.len() + 16;
                    fits(len)?;
                    if len != dst_data_len as usize {
                        return Err(Status::BadMessage);
                    }
                    let tag = found()?.seal(iv, aad, data)?;
                    return Ok(Output { part: start..start + data.len(), behind: tag.to_vec() });
                }
                let (data, tag) = data.split_last_chunk_mut::<16>().ok_or(Status::BadMessage)?;
                fits(data.len())?;
                if data.len() != dst_data_len as usize {
                    return Err(Status::BadMessage);
                }
                found()?.open(iv, aad, data, tag)?;
                Ok(Output { part: start..start + data.len(), behind: Vec::new() })
            }
            Operation::Hash { src_data_len, hash_result_len } => {
                let [data] = split(rest, [src_data_len])?;
                exact(found()?.hash_of(data)?, hash_result_len, room)
            }
            Operation::Mac { src_data_len, hash_result_len } => {
                let [data] = split(rest, [src_data_len])?;
                exact(found()?.mac_of(data)?, hash_result_len, room)
            }
            Operation::Nothing | Operation::Chain { .. } | Operation::Akcipher { .. } => {
                Err(Status::NotSupported)
            }
        }
    }
}

/// The parts of a request behind its fixed fields. A length that exceeds the buffers contradicts them. Bytes behind the
/// last part mean nothing: Linux' driver gives whole entries of a scatter list, also where the data ends within one.
fn split<const N: usize>(rest: &mut [u8], lens: [u32; N]) -> Result<[&mut [u8]; N], Status> {
    let mut rest = Some(rest);
    let parts = lens.map(|len| {
        let (part, behind) = rest.take()?.split_at_mut_checked(len as usize)?;
        rest = Some(behind);
        Some(part)
    });
    match rest {
        Some(_) => Ok(parts.map(Option::unwrap_or_default)),
        None => Err(Status::BadMessage),
    }
}

/// A result that must have the length that the request says.
fn exact(result: Vec<u8>, len: u32, room: usize) -> Result<Output, Status> {
    if result.len() != len as usize || result.len() > room {
        return Err(Status::BadMessage);
    }
    Ok(Output { part: 0..0, behind: result })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use vhost_user::codec::crypto::{CryptoSetup, SecretKey};
    use virtio::crypto::{Cipher, Opcode};

    use super::*;
    use crate::Limits;

    struct Plain(Vec<u8>, RefCell<Vec<u8>>);

    impl Buffers for Plain {
        fn readable_bytes(&self) -> usize {
            self.0.len()
        }

        fn writable_bytes(&self) -> usize {
            self.1.borrow().len()
        }

        fn read(&self, offset: usize, into: &mut [u8]) -> usize {
            into.copy_from_slice(&self.0[offset..][..into.len()]);
            into.len()
        }

        fn write(&self, offset: usize, from: &[u8]) -> usize {
            self.1.borrow_mut()[offset..][..from.len()].copy_from_slice(from);
            from.len()
        }
    }

    /// Holds for every status, also after a longer request.
    #[test]
    fn no_byte_of_a_request_is_kept_behind_it() {
        let mut sessions = Sessions::new(Limits { request_bytes: 8192, ..Limits::default() });
        let setup = CryptoSetup {
            cipher: Cipher::AesCbc.code(),
            key: SecretKey::new(&[7; 16]),
            ..CryptoSetup::empty(Opcode::CipherCreateSession)
        };
        let session_id = sessions.create(&setup).unwrap();
        let mut executor = Executor::new();
        for (said, there, status) in [
            (4096, 4096, Status::Ok),
            (32, 32, Status::Ok),
            (64, 48, Status::BadMessage),
            (16384, 16384, Status::Error),
            (16, 16, Status::Ok),
        ] {
            let operation =
                Operation::Cipher { encrypt: true, iv_len: 16, src_data_len: said, dst_data_len: said };
            let head = DataRequest { session_id, algorithm: 0, flag: 1, operation }.to_bytes();
            let request = [&head[..], &vec![0xaa; 16 + there]].concat();
            let buffers = Plain(request, RefCell::new(vec![0; there + 1]));
            _ = executor.execute(&sessions, &buffers);
            assert_eq!(buffers.1.borrow()[there], status.code(), "{said} {there}");
            assert!(executor.bytes.iter().all(|byte| *byte == 0), "{said} {there}");
        }
    }
}
