//! The expensive parts of a base station: the transmit side of layer 2 for each user at each tick, the checks of
//! layer 1 before it, and a core end that undoes everything.
//!
//! | file | does | by |
//! |---|---|---|
//! | `cipher` | 128-EEA2 and 128-EIA2 | 3GPP TS 33.401 annex B |
//! | `pdcp` | ciphering and integrity of one bearer | 3GPP TS 38.323 |
//! | `header_compression` | parsing of IP and UDP headers, one context for each user | after RFC 5795, with another wire format |
//! | `rlc` | segments, unacknowledged mode | 3GPP TS 38.322 |
//! | `schedule` | bytes that each user may send in a tick: proportional fair | |
//! | `transport_block` | CRC and scrambling | 3GPP TS 38.212 §5.1, TS 38.211 §5.2.1 |
//! | `packet` | the users' packets | |

mod cipher;
mod core_end;
mod header_compression;
mod layer_1;
mod layer_2;
mod packet;
mod pdcp;
mod radio_unit;
mod rlc;
mod schedule;
mod transport_block;

pub(crate) use core_end::CoreEnd;
pub(crate) use layer_1::Layer1;
pub(crate) use layer_2::Layer2;
pub(crate) use radio_unit::RadioUnit;
