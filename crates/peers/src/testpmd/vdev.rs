//! testpmd's virtual devices.

use std::fmt::Write;
use std::path::Path;

/// The device with which the kernel is the back-end of a driver.
pub const VHOST_NET: &str = "/dev/vhost-net";

/// A port of testpmd, in the form of DPDK's `--vdev`.
#[derive(Clone, Debug)]
pub struct Vdev {
    kind: &'static str,
    arguments: String,
}

impl Vdev {
    /// `net_virtio_user`: a virtio driver, which is the vhost-user front-end. The driver connects to a listening
    /// back-end.
    pub fn virtio_user(socket: &Path) -> Self {
        Self { kind: "net_virtio_user", arguments: format!("path={}", socket.display()) }
    }

    /// `net_vhost`: a vhost-user back-end, which is the device. It listens.
    pub fn vhost(socket: &Path) -> Self {
        Self { kind: "net_vhost", arguments: format!("iface={}", socket.display()) }
    }

    /// `net_virtio_user` on a TAP through the kernel's vhost-net, which requires [`VHOST_NET`]. The TAP must have
    /// been made for one queue.
    pub fn vhost_net(interface: &str) -> Self {
        Self { kind: "net_virtio_user", arguments: format!("path={VHOST_NET},iface={interface}") }
    }

    /// `net_tap`, which makes a system call for each frame. The TAP is made if there is none; an existing TAP must
    /// have been made for many queues.
    pub fn tap(interface: &str) -> Self {
        Self { kind: "net_tap", arguments: format!("iface={interface}") }
    }

    /// Exchanges the roles on the socket: `net_virtio_user` listens, and `net_vhost` retries to connect.
    pub fn other_role(self) -> Self {
        let word = if self.is_driver() { "server" } else { "client" };
        self.argument(word, 1)
    }

    /// Queue pairs.
    pub fn queue_pairs(self, pairs: u16) -> Self {
        self.argument("queues", pairs)
    }

    /// Whether the driver uses packed rings.
    pub fn packed(self, on: bool) -> Self {
        self.argument("packed_vq", u8::from(on))
    }

    /// Whether the driver uses mergeable receive buffers; the default is on.
    pub fn mergeable(self, on: bool) -> Self {
        self.argument("mrg_rxbuf", u8::from(on))
    }

    /// Whether the driver uses VIRTIO_F_IN_ORDER; the default is on.
    pub fn in_order(self, on: bool) -> Self {
        self.argument("in_order", u8::from(on))
    }

    /// Whether the driver may use vector instructions. [`super::Testpmd::paths`] shows whether the driver uses them.
    pub fn vectorized(self, on: bool) -> Self {
        self.argument("vectorized", u8::from(on))
    }

    /// The number of entries of each queue of the driver.
    pub fn queue_size(self, entries: u16) -> Self {
        self.argument("queue_size", entries)
    }

    /// Sets any argument of the device.
    pub fn argument(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        let _ = write!(self.arguments, ",{name}={value}");
        self
    }

    pub(super) fn is_driver(&self) -> bool {
        self.kind == "net_virtio_user"
    }

    /// The socket that must have a listener before testpmd starts, because a driver connects at once.
    pub(super) fn waits_for(&self) -> Option<&Path> {
        let word = |name: &str| self.arguments.split(',').find_map(|word| word.strip_prefix(name));
        if !self.is_driver() || word("server=").is_some_and(|value| value == "1") {
            return None;
        }
        // The kernel is always there.
        word("path=").filter(|path| *path != VHOST_NET).map(Path::new)
    }

    /// The text for the command line; each device of a process has a number.
    pub(super) fn text(&self, index: usize) -> String {
        format!("{}{index},{}", self.kind, self.arguments)
    }
}

/// The name of the path that a driver of a packed ring takes if [`Vdev::vectorized`] asks for vectors. DPDK needs AVX-512
/// for them. On a CPU without AVX-512, DPDK takes its standard path, and this is reported as not run.
pub fn packed_vectorized_path() -> &'static str {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if ["avx512f", "avx512bw", "avx512vl"].iter().all(|flag| flags.contains(flag)) {
        return "packed ring vectorized";
    }
    crate::absent("avx512", "DPDK's vectorised path needs AVX-512; its standard path is tested again");
    "packed ring standard"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_are_waited_for() {
        let socket = Path::new("/tmp/socket");
        assert_eq!(Vdev::virtio_user(socket).waits_for(), Some(socket));
        assert_eq!(Vdev::virtio_user(socket).other_role().waits_for(), None);
        assert_eq!(Vdev::vhost(socket).waits_for(), None);
        assert_eq!(Vdev::tap("tap0").waits_for(), None);
        assert_eq!(Vdev::vhost_net("tap0").waits_for(), None);
        assert_eq!(Vdev::vhost_net("tap0").text(1), "net_virtio_user1,path=/dev/vhost-net,iface=tap0");
    }
}
