//! Open vSwitch with DPDK, a private instance: its own database and switch process in a folder and a network
//! namespace of their own, so that a system's Open vSwitch and its interfaces are not touched.
//!
//! Without huge pages it needs `--no-huge` and `--legacy-mem`: Open vSwitch adds `--in-memory` otherwise, which
//! DPDK refuses beside the first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::netns::Netns;
use crate::process::{self, Process, tail};
use crate::requirements::Requirements;
use crate::{Error, Output, Pages, cpus};

/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const BRIDGE: &str = "peer0";
/// Memory that it takes.
const MEMORY_MIB: u64 = 384;

/// What Open vSwitch is to be.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pages: Pages,
    folder: Option<PathBuf>,
    options: Vec<(String, String)>,
}

impl Settings {
    /// One of the switch's `other_config` values (ovs-vswitchd.conf.db(5)), set before it starts:
    /// `pmd-cpu-mask` is the highest CPU alone otherwise.
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The build in this folder: where it was installed to (`--prefix`, `DESTDIR`), where a package was unpacked to, or
    /// where it was built. The one that set-up fetched, or the installed one, otherwise.
    pub fn folder(mut self, folder: Option<PathBuf>) -> Self {
        self.folder = folder;
        self
    }

    /// What its memory is made of; small pages otherwise.
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Starts it with an empty bridge that learns addresses.
    pub fn start(self) -> Result<OvsDpdk, Error> {
        OvsDpdk::start(self)
    }
}

/// A running Open vSwitch with one bridge in user space. Killed when dropped.
pub struct OvsDpdk {
    vswitchd: Process,
    _database: Process,
    _namespace: Netns,
    tools: Tools,
    folder: tempfile::TempDir,
}

/// Counters of one port, since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "OpenFlow's own names; received and sent as the switch does it")]
pub struct PortStats {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub tx_dropped: u64,
}

/// Counters of the packet thread, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmdStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Cycles of polls that moved something.
    pub busy_cycles: u64,
}

impl PmdStats {
    fn parse(text: &str) -> Option<Self> {
        let thread = text.split("pmd thread").nth(1)?.split("main thread").next()?;
        let number = |name: &str| -> Option<u64> {
            let rest = thread.split(name).nth(1)?.trim_start_matches([':', ' ']);
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        Some(Self { rx_packets: number("packets received")?, busy_cycles: number("processing cycles")? })
    }
}

/// The programs of one build.
struct Tools {
    vswitchd: PathBuf,
    database: PathBuf,
    schema: PathBuf,
    tool: PathBuf,
    vsctl: PathBuf,
    ofctl: PathBuf,
    appctl: PathBuf,
}

impl Tools {
    /// Set-up unpacks the packages into the cache; an installed one is taken where it has not.
    fn find(named: Option<&Path>, needs: &mut Requirements) -> Self {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
        let unpacked =
            || cache.map(|cache| cache.join("tautline/openvswitch")).filter(|folder| folder.is_dir());
        let root = named.map(Path::to_owned).or_else(unpacked).unwrap_or_else(|| "/".into());
        let remedy = match named {
            Some(_) => "Open vSwitch with DPDK: name the folder it was built in or installed to",
            None => "Open vSwitch with DPDK: scripts/setup.sh test fetches it",
        };
        // As Debian installs it, as `make install` does, and where it was built.
        let mut first = |places: &[&str]| {
            let mut places = places
                .iter()
                .flat_map(|place| ["usr", "usr/local", ""].map(|top| root.join(top).join(place)));
            places.clone().find(|path| path.is_file()).unwrap_or_else(|| {
                let place = places.next().unwrap_or_default();
                needs.path(&place, remedy);
                place
            })
        };
        let utility = |name: &str| [format!("bin/{name}"), format!("utilities/{name}")];
        let mut in_bin = |name: &str| first(&utility(name).each_ref().map(String::as_str));
        Self {
            vsctl: in_bin("ovs-vsctl"),
            ofctl: in_bin("ovs-ofctl"),
            appctl: in_bin("ovs-appctl"),
            tool: first(&["bin/ovsdb-tool", "ovsdb/ovsdb-tool"]),
            vswitchd: first(&[
                "lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
                "sbin/ovs-vswitchd",
                "vswitchd/ovs-vswitchd",
            ]),
            database: first(&["sbin/ovsdb-server", "ovsdb/ovsdb-server"]),
            schema: first(&["share/openvswitch/vswitch.ovsschema", "vswitchd/vswitch.ovsschema"]),
        }
    }
}

/// The file of a build's switch, and what it says of its version and of DPDK's.
pub fn version(folder: Option<&Path>) -> Result<(PathBuf, String), Error> {
    let mut needs = Requirements::new();
    let tools = Tools::find(folder, &mut needs);
    needs.met()?;
    let said = succeed(
        process::run(Command::new(&tools.vswitchd).arg("--version"), LIMIT)?,
        "asking Open vSwitch for its version",
    )?;
    let words = said.lines().filter_map(|line| match line.split_once("(Open vSwitch) ") {
        Some((_, version)) => Some(format!("Open vSwitch {version}")),
        None => line.starts_with("DPDK ").then(|| line.to_owned()),
    });
    let words = words.collect::<Vec<_>>().join(" with ");
    Ok((tools.vswitchd, words))
}

impl OvsDpdk {
    /// Starts it with nothing unusual.
    pub fn new() -> Result<Self, Error> {
        Settings::default().start()
    }

    fn start(settings: Settings) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        needs.root();
        let tools = Tools::find(settings.folder.as_deref(), &mut needs);
        settings.pages.require(MEMORY_MIB, &mut needs);
        needs.met()?;
        let folder = tempfile::tempdir().map_err(Error::system("making a folder for Open vSwitch"))?;
        let namespace = Netns::new()?;
        let inside = |program: &Path| {
            let mut command = namespace.command(program);
            in_folder(&mut command, folder.path());
            command
        };
        let at = |name: &str| folder.path().join(name).display().to_string();

        let mut create = Command::new(&tools.tool);
        create.arg("create").arg(at("conf.db")).arg(&tools.schema);
        succeed(
            process::run(in_folder(&mut create, folder.path()), LIMIT)?,
            "making Open vSwitch's database",
        )?;
        let mut server = inside(&tools.database);
        server.arg(at("conf.db")).arg(format!("--remote=punix:{}", at("db.sock")));
        server.args([format!("--unixctl={}", at("db.ctl")), "--no-chdir".into(), "-vsyslog:off".into()]);
        let database = Process::start("Open vSwitch's database", &mut server)?;

        let mut vswitchd = inside(&tools.vswitchd);
        vswitchd.arg(format!("unix:{}", at("db.sock"))).arg(format!("--unixctl={}", at("ctl")));
        vswitchd.args(["--no-chdir", "-vsyslog:off", "-vconsole:info"]);

        let cpus = cpus::usable()?;
        let (first, last) = (cpus.first().copied().unwrap_or(0), cpus.last().copied().unwrap_or(0));
        let memory = match settings.pages {
            Pages::Small => "--no-huge --legacy-mem",
            Pages::Huge => "--in-memory",
        };
        let mut options = BTreeMap::from([
            ("dpdk-init".to_owned(), "true".to_owned()),
            (
                "dpdk-extra".into(),
                format!("{memory} -m {MEMORY_MIB} --no-pci --no-telemetry --no-shconf --file-prefix=peer"),
            ),
            // The one pool that ports share otherwise is of 262144 buffers, 800 MB.
            ("per-port-memory".into(), "true".into()),
            ("dpdk-lcore-mask".into(), cpus::mask(first)),
            ("pmd-cpu-mask".into(), cpus::mask(last)),
        ]);
        options.extend(settings.options);
        let mut words = vec!["--no-wait".to_owned(), "init".into(), "--".into()];
        words.extend(["set".into(), "Open_vSwitch".into(), ".".into()]);
        words.extend(options.iter().map(|(name, value)| format!("other_config:{name}=\"{value}\"")));
        // The database answers as soon as it is up: `ovs-vsctl` asks again until then.
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        vsctl(&tools, folder.path(), &words)?;
        let vswitchd = Process::start("Open vSwitch", &mut vswitchd)?;
        let peer = Self { vswitchd, _database: database, _namespace: namespace, tools, folder };
        peer.vsctl(&["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev"])?;
        if peer.vsctl(&["get", "Open_vSwitch", ".", "dpdk_initialized"])?.trim() != "true" {
            return Err(Error::refused("starting DPDK in Open vSwitch", tail(&peer.said())));
        }
        Ok(peer)
    }

    /// Adds a port of the kind `dpdkvhostuserclient`: the switch is the vhost-user back-end, and connects to
    /// the socket, again and again, on which the driver's side listens.
    pub fn add_port(&self, name: &str, socket: &Path) -> Result<(), Error> {
        let path = format!("options:vhost-server-path={}", socket.display());
        let words =
            ["add-port", BRIDGE, name, "--", "set", "Interface", name, "type=dpdkvhostuserclient", &path];
        self.vsctl(&words)?;
        let error = self.vsctl(&["get", "Interface", name, "error"])?;
        match error.trim() {
            "[]" => Ok(()),
            error => Err(Error::refused(format!("adding port {name}"), error)),
        }
    }

    /// Adds a port of the kind `dpdkvhostuser`, which listens; its socket. Deprecated, and still there.
    pub fn add_listening_port(&self, name: &str) -> Result<PathBuf, Error> {
        self.vsctl(&["add-port", BRIDGE, name, "--", "set", "Interface", name, "type=dpdkvhostuser"])?;
        let error = self.vsctl(&["get", "Interface", name, "error"])?;
        match error.trim() {
            "[]" => Ok(self.folder.path().join(name)),
            error => Err(Error::refused(format!("adding port {name}"), error)),
        }
    }

    /// Waits until a port has its driver.
    pub fn wait_for_link(&self, port: &str) -> Result<(), Error> {
        let words = ["wait-until", "Interface", port, "link_state=up"];
        self.vsctl(&words).map(drop)
    }

    /// All that comes from one port goes to the other, and back; no addresses are looked at.
    pub fn connect(&self, a: &str, b: &str) -> Result<(), Error> {
        self.ofctl(&["del-flows", &self.management()])?;
        for (from, to) in [(a, b), (b, a)] {
            self.ofctl(&["add-flow", &self.management(), &format!("in_port={from},actions=output:{to}")])?;
        }
        Ok(())
    }

    /// Learns addresses, as it does from the start.
    pub fn learn(&self) -> Result<(), Error> {
        self.ofctl(&["del-flows", &self.management()])?;
        self.ofctl(&["add-flow", &self.management(), "actions=NORMAL"]).map(drop)
    }

    /// The addresses it has learned, as it shows them (`fdb/show`).
    pub fn addresses(&self) -> Result<String, Error> {
        self.appctl(&["fdb/show", BRIDGE])
    }

    /// What its packet thread counted (`dpif-netdev/pmd-stats-show`).
    pub fn pmd_stats(&self) -> Result<PmdStats, Error> {
        let text = self.appctl(&["dpif-netdev/pmd-stats-show"])?;
        PmdStats::parse(&text).ok_or_else(|| Error::refused("reading what the packet thread did", text))
    }

    /// The counters of a port.
    pub fn stats(&self, port: &str) -> Result<PortStats, Error> {
        let text = self.ofctl(&["dump-ports", &self.management(), port])?;
        PortStats::parse(&text)
            .ok_or_else(|| Error::refused(format!("reading the counters of port {port}"), text))
    }

    /// Looks at a port's counters until they satisfy.
    pub fn wait_for_stats(
        &self,
        port: &str,
        limit: Duration,
        enough: impl Fn(&PortStats) -> bool,
    ) -> Result<PortStats, Error> {
        let doing = || format!("waiting for packets on Open vSwitch's port {port}");
        crate::process::look_until(limit, doing, || self.stats(port), enough)
    }

    /// Runs `ovs-vsctl` with these words.
    pub fn vsctl(&self, words: &[&str]) -> Result<String, Error> {
        vsctl(&self.tools, self.folder.path(), words)
            .map_err(|error| Error::refused(error.to_string(), tail(&self.said())))
    }

    /// Runs `ovs-appctl` with these words, for the switch.
    pub fn appctl(&self, words: &[&str]) -> Result<String, Error> {
        self.tool(
            &self.tools.appctl,
            [&["-t", &self.folder.path().join("ctl").display().to_string()], words].concat(),
        )
    }

    fn ofctl(&self, words: &[&str]) -> Result<String, Error> {
        self.tool(&self.tools.ofctl, words.to_vec())
    }

    fn management(&self) -> String {
        format!("unix:{}", self.folder.path().join(format!("{BRIDGE}.mgmt")).display())
    }

    fn tool(&self, program: &Path, words: Vec<&str>) -> Result<String, Error> {
        let mut command = Command::new(program);
        let name = program.file_name().unwrap_or_default().display();
        in_folder(command.args(&words), self.folder.path());
        succeed(process::run(&mut command, LIMIT)?, &format!("{name} {}", words.join(" ")))
    }

    /// Its exit status, if it has ended: 128 and the signal's number where a signal ended it.
    pub fn ended(&mut self) -> Option<i32> {
        self.vswitchd.ended()
    }

    /// What the switch has logged.
    pub fn said(&self) -> String {
        self.vswitchd.said()
    }

    /// The switch's process id.
    pub fn id(&self) -> u32 {
        self.vswitchd.id()
    }
}

impl PortStats {
    /// From `ovs-ofctl dump-ports`: "rx pkts=1, bytes=2, drop=3, …" and the same for "tx".
    fn parse(text: &str) -> Option<Self> {
        let (rx, tx) = text.split_once("rx pkts=")?.1.split_once("tx pkts=")?;
        let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        let named = |section: &str, name: &str| number(section.split_once(name)?.1);
        Some(Self {
            rx_packets: number(rx)?,
            rx_bytes: named(rx, "bytes=")?,
            rx_dropped: named(rx, "drop=")?,
            tx_packets: number(tx)?,
            tx_bytes: named(tx, "bytes=")?,
            tx_dropped: named(tx, "drop=")?,
        })
    }
}

fn vsctl(tools: &Tools, folder: &Path, words: &[&str]) -> Result<String, Error> {
    let mut command = Command::new(&tools.vsctl);
    command.arg(format!("--db=unix:{}", folder.join("db.sock").display()));
    command.args([&format!("--timeout={}", LIMIT.as_secs() - 5), "--retry", "--no-syslog"]).args(words);
    in_folder(&mut command, folder);
    succeed(process::run(&mut command, LIMIT)?, &format!("ovs-vsctl {}", words.join(" ")))
}

/// Where Open vSwitch and DPDK look for, and leave, all that is not named to them.
fn in_folder<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR", "RUNTIME_DIRECTORY"] {
        command.env(name, folder);
    }
    command
}

fn succeed(output: Output, doing: &str) -> Result<String, Error> {
    if output.success() { Ok(output.stdout) } else { Err(Error::refused(doing, output.stderr)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_names() {
        let text = "OFPST_PORT reply (xid=0x4): 1 ports\n  port  p0: rx pkts=7, bytes=448, drop=1, errs=0, frame=?, \
                    over=?, crc=?\n           tx pkts=9, bytes=576, drop=2, errs=?, coll=?\n";
        let wanted = PortStats {
            rx_packets: 7,
            rx_bytes: 448,
            rx_dropped: 1,
            tx_packets: 9,
            tx_bytes: 576,
            tx_dropped: 2,
        };
        assert_eq!(PortStats::parse(text), Some(wanted));
        assert_eq!(PortStats::parse("OFPST_PORT reply (xid=0x4): 0 ports"), None);
        let text = "pmd thread numa_id 0 core_id 1:\n  packets received: 500\n  packet recirculations: 0\n  \
                    idle cycles: 100 (10.00%)\n  processing cycles: 900 (90.00%)\nmain thread:\n  packets received: 3\n";
        assert_eq!(PmdStats::parse(text), Some(PmdStats { rx_packets: 500, busy_cycles: 900 }));
        assert_eq!(PmdStats::parse("main thread:\n packets received: 3"), None);
    }
}
