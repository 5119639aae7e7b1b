//! A private instance of Open vSwitch with DPDK: its own database and switch process in a folder and a network
//! namespace of their own, so that a system's Open vSwitch and its interfaces are not touched.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use environment::openvswitch::{self, BRIDGE, Instance, MEMORY_MIB, Programs, started_by};

use crate::netns::Netns;
use crate::process::{self, Process, tail};
use crate::requirements::Requirements;
use crate::{Error, Output, Pages, chosen, cpus};

/// The time limit for Open vSwitch's programs, long enough for a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The settings of Open vSwitch.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pages: Pages,
    folder: Option<PathBuf>,
    options: Vec<(String, String)>,
}

impl Settings {
    /// Sets one of the switch's `other_config` values (ovs-vswitchd.conf.db(5)) before the switch starts; the default
    /// of `pmd-cpu-mask` is only the highest CPU.
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Uses the build in this folder: the folder to which it was installed (`--prefix`, `DESTDIR`) or unpacked, or in
    /// which it was built. The default is the build that set-up fetched, or else the installed one.
    pub fn folder(mut self, folder: Option<PathBuf>) -> Self {
        self.folder = folder;
        self
    }

    /// Sets the kind of pages of the switch's memory. The default is small pages.
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Starts Open vSwitch with an empty bridge that learns addresses.
    ///
    /// # Errors
    /// The test is not root, Open vSwitch or free huge pages are missing, one of its programs fails, or DPDK does not
    /// initialize. The failure quotes the switch's log.
    pub fn start(self) -> Result<OvsDpdk, Error> {
        OvsDpdk::start(self)
    }
}

/// A running Open vSwitch with one bridge in user space. Open vSwitch is killed when this value is dropped.
pub struct OvsDpdk {
    vswitchd: Process,
    _database: Process,
    _namespace: Netns,
    instance: Instance,
    folder: tempfile::TempDir,
}

/// The counters of one port, since it was added.
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

/// The counters of the packet thread, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmdStats {
    /// Packets received.
    pub rx_packets: u64,
    /// The cycles of polls that moved at least one packet.
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

/// The programs of one build. Set-up unpacks the packages into the cache; if it has not, the installed build is used.
pub(crate) fn find(named: Option<&Path>, needs: &mut Requirements) -> Programs {
    let chosen = chosen::named(chosen::OPENVSWITCH);
    let named = named.or(chosen.as_deref());
    let root = named.map(Path::to_owned).or_else(unpacked).unwrap_or_else(|| "/".into());
    let remedy = match named {
        Some(_) => "Open vSwitch with DPDK: name the folder it was built in or installed to",
        None => "Open vSwitch with DPDK: scripts/setup.sh test fetches it",
    };
    let first = |places: &[&str]| -> Result<PathBuf, Infallible> {
        let mut places =
            places.iter().flat_map(|place| ["usr", "usr/local", ""].map(|top| root.join(top).join(place)));
        Ok(places.clone().find(|path| path.is_file()).unwrap_or_else(|| {
            let place = places.next().unwrap_or_default();
            needs.path(&place, remedy);
            place
        }))
    };
    let Ok(programs) = Programs::find(first);
    programs
}

/// DPDK's driver for the switch's buffers in the folder of an unpacked build. DPDK itself looks for drivers only where it
/// is installed.
fn buffer_driver(folder: &Path) -> Option<PathBuf> {
    let inside =
        |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_driver = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("librte_mempool_ring.so"))
    };
    ["usr/lib", "root/usr/lib"]
        .into_iter()
        .flat_map(|place| inside(folder.join(place)))
        .flat_map(|architecture| inside(architecture.join("dpdk")))
        .flat_map(inside)
        .find(is_driver)
}

/// The folder in which set-up has unpacked Open vSwitch with DPDK, if it has.
pub fn unpacked() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(cache.join("tautline/openvswitch")).filter(|folder| folder.is_dir())
}

/// The programs of the build that tests use.
///
/// # Errors
/// Open vSwitch is missing.
pub fn programs() -> Result<Programs, Error> {
    let mut needs = Requirements::new();
    let programs = find(None, &mut needs);
    needs.met()?;
    Ok(programs)
}

/// The file of a build's switch, and the versions of Open vSwitch and DPDK that it prints.
///
/// # Errors
/// Open vSwitch is missing, or its switch fails.
pub fn version(folder: Option<&Path>) -> Result<(PathBuf, String), Error> {
    let mut needs = Requirements::new();
    let programs = find(folder, &mut needs);
    needs.met()?;
    let said = succeed(
        process::run(Command::new(&programs.vswitchd).arg("--version"), LIMIT)?,
        "asking Open vSwitch for its version",
    )?;
    let words = said.lines().filter_map(|line| match line.split_once("(Open vSwitch) ") {
        Some((_, version)) => Some(format!("Open vSwitch {version}")),
        None => line.starts_with("DPDK ").then(|| line.to_owned()),
    });
    let words = words.collect::<Vec<_>>().join(" with ");
    Ok((programs.vswitchd, words))
}

impl OvsDpdk {
    /// Starts Open vSwitch with default settings.
    ///
    /// # Errors
    /// The causes of [`Settings::start`].
    pub fn new() -> Result<Self, Error> {
        Settings::default().start()
    }

    fn start(settings: Settings) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        needs.root();
        let programs = find(settings.folder.as_deref(), &mut needs);
        settings.pages.require(u64::from(MEMORY_MIB), &mut needs);
        needs.met()?;
        let folder = tempfile::tempdir().map_err(Error::system("making a folder for Open vSwitch"))?;
        let instance = programs.instance(folder.path());
        let namespace = Netns::new()?;
        let start = |name: &str, command: Command| {
            Process::start(name, &mut started_by(namespace.command(command.get_program()), &command))
        };
        succeed(process::run(&mut instance.create(), LIMIT)?, "making Open vSwitch's database")?;
        let database = start("Open vSwitch's database", instance.serve_database())?;
        let mut memory = match settings.pages {
            Pages::Small => openvswitch::SMALL_PAGES.to_owned(),
            Pages::Huge => openvswitch::HUGE_PAGES.to_owned(),
        };
        if let Some(driver) = settings.folder.as_deref().and_then(buffer_driver) {
            memory += &format!(" -d {}", driver.display());
        }
        run(&mut instance.configure(&cpus::usable()?, &memory, &settings.options))?;
        let vswitchd = start("Open vSwitch", instance.switch())?;
        let peer = Self { vswitchd, _database: database, _namespace: namespace, instance, folder };
        peer.tell(peer.instance.add_bridge())?;
        if peer.vsctl(&["get", "Open_vSwitch", ".", "dpdk_initialized"])?.trim() != "true" {
            return Err(Error::refused("starting DPDK in Open vSwitch", tail(&peer.said())));
        }
        Ok(peer)
    }

    /// Adds a port of the type `dpdkvhostuserclient`. The switch is the vhost-user back-end, and retries to connect
    /// to the socket on which the driver's side listens.
    ///
    /// # Errors
    /// `ovs-vsctl` fails, or the switch reports an error for the port.
    pub fn add_port(&self, name: &str, socket: &Path) -> Result<(), Error> {
        self.tell(self.instance.add_port(name, socket))?;
        let error = self.vsctl(&["get", "Interface", name, "error"])?;
        match error.trim() {
            "[]" => Ok(()),
            error => Err(Error::refused(format!("adding port {name}"), error)),
        }
    }

    /// Adds a port of the type `dpdkvhostuser`, which listens, and returns its socket. Open vSwitch calls it
    /// deprecated.
    ///
    /// # Errors
    /// `ovs-vsctl` fails, or the switch reports an error for the port.
    pub fn add_listening_port(&self, name: &str) -> Result<PathBuf, Error> {
        self.vsctl(&["add-port", BRIDGE, name, "--", "set", "Interface", name, "type=dpdkvhostuser"])?;
        let error = self.vsctl(&["get", "Interface", name, "error"])?;
        match error.trim() {
            "[]" => Ok(self.folder.path().join(name)),
            error => Err(Error::refused(format!("adding port {name}"), error)),
        }
    }

    /// Waits up to 60 s until a port's driver has connected.
    ///
    /// # Errors
    /// There is no such port, or its driver does not connect in time.
    pub fn wait_for_link(&self, port: &str) -> Result<(), Error> {
        let words = ["wait-until", "Interface", port, "link_state=up"];
        self.vsctl(&words).map(drop)
    }

    /// Forwards all packets of each port to the other port, by flows that match no addresses.
    ///
    /// # Errors
    /// There is no such port, or `ovs-ofctl` fails.
    pub fn connect(&self, a: &str, b: &str) -> Result<(), Error> {
        self.ofctl(&["del-flows", &self.instance.management()])?;
        for (from, to) in [(a, b), (b, a)] {
            self.ofctl(&[
                "add-flow",
                &self.instance.management(),
                &format!("in_port={from},actions=output:{to}"),
            ])?;
        }
        Ok(())
    }

    /// Replaces all flows by the flows of a file. The first port that was added has the number 1.
    ///
    /// # Errors
    /// The file cannot be read, or Open vSwitch refuses a flow.
    pub fn replace_flows(&self, file: &Path) -> Result<(), Error> {
        let file = file.display().to_string();
        self.ofctl(&["-O", "OpenFlow15", "replace-flows", &self.instance.management(), &file]).map(drop)
    }

    /// Makes the bridge learn addresses, which is its state at the start.
    ///
    /// # Errors
    /// `ovs-ofctl` fails, for example because the switch has ended.
    pub fn learn(&self) -> Result<(), Error> {
        self.ofctl(&["del-flows", &self.instance.management()])?;
        self.ofctl(&["add-flow", &self.instance.management(), "actions=NORMAL"]).map(drop)
    }

    /// The addresses that the bridge has learned, as text (`fdb/show`).
    ///
    /// # Errors
    /// `ovs-appctl` fails, for example because the switch has ended.
    pub fn addresses(&self) -> Result<String, Error> {
        self.appctl(&["fdb/show", BRIDGE])
    }

    /// The counters of the packet thread (`dpif-netdev/pmd-stats-show`).
    ///
    /// # Errors
    /// `ovs-appctl` fails, or its output names no packet thread.
    pub fn pmd_stats(&self) -> Result<PmdStats, Error> {
        let text = self.appctl(&["dpif-netdev/pmd-stats-show"])?;
        PmdStats::parse(&text).ok_or_else(|| Error::refused("reading what the packet thread did", text))
    }

    /// The counters of a port.
    ///
    /// # Errors
    /// There is no such port, `ovs-ofctl` fails, or its output lacks a counter.
    pub fn stats(&self, port: &str) -> Result<PortStats, Error> {
        let text = self.ofctl(&["dump-ports", &self.instance.management(), port])?;
        PortStats::parse(&text)
            .ok_or_else(|| Error::refused(format!("reading the counters of port {port}"), text))
    }

    /// Reads a port's counters every 5 ms until `enough` returns true.
    ///
    /// # Errors
    /// The causes of [`OvsDpdk::stats`], or `enough` has not returned true within the limit.
    pub fn wait_for_stats(
        &self,
        port: &str,
        limit: Duration,
        enough: impl Fn(&PortStats) -> bool,
    ) -> Result<PortStats, Error> {
        let doing = || format!("waiting for packets on Open vSwitch's port {port}");
        crate::process::look_until(limit, doing, || self.stats(port), enough)
    }

    /// Runs `ovs-vsctl` with these arguments.
    ///
    /// # Errors
    /// `ovs-vsctl` cannot be started, fails, or does not end within 60 s. The failure quotes the switch's log.
    pub fn vsctl(&self, words: &[&str]) -> Result<String, Error> {
        self.tell(self.instance.vsctl(words))
    }

    /// Runs `ovs-appctl` with these arguments, for the switch.
    ///
    /// # Errors
    /// `ovs-appctl` cannot be started, fails, or does not end within 60 s.
    pub fn appctl(&self, words: &[&str]) -> Result<String, Error> {
        run(&mut self.instance.appctl(words))
    }

    fn ofctl(&self, words: &[&str]) -> Result<String, Error> {
        run(&mut self.instance.ofctl(words))
    }

    /// Runs a command. An error quotes the switch's log, which says what is wrong with the configuration.
    fn tell(&self, mut command: Command) -> Result<String, Error> {
        run(&mut command).map_err(|error| Error::refused(error.to_string(), tail(&self.said())))
    }

    /// The switch's exit status, if it has ended: 128 plus the signal's number if a signal ended it.
    pub fn ended(&mut self) -> Option<i32> {
        self.vswitchd.ended()
    }

    /// The switch's log.
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

pub(crate) fn run(command: &mut Command) -> Result<String, Error> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let words = command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let doing = format!("{name} {words}");
    succeed(process::run(command, LIMIT)?, &doing)
}

pub(crate) fn succeed(output: Output, doing: &str) -> Result<String, Error> {
    if output.success() { Ok(output.stdout) } else { Err(Error::refused(doing, output.stderr)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpacked_build_has_its_own_driver_for_buffers() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(buffer_driver(folder.path()), None);
        let drivers = folder.path().join("root/usr/lib/x86_64-linux-gnu/dpdk/pmds-25.0");
        std::fs::create_dir_all(&drivers).unwrap();
        std::fs::write(drivers.join("librte_net_vhost.so.25.0"), "").unwrap();
        assert_eq!(buffer_driver(folder.path()), None);
        let driver = drivers.join("librte_mempool_ring.so.25.0");
        std::fs::write(&driver, "").unwrap();
        assert_eq!(buffer_driver(folder.path()), Some(driver));
    }

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
