//! TAP ports with a real kernel at the other end, each in a network namespace of its own.
//!
//! Takes root, or root of a user namespace: `unshare --user --map-root-user --net cargo test -p port`.
mod frames;
mod namespace;
mod packet_socket;
mod relay;
mod traffic;
mod whose;
