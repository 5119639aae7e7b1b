//! The sessions of one connection.
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use vhost_user::codec::crypto::CryptoSetup;

use crate::algorithm::{Algorithm, Rejected};

/// The limits of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions.
    pub sessions: usize,
    /// Bytes of the keys of all sessions.
    pub key_bytes: usize,
    /// Bytes of a request, including its fixed part.
    pub request_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 1024, key_bytes: 1 << 16, request_bytes: 1 << 20 }
    }
}

struct Session {
    algorithm: Algorithm,
    key_bytes: usize,
}

/// The highest number of a session: QEMU since 8.0 keeps numbers in 31 bits.
const HIGHEST: u64 = i32::MAX as u64;

/// The sessions of one connection. Session numbers count up from a random one, and a number is reused only after all
/// others. A request with the number of a closed session, or of a session of an earlier process or connection,
/// therefore finds no session.
pub struct Sessions {
    limits: Limits,
    there: HashMap<u64, Session>,
    key_bytes: usize,
    last: u64,
}

/// Counts alone: neither keys nor algorithms.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sessions with {} bytes of keys", self.there.len(), self.key_bytes)
    }
}

impl Sessions {
    /// No sessions yet, with these limits.
    pub fn new(limits: Limits) -> Self {
        let last = RandomState::new().hash_one(limits.sessions) % HIGHEST;
        Self { limits, there: HashMap::new(), key_bytes: 0, last }
    }

    /// Creates a session and returns its number.
    ///
    /// # Errors
    /// The device lacks the algorithm, the algorithm takes no key or gives no result of this length, or the
    /// connection has reached a limit.
    pub fn create(&mut self, setup: &CryptoSetup) -> Result<u64, Rejected> {
        let key_bytes = setup.key.as_bytes().len() + setup.auth_key.as_bytes().len();
        if self.there.len() >= self.limits.sessions || self.key_bytes + key_bytes > self.limits.key_bytes {
            return Err(Rejected::Full { sessions: self.there.len(), key_bytes: self.key_bytes });
        }
        let algorithm = Algorithm::new(setup)?;
        // Fewer are there than there are numbers.
        self.last = self.last % HIGHEST + 1;
        while self.there.contains_key(&self.last) {
            self.last = self.last % HIGHEST + 1;
        }
        self.key_bytes += key_bytes;
        self.there.insert(self.last, Session { algorithm, key_bytes });
        Ok(self.last)
    }

    /// Ends a session and overwrites its keys. Returns false if no session has this number.
    pub fn close(&mut self, number: u64) -> bool {
        let closed = self.there.remove(&number);
        self.key_bytes -= closed.as_ref().map_or(0, |session| session.key_bytes);
        closed.is_some()
    }

    /// Ends all sessions.
    pub fn close_all(&mut self) {
        self.there.clear();
        self.key_bytes = 0;
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn algorithm(&self, number: u64) -> Option<&Algorithm> {
        self.there.get(&number).map(|session| &session.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use vhost_user::codec::crypto::SecretKey;
    use virtio::crypto::{Cipher, Opcode};

    use super::*;

    fn aes_cbc() -> CryptoSetup {
        CryptoSetup {
            cipher: Cipher::AesCbc.code(),
            key: SecretKey::new(&[7; 16]),
            ..CryptoSetup::empty(Opcode::CipherCreateSession)
        }
    }

    #[test]
    fn numbers_begin_anywhere_stay_within_31_bits_and_skip_those_in_use() {
        let first = || Sessions::new(Limits::default()).create(&aes_cbc()).unwrap();
        let firsts: std::collections::HashSet<u64> = (0..8).map(|_| first()).collect();
        assert!(firsts.len() > 1, "each connection begins at the same number: {firsts:?}");
        let mut sessions = Sessions::new(Limits::default());
        sessions.last = HIGHEST - 1;
        assert_eq!(sessions.create(&aes_cbc()), Ok(HIGHEST));
        assert_eq!(sessions.create(&aes_cbc()), Ok(1));
        sessions.last = HIGHEST - 1;
        assert_eq!(sessions.create(&aes_cbc()), Ok(2));
    }
}
