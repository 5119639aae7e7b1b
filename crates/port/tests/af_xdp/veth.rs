//! Veths between the namespace of a port and that of a kernel behind it.
use port::af_xdp::{AfXdp, AfXdpOptions};
use port::spec::Spec;
use port::testing::TestContext;
use port::{Port, PortError};

use crate::namespace::Namespace;

pub fn af_xdp(text: &str) -> AfXdp {
    AfXdp::new(AfXdpOptions::try_from(format!("af-xdp:{text}").parse::<Spec>().unwrap()).unwrap())
}

/// Opens it in the namespace.
pub fn try_open(namespace: &Namespace, text: &str) -> Result<(AfXdp, TestContext), PortError> {
    let mut port = af_xdp(text);
    namespace.run(move || {
        let mut context = TestContext::new();
        port.start(&mut context).map(|()| (port, context))
    })
}

pub fn open(namespace: &Namespace, text: &str) -> (AfXdp, TestContext) {
    try_open(namespace, text).unwrap_or_else(|error| panic!("{error}"))
}

/// A veth from `name` in the port's namespace to `e0` in the other, both up, with so many queues each way.
///
/// Frames of the other kernel have complete checksums: behind a veth no program completes them for an XDP program.
pub fn join(ports: &Namespace, name: &str, kernel: &Namespace, queues: u32) {
    let thread = kernel.run(|| rustix::thread::gettid().as_raw_nonzero());
    let many = format!("numrxqueues {queues} numtxqueues {queues}");
    ports.sh(&format!(
        "ip link add {name} {many} type veth peer name e0 netns {thread} {many} && ip link set {name} up"
    ));
    kernel.sh("ip link set e0 up && ethtool -K e0 tx off");
}
