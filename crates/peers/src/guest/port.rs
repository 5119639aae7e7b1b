//! A guest's vhost-user network port.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use vm::QemuVersion;

/// One of the guest's network interfaces: `eth0` is the first. QEMU is the front-end of the interface.
#[derive(Clone, Debug)]
pub struct Port {
    socket: PathBuf,
    server: bool,
    reconnect: bool,
    queue_pairs: u16,
    mac: Option<String>,
    properties: Vec<(String, String)>,
}

impl Port {
    /// QEMU connects once, when it starts, to a back-end that listens on the socket.
    pub fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            server: false,
            reconnect: false,
            queue_pairs: 1,
            mac: None,
            properties: Vec::new(),
        }
    }

    /// QEMU listens on the socket, and does not boot before the back-end has connected.
    pub fn server(mut self) -> Self {
        self.server = true;
        self
    }

    /// QEMU waits for the back-end, and retries each second after it has lost the connection.
    pub fn reconnect(mut self) -> Self {
        self.reconnect = true;
        self
    }

    /// Sets the number of queue pairs; more than one require as many CPUs in the guest, or `ethtool -L`.
    pub fn queue_pairs(mut self, pairs: u16) -> Self {
        self.queue_pairs = pairs;
        self
    }

    /// Sets the interface's address, such as `02:00:00:00:00:01`. The default is an address that no other port of
    /// this process has.
    pub fn mac(mut self, address: &str) -> Self {
        self.mac = Some(address.to_owned());
        self
    }

    /// Whether packed rings (VIRTIO 1.3, 2.8) are offered to the guest.
    pub fn packed(self, on: bool) -> Self {
        self.switch("packed", on)
    }

    /// Whether mergeable receive buffers are offered.
    pub fn mergeable(self, on: bool) -> Self {
        self.switch("mrg_rxbuf", on)
    }

    /// Whether the guest may leave checksums and segmentation to the device, and may receive frames for which they
    /// are not done. QEMU's default is on.
    pub fn offloads(self, on: bool) -> Self {
        let names = "csum guest_csum gso host_tso4 host_tso6 host_ecn host_ufo guest_tso4 guest_tso6 guest_ecn guest_ufo";
        names.split(' ').fold(self, |port, name| port.switch(name, on))
    }

    /// The largest payload that the device accepts, in bytes (VIRTIO_NET_F_MTU).
    pub fn host_mtu(self, bytes: u16) -> Self {
        self.property("host_mtu", bytes)
    }

    /// The number of entries of each receiveq and transmitq: powers of two from 256 to 1024.
    pub fn queue_sizes(self, receiveq: u16, transmitq: u16) -> Self {
        self.property("rx_queue_size", receiveq).property("tx_queue_size", transmitq)
    }

    /// Turns any property of QEMU's `virtio-net-pci` on or off.
    pub fn switch(self, name: &str, on: bool) -> Self {
        self.property(name, if on { "on" } else { "off" })
    }

    /// Sets any property of QEMU's `virtio-net-pci`.
    pub fn property(mut self, name: &str, value: impl ToString) -> Self {
        self.properties.push((name.to_owned(), value.to_string()));
        self
    }

    pub(super) fn waits_for(&self) -> Option<&Path> {
        (!self.server && !self.reconnect).then_some(self.socket.as_path())
    }

    /// QEMU's arguments for the port with this index.
    pub(crate) fn arguments(&self, index: usize, default_mac: &str, qemu: QemuVersion) -> Vec<String> {
        let mode = match (self.server, self.reconnect) {
            (true, _) => "server=on,wait=on".to_owned(),
            (false, true) => format!("server=off,{}", qemu.reconnect()),
            (false, false) => "server=off".to_owned(),
        };
        let pairs = self.queue_pairs;
        let mac = self.mac.as_deref().unwrap_or(default_mac);
        // No MSI-X: QEMU 7.2.22 without KVM ends by SIGSEGV when the guest unmasks a vector of a vhost-user
        // device. The interrupt line carries the rings' and the configuration's interrupts as well.
        let mut device = format!("virtio-net-pci,netdev=net{index},mac={mac},romfile=,vectors=0");
        if pairs > 1 {
            device.push_str(",mq=on");
        }
        for (name, value) in &self.properties {
            let _ = write!(device, ",{name}={value}");
        }
        let socket = self.socket.display();
        [
            "-chardev".into(),
            format!("socket,id=vhost{index},path={socket},{mode}"),
            "-netdev".into(),
            format!("vhost-user,id=net{index},chardev=vhost{index},queues={pairs}"),
            "-device".into(),
            device,
        ]
        .into()
    }
}
