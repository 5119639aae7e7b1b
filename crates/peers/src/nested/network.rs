//! Network paths from the nested machine to a guest in it: the requirements of QEMU and of the machine for each path,
//! and the addresses at both ends.

use std::time::Duration;

use super::inner::{Inner, InnerSettings};
use super::machine::{Machine, Settings};
use crate::{Error, Output};

const DAY: Duration = Duration::from_secs(24 * 3600);
const SOCKET: &str = "/run/guest.vhost-user";
/// No packets but those of the test: IPv6 sends some by itself.
const QUIET: &str =
    "for all in all default; do echo 1 >/proc/sys/net/ipv6/conf/$all/disable_ipv6; done 2>/dev/null";
/// The PCI address in the machine of the network card that is assigned to a guest.
pub const HANDED_ON: &str = "00:06.0";
/// The PCI address in the machine of the virtual function that [`Machine::make_function`] makes.
pub const FUNCTION: &str = "01:10.0";
/// The card of which it is a function.
const PHYSICAL: &str = "52:54:00:00:03:06";
/// The machine's own card on the same wire.
const NEAR: &str = "52:54:00:00:01:06";

/// The path of frames from the machine to the guest in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkPath {
    /// QEMU emulates an e1000, on a TAP.
    E1000,
    /// QEMU is the virtio device, on a TAP.
    VirtioQemu,
    /// The kernel is the virtio device, on a TAP.
    VhostNet,
    /// The kernel is the virtio device, on a macvtap above one end of a veth pair.
    Macvtap,
    /// `tautline switch` is the virtio device; its other port is a TAP. This path requires the program in the
    /// machine.
    VhostUser,
    /// A network card of the machine, assigned to the guest by VFIO; its cable ends at another card of the machine.
    /// This path requires [`Settings::card_to_hand_on`].
    Direct,
}

impl NetworkPath {
    /// All paths.
    pub const ALL: [Self; 6] =
        [Self::E1000, Self::VirtioQemu, Self::VhostNet, Self::Macvtap, Self::VhostUser, Self::Direct];

    /// The path's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::E1000 => "e1000",
            Self::VirtioQemu => "virtio-qemu",
            Self::VhostNet => "vhost-net",
            Self::Macvtap => "macvtap",
            Self::VhostUser => "vhost-user",
            Self::Direct => "direct",
        }
    }

    fn number(self) -> usize {
        1 + Self::ALL.iter().position(|path| *path == self).expect("all are in the list")
    }

    /// The machine's address on the path; each path has a network of 24 bits.
    pub fn machine_address(self) -> String {
        format!("10.0.{}.1", self.number())
    }

    /// The guest's address on the path.
    pub fn guest_address(self) -> String {
        format!("10.0.{}.2", self.number())
    }

    /// The Ethernet address of the guest's card.
    pub fn mac(self) -> String {
        format!("52:54:00:00:02:{:02x}", self.number())
    }

    /// The commands of the machine's shell before QEMU starts.
    fn prepare(self) -> String {
        let (number, address, mac) = (self.number(), self.machine_address(), self.mac());
        let tap = format!(
            "ip tuntap add tap{number} mode tap && ip addr add {address}/24 dev tap{number} && ip link set tap{number} up"
        );
        match self {
            Self::E1000 | Self::VirtioQemu => format!("modprobe tun; {tap}"),
            Self::VhostNet => format!("modprobe tun; modprobe vhost_net; {tap}"),
            Self::Macvtap => format!(
                "modprobe vhost_net; modprobe veth; modprobe macvtap; set -e
                 ip link add veth{number} type veth peer name lower{number}
                 ip addr add {address}/24 dev veth{number}; ip link set veth{number} up
                 ip link add link lower{number} name macvtap{number} type macvtap mode bridge
                 ip link set lower{number} up; ip link set macvtap{number} address {mac} up"
            ),
            Self::VhostUser => format!("modprobe tun; rm -f {SOCKET}"),
            Self::Direct => format!(
                "modprobe vfio_pci; modprobe vfio_iommu_type1; modprobe e1000e; set -e
                 cd /sys/bus/pci/devices/0000:{HANDED_ON}; echo vfio-pci >driver_override
                 [ ! -e driver ] || echo 0000:{HANDED_ON} >driver/unbind
                 echo 0000:{HANDED_ON} >/sys/bus/pci/drivers_probe
                 {}",
                Self::near_end()
            ),
        }
    }

    /// The commands of the machine's shell for its own card on the wire of [`NetworkPath::Direct`].
    fn near_end() -> String {
        let address = Self::Direct.machine_address();
        format!(
            "near=$(basename $(dirname $(grep -l {NEAR} /sys/class/net/*/address)))
             ip addr replace {address}/24 dev $near; ip link set $near up"
        )
    }

    fn arguments(self) -> String {
        let (number, mac) = (self.number(), self.mac());
        let tap = format!("-netdev tap,id=net{number},ifname=tap{number},script=no,downscript=no");
        let virtio = format!("-device virtio-net-pci,netdev=net{number},mac={mac},romfile=");
        match self {
            Self::E1000 => format!("{tap},vhost=off -device e1000,netdev=net{number},mac={mac},romfile="),
            Self::VirtioQemu => format!("{tap},vhost=off {virtio}"),
            Self::VhostNet => format!("{tap},vhost=on {virtio}"),
            Self::Macvtap => format!(
                "-netdev tap,id=net{number},fd=5,vhost=on {virtio} 5<>/dev/tap$(cat /sys/class/net/macvtap{number}/ifindex)"
            ),
            Self::VhostUser => format!(
                "-chardev socket,id=switch,path={SOCKET} -netdev vhost-user,id=net{number},chardev=switch {virtio}"
            ),
            Self::Direct => format!("-device vfio-pci,host={HANDED_ON},rombar=0"),
        }
    }
}

impl Settings {
    /// Adds a cable between two e1000e cards of the machine; [`NetworkPath::Direct`] assigns one of them,
    /// [`HANDED_ON`], to the guest.
    pub fn card_to_hand_on(self) -> Self {
        let far = format!("e1000e,netdev=far,mac={},addr=06,romfile=", NetworkPath::Direct.mac());
        let near = format!("e1000e,netdev=near,mac={NEAR},addr=07,romfile=");
        self.arguments(["-netdev", "hubport,id=near,hubid=0", "-netdev", "hubport,id=far,hubid=0"])
            .arguments(["-device", &near, "-device", &far])
    }
}

impl Settings {
    /// Adds a cable between an e1000e card and a card with virtual functions (igb, SR-IOV) behind a port of the
    /// emulated IOMMU.
    pub fn card_with_functions(self) -> Self {
        let far = format!("igb,netdev=far,mac={PHYSICAL},bus=functions,romfile=");
        let near = format!("e1000e,netdev=near,mac={NEAR},addr=07,romfile=");
        self.arguments(["-netdev", "hubport,id=near,hubid=0", "-netdev", "hubport,id=far,hubid=0"])
            .arguments(["-device", "pcie-root-port,id=functions,chassis=1,addr=06"])
            .arguments(["-device", &far, "-device", &near])
    }
}

impl Machine {
    /// Makes a virtual function of the card that [`Settings::card_with_functions`] adds: [`FUNCTION`], with the driver
    /// `igbvf` and the Ethernet address of [`NetworkPath::Direct`]. Returns the interface of the card, which is up.
    pub fn make_function(&self) -> String {
        let mac = NetworkPath::Direct.mac();
        let card = self.must(&format!(
            "{QUIET}
             set -e; modprobe igb; card=$(basename $(dirname $(grep -l {PHYSICAL} /sys/class/net/*/address)))
             ip link set $card up; echo 1 >/sys/class/net/$card/device/sriov_numvfs
             ip link set $card vf 0 mac {mac}; modprobe igbvf; echo $card"
        ));
        card.trim().to_owned()
    }

    /// The machine's own interface at the cable of [`NetworkPath::Direct`]; it is down.
    pub fn near_interface(&self) -> String {
        let found = self.must(&format!(
            "modprobe e1000e; basename $(dirname $(grep -l {NEAR} /sys/class/net/*/address))"
        ));
        found.trim().to_owned()
    }

    /// Brings up the machine's own card at the cable of [`NetworkPath::Direct`], for tests in which another program
    /// assigns the other card.
    pub fn bring_near_end_up(&self) {
        self.must(&format!("{QUIET}\nmodprobe e1000e; set -e\n{}", NetworkPath::near_end()));
    }

    /// Makes the machine's end of a path. Must be called before a guest with this path is started.
    ///
    /// # Errors
    /// A command of the machine fails, for example because a module or the path's device is missing, or the switch
    /// does not listen within 10 s.
    pub fn prepare(&self, path: NetworkPath) -> Result<(), Error> {
        let output = self.run(&format!("{QUIET}\n{}", path.prepare()))?;
        if !output.success() {
            return Err(Error::refused(format!("preparing the path {}", path.name()), output.stderr));
        }
        if path == NetworkPath::VhostUser {
            let address = path.machine_address();
            let number = path.number();
            let job = self.begin(&format!(
                "tautline switch --port host=tap:tap{number},address={address}/24 --port guest=vhost-user:{SOCKET} >/run/switch.log 2>&1"), DAY)?;
            let listens = format!(
                "for i in $(seq 100); do [ -S {SOCKET} ] && exit; sleep 0.1; done; cat /run/switch.log >&2; exit 1"
            );
            let output = self.run(&listens)?;
            if !output.success() {
                return Err(Error::refused("starting the switch in the nested machine", output.stderr));
            }
            // The command runs as long as the machine.
            drop(job);
        }
        Ok(())
    }
}

impl InnerSettings {
    /// Adds a network card on this path. The guest then boots the generic kernel, which has drivers for all paths.
    pub fn network(self, path: NetworkPath) -> Self {
        let settings = self.arguments(&path.arguments()).generic_kernel();
        if path == NetworkPath::VhostUser { settings.shared_memory() } else { settings }
    }
}

impl Inner<'_> {
    /// Sets the guest's address on a path, and waits until the link is up.
    ///
    /// # Errors
    /// The guest has no card on the path, refuses the address, or the link is not up within 10 s.
    pub fn bring_up(&self, path: NetworkPath) -> Result<Output, Error> {
        let (mac, address) = (path.mac(), path.guest_address());
        let output = self.run(&format!(
            "{QUIET}
             set -e; card=$(basename $(dirname $(grep -l {mac} /sys/class/net/*/address)))
             ip addr add {address}/24 dev $card; ip link set $card up
             for i in $(seq 100); do [ \"$(cat /sys/class/net/$card/carrier)\" = 1 ] && exit; sleep 0.1; done; exit 1"
        ))?;
        match output.success() {
            true => Ok(output),
            false => {
                Err(Error::refused(format!("bringing up {} in the guest within", path.name()), output.stderr))
            }
        }
    }
}

impl Machine {
    /// Boots a guest with a card on each of these paths, with addresses at both ends and all links up. For
    /// [`NetworkPath::Direct`] the machine requires [`Settings::card_to_hand_on`].
    ///
    /// # Errors
    /// The causes of [`Machine::prepare`], [`Machine::guest`] and [`Inner::bring_up`].
    pub fn guest_on(&self, paths: &[NetworkPath], settings: InnerSettings) -> Result<Inner<'_>, Error> {
        paths.iter().try_for_each(|path| self.prepare(*path))?;
        let inner = self.guest(&paths.iter().fold(settings, |settings, path| settings.network(*path)))?;
        for path in paths {
            inner.bring_up(*path)?;
        }
        Ok(inner)
    }
}
