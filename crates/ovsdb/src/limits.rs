//! What a server may make this program keep.

/// Limits on what a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message, and of the answers that wait to be sent.
    pub message_bytes: usize,
    /// Values in a message: each takes memory beside its bytes.
    pub message_values: usize,
    /// Arrays and objects within each other.
    pub nesting: usize,
    /// Rows in the cache, over all tables.
    pub rows: usize,
    /// Bytes that the rows in the cache take, about.
    pub cache_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            message_bytes: 32 << 20,
            message_values: 2 << 20,
            nesting: 32,
            rows: 64 << 10,
            cache_bytes: 256 << 20,
        }
    }
}
