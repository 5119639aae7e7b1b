//! The client's end of the OVSDB protocol: RFC 7047 and the extensions of Open vSwitch's ovsdb-server(7).
//!
//! The crate has no I/O and no clock. A [`Session`] takes received bytes, and returns bytes to send and events. Time
//! is an argument. The server's bytes are hostile: their size, nesting and number of values are limited. A value that
//! does not fit the schema ends the session with an error.
//!
//! ```text
//!   bytes ──► Framer ──► Message ──► Session ──► Event          Transaction ──► Session ──► bytes
//!             limits     JSON-RPC    lock, monitor   │
//!                                       └──► Cache: rows, checked against the Schema
//! ```
//!
//! # Where to change what
//!
//! - To change the limits on sizes: `limits.rs`. To change how a stream is divided into messages: `framer.rs`.
//! - To change how a value is read or written: `value.rs`. To change the checks against the schema: `schema.rs`.
//! - To handle another notification or send another request: `session.rs`; the format of messages: `message.rs`.
//! - To add an operation of a transaction: `transaction.rs`.
//! - To change how an update is applied to rows: `cache.rs`.
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
