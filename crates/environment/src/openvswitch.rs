//! Starts Open vSwitch with DPDK as a separate instance: its programs, and the arguments of each. The database and
//! the sockets are in a folder of the instance, so that the system's Open vSwitch is not touched. The caller starts
//! the programs and ends them.
//!
//! Without huge pages Open vSwitch needs `--no-huge` and `--legacy-mem`. Without `--legacy-mem` Open vSwitch adds
//! `--in-memory`, which DPDK refuses together with `--no-huge`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use measure::Failure;

use crate::command;

/// The bridge of an instance; the kernel's interface of the bridge has the same name.
pub const BRIDGE: &str = "ovs0";
/// The memory that DPDK takes in an instance, in MiB.
pub const MEMORY_MIB: u32 = 384;
/// DPDK's options for memory of small pages.
pub const SMALL_PAGES: &str = "--no-huge --legacy-mem";
/// DPDK's options for memory of huge pages.
pub const HUGE_PAGES: &str = "--in-memory";

/// How long `ovs-vsctl` asks a database, or waits for the switch, s.
const LIMIT_S: u32 = 55;

/// A command with the arguments and variables of another command, to be started by `starter`.
pub fn started_by(mut starter: Command, of: &Command) -> Command {
    starter.args(of.get_args());
    starter.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
    starter
}

/// The paths of the programs of one build.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The switch.
    pub vswitchd: PathBuf,
    /// The server of the switch's database.
    pub database: PathBuf,
    /// The schema from which the database is made.
    pub schema: PathBuf,
    /// The program that makes the database.
    pub tool: PathBuf,
    /// The program that configures the switch.
    pub vsctl: PathBuf,
    /// The program that sets the switch's flows.
    pub ofctl: PathBuf,
    /// The program that queries the running switch.
    pub appctl: PathBuf,
}

impl Programs {
    /// Finds each program by its possible paths below a folder such as `/usr`: the paths of Debian's packages, of
    /// `make install`, and of a build tree.
    ///
    /// # Errors
    /// The first error that `first` returns.
    pub fn find<E>(mut first: impl FnMut(&[&str]) -> Result<PathBuf, E>) -> Result<Self, E> {
        Ok(Self {
            vsctl: first(&["bin/ovs-vsctl", "utilities/ovs-vsctl"])?,
            ofctl: first(&["bin/ovs-ofctl", "utilities/ovs-ofctl"])?,
            appctl: first(&["bin/ovs-appctl", "utilities/ovs-appctl"])?,
            tool: first(&["bin/ovsdb-tool", "ovsdb/ovsdb-tool"])?,
            vswitchd: first(&[
                "lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
                "sbin/ovs-vswitchd",
                "vswitchd/ovs-vswitchd",
            ])?,
            database: first(&["sbin/ovsdb-server", "ovsdb/ovsdb-server"])?,
            schema: first(&["share/openvswitch/vswitch.ovsschema", "vswitchd/vswitch.ovsschema"])?,
        })
    }

    /// Finds the installed programs by the folders of PATH.
    ///
    /// # Errors
    /// A program is missing, or the switch was built without DPDK.
    pub fn installed() -> Result<Self, Failure> {
        const REMEDY: &str = "install Open vSwitch with DPDK (Debian and Ubuntu: openvswitch-switch-dpdk), its programs in PATH";
        let tops: Vec<PathBuf> =
            command::folders().filter_map(|folder| Some(folder.parent()?.to_owned())).collect();
        let found = Self::find(|places| {
            let mut all = places.iter().flat_map(|place| tops.iter().map(move |top| top.join(place)));
            all.find(|path| path.is_file()).ok_or_else(|| {
                let name = places[0].rsplit('/').next().unwrap_or(places[0]);
                Failure::new(format!("looking for {name}"), "not installed", REMEDY)
            })
        })?;
        match found.version() {
            Some(said) if said.contains("DPDK ") => Ok(found),
            said => {
                let answer = said.unwrap_or_else(|| "it does not say".into());
                let tried = format!("asking {} for DPDK", found.vswitchd.display());
                Err(Failure::new(tried, answer.lines().next().unwrap_or_default(), REMEDY))
            }
        }
    }

    /// The text in which the switch reports its version and DPDK's.
    fn version(&self) -> Option<String> {
        let output = Command::new(&self.vswitchd).arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// An instance of these programs in this folder.
    pub fn instance(self, folder: &Path) -> Instance {
        Instance { programs: self, folder: folder.to_owned() }
    }
}

/// The commands of the programs for one folder.
#[derive(Clone, Debug)]
pub struct Instance {
    programs: Programs,
    folder: PathBuf,
}

impl Instance {
    /// The command that makes the database.
    pub fn create(&self) -> Command {
        let mut command = self.command(&self.programs.tool);
        command.arg("create").arg(self.folder.join("conf.db")).arg(&self.programs.schema);
        command
    }

    /// The command that serves the database until it is ended.
    pub fn serve_database(&self) -> Command {
        let mut command = self.command(&self.programs.database);
        command.arg(self.folder.join("conf.db")).arg(format!("--remote=punix:{}", self.at("db.sock")));
        command.args([
            format!("--unixctl={}", self.at("db.ctl")),
            "--no-chdir".into(),
            "-vsyslog:off".into(),
        ]);
        // As in Open vSwitch's start script: the remotes that `ovs-vsctl set-manager` and `set-ssl` have set.
        command.arg("--remote=db:Open_vSwitch,Open_vSwitch,manager_options");
        for (option, column) in
            [("private-key", "private_key"), ("certificate", "certificate"), ("ca-cert", "ca_cert")]
        {
            command.arg(format!("--{option}=db:Open_vSwitch,SSL,{column}"));
        }
        command
    }

    /// The command that writes the settings that the switch reads when it starts (ovs-vswitchd.conf.db(5),
    /// `other_config`): packet threads on the last of these CPUs, all other threads on the first, memory by DPDK's
    /// options, and `more`, which overrides them.
    pub fn configure(&self, cpus: &[usize], memory: &str, more: &[(String, String)]) -> Command {
        let mask = |cpu: Option<&usize>| {
            let cpu = cpu.copied().unwrap_or(0);
            format!("0x{:x}{}", 1 << (cpu % 4), "0".repeat(cpu / 4))
        };
        let extra =
            format!("{memory} -m {MEMORY_MIB} --no-pci --no-telemetry --no-shconf --file-prefix={BRIDGE}");
        let mut options = BTreeMap::from([
            ("dpdk-init", "true".to_owned()),
            ("dpdk-extra", extra),
            // The one pool that ports share otherwise is of 262144 buffers, 800 MB.
            ("per-port-memory", "true".into()),
            ("dpdk-lcore-mask", mask(cpus.first())),
            ("pmd-cpu-mask", mask(cpus.last())),
        ]);
        options.extend(more.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let mut command = self.vsctl(&["--no-wait", "init", "--", "set", "Open_vSwitch", "."]);
        command.args(options.iter().map(|(name, value)| format!("other_config:{name}=\"{value}\"")));
        command
    }

    /// The command that runs the switch until it is ended.
    pub fn switch(&self) -> Command {
        let mut command = self.command(&self.programs.vswitchd);
        command.arg(format!("unix:{}", self.at("db.sock"))).arg(format!("--unixctl={}", self.at("ctl")));
        command.args(["--no-chdir", "-vsyslog:off", "-vconsole:info"]);
        command
    }

    /// As [`Instance::switch`], with the pidfile by which [`Instance::appctl_of_pidfile`] finds the switch.
    pub fn service(&self) -> Command {
        let mut command = self.command(&self.programs.vswitchd);
        command.arg(format!("unix:{}", self.at("db.sock"))).args(["--pidfile", "--no-chdir"]);
        command.args(["-vsyslog:off", "-vconsole:info"]);
        command
    }

    /// The command that adds [`BRIDGE`], which learns addresses and moves packets in user space.
    pub fn add_bridge(&self) -> Command {
        self.vsctl(&["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev"])
    }

    /// The command that adds a port of the kind `dpdkvhostuserclient`: the switch is the vhost-user back-end and
    /// retries to connect to the socket, on which the driver's side listens.
    pub fn add_port(&self, name: &str, socket: &Path) -> Command {
        let path = format!("options:vhost-server-path={}", socket.display());
        self.vsctl(&[
            "add-port",
            BRIDGE,
            name,
            "--",
            "set",
            "Interface",
            name,
            "type=dpdkvhostuserclient",
            &path,
        ])
    }

    /// `ovs-vsctl` with these arguments. The program repeats its request until the database answers, and waits until
    /// the switch has applied the change, unless an argument says not to.
    pub fn vsctl(&self, words: &[&str]) -> Command {
        let mut command = self.command(&self.programs.vsctl);
        command.arg(format!("--db=unix:{}", self.at("db.sock")));
        command.args([&format!("--timeout={LIMIT_S}"), "--retry", "--no-syslog"]).args(words);
        command
    }

    /// `ovs-appctl` with these arguments, for the switch.
    pub fn appctl(&self, words: &[&str]) -> Command {
        let mut command = self.command(&self.programs.appctl);
        command.args(["-t", &self.at("ctl")]).args(words);
        command
    }

    /// `ovs-appctl` with these arguments, for the process that the pidfile of ovs-vswitchd names.
    pub fn appctl_of_pidfile(&self, words: &[&str]) -> Command {
        let mut command = self.command(&self.programs.appctl);
        command.args(words);
        command
    }

    /// `ovs-ofctl` with these arguments.
    pub fn ofctl(&self, words: &[&str]) -> Command {
        let mut command = self.command(&self.programs.ofctl);
        command.args(words);
        command
    }

    /// The bridge's management socket, in the form that `ovs-ofctl` takes.
    pub fn management(&self) -> String {
        format!("unix:{}", self.at(&format!("{BRIDGE}.mgmt")))
    }

    fn at(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // The folders of all files of Open vSwitch and DPDK that have no explicit path.
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR", "RUNTIME_DIRECTORY"] {
            command.env(name, &self.folder);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_is_found_where_it_may_be_and_the_first_that_is_not_ends_it() {
        let found = Programs::find(|places| Ok::<_, ()>(Path::new("/opt").join(places[0]))).unwrap();
        assert_eq!(found.database, Path::new("/opt/sbin/ovsdb-server"));
        let none = Programs::find(|places| Err::<PathBuf, _>(places[0].to_owned())).unwrap_err();
        assert_eq!(none, "bin/ovs-vsctl");
    }

    #[test]
    fn packet_threads_are_on_the_last_cpu_and_options_can_be_others() {
        let found = Programs::find(|places| Ok::<_, ()>(PathBuf::from(places[0]))).unwrap();
        let instance = found.instance(Path::new("/run/one"));
        let more = [("per-port-memory".to_owned(), "false".to_owned())];
        let words = instance.configure(&[1, 5], SMALL_PAGES, &more);
        let words: Vec<_> = words.get_args().map(|word| word.to_string_lossy()).collect();
        for word in ["other_config:pmd-cpu-mask=\"0x20\"", "other_config:dpdk-lcore-mask=\"0x2\""] {
            assert!(words.iter().any(|one| one == word), "{words:?}");
        }
        assert!(words.iter().any(|one| one == "other_config:per-port-memory=\"false\""), "{words:?}");
        assert_eq!(words.iter().filter(|one| one.contains("per-port-memory")).count(), 1);
    }
}
