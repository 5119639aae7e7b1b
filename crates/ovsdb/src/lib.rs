//! The OVSDB protocol, the client's end: RFC 7047 and the extensions of Open vSwitch's ovsdb-server(7).
//!
//! No I/O and no clock: a [`Session`] takes the bytes that the server sent and gives the bytes to send and what
//! happened. Time is an argument. The server's bytes are hostile: their size, nesting and number of values are
//! limited, and a value that does not fit the schema ends the session with an error in words.
//!
//! ```text
//!   bytes ──► Framer ──► Message ──► Session ──► Event          Transaction ──► Session ──► bytes
//!             limits     JSON-RPC    lock, monitor   │
//!                                       └──► Cache: rows, checked against the Schema
//! ```
//!
//! # Where to change what
//!
//! - To change what is refused for its size: `limits.rs`; how a stream is cut into messages: `framer.rs`.
//! - To change how a value is read or written: `value.rs`; what the schema says of it: `schema.rs`.
//! - To follow another notification or to ask another request: `session.rs`; the form of messages: `message.rs`.
//! - To add an operation of a transaction: `transaction.rs`.
//! - To change how an update becomes a row: `cache.rs`.
#![forbid(unsafe_code)]

mod cache;
mod framer;
mod limits;
mod message;
mod schema;
mod session;
mod transaction;
mod value;

pub use cache::{Cache, Difference, DifferenceKind, Row, UpdateError};
pub use framer::{Framer, FramingError};
pub use limits::Limits;
pub use message::{Message, MessageError};
pub use schema::{AtomType, ColumnType, Schema, SchemaError};
pub use session::{Event, Follow, Session, SessionError, TransactionId};
pub use transaction::{Function, Mutator, OperationResult, Transaction};
pub use value::{Atom, Datum, Real, Uuid, ValueError};
