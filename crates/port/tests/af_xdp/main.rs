//! AF_XDP ports on veths with a real kernel behind each, in a network namespace of its own.
//!
//! Takes root, in the first user namespace: programs of bpf(2) take CAP_BPF there.
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
mod veth;
mod vlan;
mod whose;
