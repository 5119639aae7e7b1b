//! Runs OVN beside a database of Open vSwitch: its two databases, `ovn-northd` and `ovn-controller`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::chosen::{OVN, named};
use crate::ovs::{LIMIT, find, run};
use crate::ovs_database::OvsDatabase;
use crate::process::Process;
use crate::requirements::Requirements;
use crate::socket::wait_for_listener;

/// A running OVN with one chassis, which controls the bridge `br-int` of a database. Its processes are killed when this
/// value is dropped.
pub struct Ovn {
    programs: PathBuf,
    folder: PathBuf,
    /// The database that the controller follows.
    switch: String,
    /// The controller is killed first.
    controller: Option<Process>,
    _northd: Process,
    _databases: [Process; 2],
}

/// A folder that set-up makes.
pub(crate) fn cached(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    cache.unwrap_or_else(|| "/root/.cache".into()).join("tautline").join(name)
}

/// A program of OVN that keeps its files in this folder.
fn program(programs: &Path, folder: &Path, name: &str) -> Command {
    let mut command = Command::new(programs.join("bin").join(name));
    for variable in ["OVN_RUNDIR", "OVS_RUNDIR", "OVN_LOGDIR", "OVN_DBDIR", "OVN_SYSCONFDIR"] {
        command.env(variable, folder);
    }
    command
}

fn controller(programs: &Path, folder: &Path, switch: &str) -> Result<Process, Error> {
    Process::start("ovn-controller", program(programs, folder, "ovn-controller").arg(switch))
}

/// Says what `ovn-controller` reads from a database.
fn configure(database: &OvsDatabase, name: &str, remote: &str, address: &str) -> Result<(), Error> {
    let settings = [
        &format!("external_ids:system-id={name}"),
        &format!("external_ids:ovn-remote={remote}"),
        "external_ids:ovn-encap-type=geneve",
        &format!("external_ids:ovn-encap-ip={address}"),
        "external_ids:ovn-bridge-datapath-type=netdev",
    ];
    database.vsctl(&[&["--no-wait", "set", "Open_vSwitch", "."][..], &settings].concat()).map(drop)
}

/// Another chassis. Its controller is killed when this value is dropped.
pub struct Chassis {
    _controller: Process,
}

impl Ovn {
    /// Starts OVN in the folder of a database, whose bridge `br-int` it makes with `datapath_type=netdev`.
    ///
    /// # Errors
    /// OVN or Open vSwitch is missing, or one of the programs fails.
    pub fn start(database: &OvsDatabase) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        let ovs = find(None, &mut needs);
        let programs = named(OVN).unwrap_or_else(|| cached("ovn")).join("usr");
        needs.path(&programs.join("bin/ovn-controller"), "OVN: scripts/setup.sh test fetches it");
        needs.met()?;
        let folder = database.socket().parent().map(PathBuf::from).unwrap_or_default();
        let serve = |name: &str| -> Result<Process, Error> {
            let file = folder.join(format!("{name}.db"));
            let schema = programs.join(format!("share/ovn/ovn-{name}.ovsschema"));
            run(Command::new(&ovs.tool).arg("create").args([&file, &schema]))?;
            let socket = folder.join(format!("{name}.sock"));
            let remote = format!("--remote=punix:{}", socket.display());
            let control = format!("--unixctl={}", folder.join(format!("{name}.ctl")).display());
            let mut server = Command::new(&ovs.database);
            let process = Process::start("OVN's database", server.args([remote, control]).arg(&file))?;
            wait_for_listener(&socket, LIMIT)?;
            Ok(process)
        };
        let databases = [serve("nb")?, serve("sb")?];
        let remote = |name: &str| format!("unix:{}", folder.join(format!("{name}.sock")).display());
        let program = |name: &str| program(&programs, &folder, name);
        for (tool, name) in [("ovn-nbctl", "nb"), ("ovn-sbctl", "sb")] {
            run(program(tool).arg(format!("--db={}", remote(name))).arg("init"))?;
        }
        let northd = [format!("--ovnnb-db={}", remote("nb")), format!("--ovnsb-db={}", remote("sb"))];
        let northd = Process::start("ovn-northd", program("ovn-northd").args(northd))?;
        configure(database, "hv1", &remote("sb"), "127.0.0.1")?;
        let switch = format!("unix:{}", database.socket().display());
        let controller = Some(controller(&programs, &folder, &switch)?);
        Ok(Ovn { programs, folder, switch, controller, _northd: northd, _databases: databases })
    }

    /// The folder of the databases' sockets `nb.sock` and `sb.sock`.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the switch of another database a chassis too, whose tunnels end at this address.
    ///
    /// # Errors
    /// The controller cannot be started, or `ovs-vsctl` fails.
    pub fn join(&self, database: &OvsDatabase, name: &str, address: &str) -> Result<Chassis, Error> {
        let remote = format!("unix:{}", self.folder.join("sb.sock").display());
        configure(database, name, &remote, address)?;
        let switch = format!("unix:{}", database.socket().display());
        Ok(Chassis { _controller: controller(&self.programs, database.folder(), &switch)? })
    }

    /// Returns once the controller can get frames of `br-int`. It has a connection for frames beside the one for flows, and
    /// waits for one or more seconds before the next attempt if the bridge does not listen at the first one. A frame for
    /// the controller is lost until then.
    ///
    /// # Errors
    /// The controller does not connect within 60 s.
    pub fn wait_for_frames(&self) -> Result<(), Error> {
        let is_connected = |line: &str| line.contains("(ovn_pinctrl") && line.ends_with(": connected");
        let Some(controller) = &self.controller else { return Ok(()) };
        controller.wait_for_log("the connection for frames", LIMIT, |said| {
            said.lines().any(is_connected).then_some(())
        })
    }

    /// Kills the controller and starts it again.
    ///
    /// # Errors
    /// The controller cannot be started.
    pub fn restart_controller(&mut self) -> Result<(), Error> {
        self.controller = None;
        self.controller = Some(controller(&self.programs, &self.folder, &self.switch)?);
        Ok(())
    }

    /// Runs `ovn-nbctl` with these arguments.
    ///
    /// # Errors
    /// `ovn-nbctl` cannot be started, fails, or does not end within 60 s.
    pub fn nbctl(&self, words: &[&str]) -> Result<String, Error> {
        self.tool("ovn-nbctl", "nb", words)
    }

    /// Runs `ovn-sbctl` with these arguments.
    ///
    /// # Errors
    /// `ovn-sbctl` cannot be started, fails, or does not end within 60 s.
    pub fn sbctl(&self, words: &[&str]) -> Result<String, Error> {
        self.tool("ovn-sbctl", "sb", words)
    }

    /// Runs a tool at the database with this name.
    fn tool(&self, program: &str, database: &str, words: &[&str]) -> Result<String, Error> {
        let socket = self.folder.join(format!("{database}.sock"));
        let mut command = Command::new(self.programs.join("bin").join(program));
        run(command.arg(format!("--db=unix:{}", socket.display())).args(words))
    }
}
