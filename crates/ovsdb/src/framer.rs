//! Divides a stream of bytes into JSON objects.
//!
//! JSON-RPC over a stream has no lengths and no separators (RFC 7047, section 4): an object ends with its closing
//! brace. The framer counts brackets outside of strings. The parser checks whether the text between them is JSON.

use crate::limits::Limits;

/// Why a stream cannot be divided into messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A message starts with another character than an opening brace.
    #[error(
        "a message of the database server starts with byte {0:#04x}, not with '{{'; is it an ovsdb-server?"
    )]
    NotAnObject(u8),
    /// A message is longer than allowed.
    #[error("a message of the database server is longer than {0} bytes")]
    TooLong(usize),
    /// A message has more values than allowed.
    #[error("a message of the database server has more than {0} values")]
    TooManyValues(usize),
    /// A message has arrays and objects nested more deeply than allowed.
    #[error("a message of the database server has more than {0} arrays and objects within each other")]
    TooDeep(usize),
}

/// Divides a stream into messages. It keeps the beginning of an incomplete message.
#[derive(Debug)]
pub struct Framer {
    limits: Limits,
    message: Vec<u8>,
    values: usize,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Framer {
    /// A framer at the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        Framer { limits, message: Vec::new(), values: 0, depth: 0, in_string: false, is_escaped: false }
    }

    /// Takes bytes up to the end of a message, and returns the message. Returns `None` if all bytes were taken
    /// before a message was complete.
    ///
    /// # Errors
    /// The stream does not consist of objects, or an object exceeds a limit. The stream cannot be read further.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, FramingError> {
        if self.depth == 0 {
            *bytes = bytes.trim_ascii_start();
        }
        let room = self.limits.message_bytes.saturating_sub(self.message.len());
        for (at, &byte) in bytes.iter().enumerate() {
            if at >= room {
                return Err(FramingError::TooLong(self.limits.message_bytes));
            }
            if self.ends_with(byte)? {
                let (end, rest) = bytes.split_at(at + 1);
                *bytes = rest;
                self.message.extend_from_slice(end);
                self.values = 0;
                return Ok(Some(std::mem::take(&mut self.message)));
            }
        }
        self.message.extend_from_slice(bytes);
        *bytes = &[];
        Ok(None)
    }

    /// Whether this byte is the last of a message.
    fn ends_with(&mut self, byte: u8) -> Result<bool, FramingError> {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return Ok(false);
        }
        match byte {
            b'{' | b'[' if self.depth > 0 || byte == b'{' => {
                self.depth += 1;
                self.values += 1;
                if self.depth > self.limits.nesting {
                    return Err(FramingError::TooDeep(self.limits.nesting));
                }
            }
            _ if self.depth == 0 => return Err(FramingError::NotAnObject(byte)),
            b'}' | b']' => self.depth -= 1,
            b'"' => self.in_string = true,
            b',' | b':' => self.values += 1,
            _ => {}
        }
        if self.values > self.limits.message_values {
            return Err(FramingError::TooManyValues(self.limits.message_values));
        }
        Ok(self.depth == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits =
        Limits { message_bytes: 40, message_values: 8, nesting: 3, rows: 4, cache_bytes: 1 };

    fn all(limits: Limits, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, FramingError> {
        let mut framer = Framer::new(limits);
        let mut messages = Vec::new();
        while let Some(message) = framer.next(&mut bytes)? {
            messages.push(message);
        }
        Ok(messages)
    }

    #[test]
    fn messages_end_with_their_brace() {
        let stream = br#"{"a":"}\"{"} {"b":["\\"]}{"c":1"#;
        let messages = all(SMALL, stream).unwrap();
        assert_eq!(messages, [br#"{"a":"}\"{"}"#.to_vec(), br#"{"b":["\\"]}"#.to_vec()]);
        assert!(all(SMALL, b" \n\t").unwrap().is_empty());
    }

    #[test]
    fn each_limit_is_held_before_the_message_ends() {
        let long = format!("{{\"{}", "a".repeat(50));
        for (stream, error) in [
            ("SSH-2.0", FramingError::NotAnObject(b'S')),
            ("[1]", FramingError::NotAnObject(b'[')),
            ("{} }", FramingError::NotAnObject(b'}')),
            (long.as_str(), FramingError::TooLong(40)),
            (r#"{"a":[[["#, FramingError::TooDeep(3)),
            (r#"{"a":[1,2,3,4,5,6,7"#, FramingError::TooManyValues(8)),
        ] {
            assert_eq!(all(SMALL, stream.as_bytes()), Err(error), "{stream}");
        }
        let exact = format!("{{\"{}\":1}}", "a".repeat(34));
        assert_eq!(all(SMALL, exact.as_bytes()).unwrap().len(), 1);
    }
}
