//! `ovs-vsctl` and a real `ovsdb-server` drive the switch, in the place of ovs-vswitchd.
mod appctl;
mod bfd;
mod bonds;
mod bridges;
mod controllers;
mod first;
mod hostile;
mod hostile_controllers;
mod interfaces;
mod libvirt;
mod many;
mod mirrors;
mod neutron;
mod newer;
mod openflow;
mod openstack;
mod ovn;
mod page;
mod patches;
mod policing;
mod remote;
mod restarts;
mod ssl;
mod tunnels;
mod vlans;
mod zones;

use std::path::{Path, PathBuf};

use peers::requirements::is_root;
use peers::{Netns, OvsDatabase};

use crate::switch_process::wires::{Ends, Shape};
use crate::switch_process::{Sockets, SwitchProcess, wait_for};

/// The bridge of most tests.
const BRIDGE: &str = "br0";

/// A database, and a switch that follows it. The switch makes interfaces in a network namespace of the test.
struct Scene {
    network: Netns,
    database: OvsDatabase,
    sockets: Sockets,
    switch: SwitchProcess,
}

impl Scene {
    /// With a bridge in user space.
    fn new() -> Self {
        Self::with(OvsDatabase::new().unwrap(), Sockets::new())
    }

    fn with(database: OvsDatabase, sockets: Sockets) -> Self {
        let network = network();
        let server = format!("unix:{}", database.socket().display());
        let switch = SwitchProcess::start_in(&network, &arguments(&server, &sockets));
        let scene = Scene { network, database, sockets, switch };
        let netdev = format!("-- set Bridge {BRIDGE} datapath_type=netdev");
        scene.vsctl(&format!("add-br {BRIDGE} {netdev}"));
        scene
    }

    /// As [`Scene::new`], with all sockets in memory, where a switch can note what it delivers.
    fn in_memory() -> Self {
        let database = OvsDatabase::new_in(Path::new("/dev/shm")).unwrap();
        Self::with(database, Sockets::in_memory())
    }

    /// What the switch is started with.
    fn arguments(&self, sockets: &Sockets) -> Vec<String> {
        arguments(&format!("unix:{}", self.database.socket().display()), sockets)
    }

    /// Starts another switch at the same database.
    fn start(&self, sockets: &Sockets) -> SwitchProcess {
        SwitchProcess::start_in(&self.network, &self.arguments(sockets))
    }

    /// Whether the switch listens at a socket.
    fn listens(&self, path: &Path) -> bool {
        peers::socket::listens_beside(self.switch.id(), path)
    }

    /// Runs `ovs-vsctl` with these words, which waits for the switch.
    #[track_caller]
    fn vsctl(&self, words: &str) -> String {
        self.database.vsctl(&words.split(' ').collect::<Vec<_>>()).unwrap()
    }

    /// Runs `ovs-appctl` with these words.
    #[track_caller]
    fn appctl(&self, words: &str) -> String {
        self.database.appctl(&words.split(' ').collect::<Vec<_>>()).unwrap()
    }

    /// Runs `ovs-ofctl` with these words, the second of which is a bridge.
    #[track_caller]
    fn ofctl(&self, words: &str) -> String {
        self.database.ofctl(&words.split(' ').collect::<Vec<_>>()).unwrap()
    }

    /// Adds a port on whose socket the switch listens. Returns the socket.
    fn add_server(&self, name: &str) -> PathBuf {
        self.vsctl(&format!("add-port {BRIDGE} {name} -- set Interface {name} type=dpdkvhostuser"));
        self.database.socket().with_file_name(name)
    }

    /// Adds a port on whose socket the front-end listens. Returns the socket.
    fn add_client(&self, name: &str) -> PathBuf {
        let path = self.sockets.path(name);
        let options = format!("options:vhost-server-path={}", path.display());
        let interface = format!("set Interface {name} type=dpdkvhostuserclient {options}");
        self.vsctl(&format!("add-port {BRIDGE} {name} -- {interface}"));
        path
    }

    /// Adds `one`, where the switch listens, and `two`, where it connects, and plugs a driver into each.
    fn add_ends(&self) -> Ends {
        let (one, two) = (self.add_server("one"), self.add_client("two"));
        let mut ends = Ends::new([(&one, false), (&two, true)], &Shape::default());
        ends.wait_until_up();
        ends.introduce();
        // A frame that came before its receiver's would be flooded.
        wait_for("both stations", || (self.switch.snapshot()["table"]["addresses"] == 2).then_some(()));
        ends
    }

    /// What `ovs-vsctl get` prints of an interface, a line for each column.
    #[track_caller]
    fn columns(&self, interface: &str, columns: &str) -> String {
        self.vsctl(&format!("--no-wait get Interface {interface} {columns}"))
    }
}

/// A network namespace in which interfaces can be made.
fn network() -> Netns {
    if is_root() { Netns::new() } else { Netns::unprivileged() }.unwrap()
}

fn arguments(server: &str, sockets: &Sockets) -> Vec<String> {
    let control = sockets.path("control").display().to_string();
    ["--control".to_owned(), control, "--ovsdb".to_owned(), server.to_owned()].into()
}

/// Memory of a process.
fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
