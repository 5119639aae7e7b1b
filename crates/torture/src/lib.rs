//! Hostile vhost-user front-ends for any back-end: messages out of order, doubled, truncated, with wrong descriptors;
//! malformed rings of both layouts; memory that shrinks or is withdrawn; eventfds that block; front-ends that do not read.
//!
//! Each [`Family`] makes cases of one kind; a case follows from family, seed and number, so that it can be run again.
//! After every few cases the back-end must serve a correct front-end. Cases are made only from bytes and files. They
//! use no part of the back-end under test, so none of its faults can crash this program.
#![forbid(unsafe_code)]

mod answers;
mod bystander;
mod cases;
mod crypto_bystander;
mod family;
mod front_end;
mod health;
mod memory;
mod message;
mod process;
mod run;
mod turns;

pub use bystander::{Bystander, Undisturbed};
pub use crypto_bystander::{CryptoBystander, Requests};
pub use family::{Family, UnknownFamily};
pub use health::{Health, families_of};
pub use process::BackEnd;
pub use run::{Amount, Counts, Finding, Plan, Target, run};
pub use turns::Turns;
