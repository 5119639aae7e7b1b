//! Runs Open vSwitch with its user-space datapath in a network namespace.

use std::path::Path;
use std::time::Duration;

use environment::openvswitch::started_by;

use crate::ovs::find;
use crate::process::Process;
use crate::requirements::Requirements;
use crate::{Error, Netns, OvsDatabase};

/// A running `ovs-vswitchd`, whose bridges with `datapath_type=netdev` have interfaces of a namespace. The switch is killed
/// when this value is dropped.
pub struct OvsNetdev {
    vswitchd: Process,
    database: OvsDatabase,
}

impl OvsNetdev {
    /// Starts the switch without bridges.
    ///
    /// # Errors
    /// Open vSwitch is missing, or one of its programs fails.
    pub fn start(network: &Netns) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        let programs = find(None, &mut needs);
        needs.met()?;
        let database = OvsDatabase::new()?;
        let switch = programs.instance(database.folder()).switch();
        let mut command = started_by(network.tied(Path::new(switch.get_program())), &switch);
        command.arg("--disable-system");
        let vswitchd = Process::start("Open vSwitch", &mut command)?;
        Ok(Self { vswitchd, database })
    }

    /// Runs `ovs-appctl` with these arguments.
    ///
    /// # Errors
    /// `ovs-appctl` cannot be started, fails, or does not end within 60 s.
    pub fn appctl(&self, words: &[&str]) -> Result<String, Error> {
        self.database.appctl_of_socket(words)
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.vswitchd.id()
    }

    /// The database of the switch.
    pub fn database(&self) -> &OvsDatabase {
        &self.database
    }
}

/// A running `ovs-vswitchd` at a database that another switch may follow before and after it. Killed when this value is
/// dropped.
pub struct OvsService(Process);

impl OvsService {
    /// Starts the switch for bridges in user space. `ovs-appctl` finds it by its pidfile ([`OvsDatabase::appctl`]).
    ///
    /// # Errors
    /// The switch cannot be started.
    pub fn start(network: &Netns, database: &OvsDatabase) -> Result<Self, Error> {
        Process::start("Open vSwitch", database.service(network)?.arg("--disable-system")).map(OvsService)
    }

    /// Waits until the switch has ended by itself, after `ovs-appctl exit`.
    ///
    /// # Errors
    /// The switch still runs after the limit, or has failed.
    pub fn ended(mut self, limit: Duration) -> Result<(), Error> {
        match self.0.end(limit)? {
            0 => Ok(()),
            status => {
                Err(Error::refused("ending Open vSwitch", format!("status {status}: {}", self.0.said())))
            }
        }
    }
}
