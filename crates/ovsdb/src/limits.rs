//! Limits on the memory that a server can make this program use.

/// Limits on what a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message, and of the answers that are not sent yet.
    pub message_bytes: usize,
    /// Values in a message. Each takes memory in addition to its bytes.
    pub message_values: usize,
    /// Levels of nested arrays and objects.
    pub nesting: usize,
    /// Rows in the cache, over all tables.
    pub rows: usize,
    /// The approximate size of the rows in the cache, in bytes.
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
