//! TAP ports with a real kernel at the other end, each in a network namespace of its own.
//!
//! Takes root, or root of a user namespace: `unshare --user --map-root-user --net cargo test -p tautline-port`.
mod cut;
#[path = "../common/exchange.rs"]
mod exchange;
mod frames;
#[path = "../common/namespace.rs"]
mod namespace;
#[path = "../common/packet_socket.rs"]
mod packet_socket;
#[path = "../common/relay.rs"]
mod relay;
mod traffic;
mod whose;
