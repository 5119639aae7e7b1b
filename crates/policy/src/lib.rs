//! Policies: which connections the ports of a switch may begin and accept. Answers need no rule.
//!
//! [`compile`] makes flows of the text of a policy. Nothing here reads files or knows a switch.
//!
//! ```text
//!   table 0  ARP and neighbor discovery: forwarded.  IP: tracked, to table 1.  Other frames: to table 4
//!   table 1  known connections: to table 4.  New connections, and known ones that another policy has allowed: to table 2
//!   table 2  the rules of senders (`out`).  A port of a group without such a rule: dropped
//!   table 3  the rules of receivers (`in`).  An address of a group without such a rule: dropped
//!   table 4  delivery
//!   table 7  refused: dropped.  A known connection gets the mark of refused ones: its answers are dropped too
//!   table 5  frames of ports with bound addresses, before all others; table 6  their neighbor discovery
//! ```
//!
//! Rules match the protocols and ports of connections and not of headers, so that they hold for fragments too. Only
//! ARP and neighbor discovery are flooded to ports of groups. Table 4 gives such a port no frame that is not for one of
//! its addresses.
//!
//! # Where to change what
//!
//! - To add a key: `file.rs`, and what it becomes in `compile.rs`.
//! - To change which addresses a bound port may send from: `bindings.rs`.
//! - To change how a rule becomes flows: `rules.rs`; the values in rules: `values.rs`.
#![forbid(unsafe_code)]

mod bindings;
mod compile;
mod file;
mod mistake;
mod port;
mod rules;
mod values;

pub use compile::compile;
pub use mistake::Mistake;
pub use port::Port;
