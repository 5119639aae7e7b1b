//! Runs the database of Open vSwitch without its switch, so that another program can take the switch's place.

use std::path::{Path, PathBuf};
use std::process::Command;

use environment::openvswitch::{Instance, started_by};

use crate::Error;
use crate::netns::Netns;
use crate::ovs::{LIMIT, find, run, succeed};
use crate::process::{self, Process};
use crate::requirements::Requirements;
use crate::socket::wait_for_listener_beside;

/// A running `ovsdb-server` with an empty database. The server is killed when this value is dropped.
pub struct OvsDatabase {
    server: Option<Process>,
    instance: Instance,
    folder: tempfile::TempDir,
}

impl OvsDatabase {
    /// Makes the database and starts the server.
    ///
    /// # Errors
    /// Open vSwitch is missing, or one of its programs fails.
    pub fn new() -> Result<Self, Error> {
        Self::new_in(&std::env::temp_dir())
    }

    /// Works like [`OvsDatabase::new`], in a folder within `parent`.
    ///
    /// # Errors
    /// The causes of [`OvsDatabase::new`].
    pub fn new_in(parent: &Path) -> Result<Self, Error> {
        Self::make(parent, None)
    }

    /// Works like [`OvsDatabase::new`]; the server listens to what `ovs-vsctl set-manager` says in this network
    /// namespace.
    ///
    /// # Errors
    /// The causes of [`OvsDatabase::new`].
    pub fn in_network(network: &Netns) -> Result<Self, Error> {
        Self::make(&std::env::temp_dir(), Some(network))
    }

    fn make(parent: &Path, network: Option<&Netns>) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        let programs = find(None, &mut needs);
        needs.met()?;
        let folder = tempfile::tempdir_in(parent).map_err(Error::system("making a folder for a database"))?;
        let instance = programs.instance(folder.path());
        succeed(process::run(&mut instance.create(), LIMIT)?, "making Open vSwitch's database")?;
        let mut database = Self { server: None, instance, folder };
        match network {
            None => database.start()?,
            Some(network) => {
                let serve = database.instance.serve_database();
                let command = started_by(network.tied(Path::new(serve.get_program())), &serve);
                database.serve(command)?;
            }
        }
        database.vsctl(&["--no-wait", "init"])?;
        Ok(database)
    }

    /// The command that runs Open vSwitch's switch at this database, in a network namespace. The program of some packages
    /// has another name than `ovs-vswitchd`, after which the pidfile is named, so it is run by a link.
    pub(crate) fn service(&self, network: &Netns) -> Result<Command, Error> {
        let (switch, link) = (self.instance.service(), self.folder().join("ovs-vswitchd"));
        if !link.exists() {
            std::os::unix::fs::symlink(switch.get_program(), &link)
                .map_err(Error::system(format!("linking {}", link.display())))?;
        }
        Ok(started_by(network.tied(&link), &switch))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The socket on which the server listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("db.sock")
    }

    /// Starts the server again after [`OvsDatabase::stop`].
    ///
    /// # Errors
    /// The server does not listen within 60 s.
    pub fn start(&mut self) -> Result<(), Error> {
        self.serve(self.instance.serve_database())
    }

    fn serve(&mut self, mut command: Command) -> Result<(), Error> {
        let server = Process::start("Open vSwitch's database", &mut command)?;
        let process = server.id().to_string();
        self.server = Some(server);
        wait_for_listener_beside(&process, &self.socket(), LIMIT)
    }

    /// Kills the server. The database stays.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Runs `ovs-vsctl` with these arguments. The program waits for the switch unless the first argument is
    /// `--no-wait`.
    ///
    /// # Errors
    /// `ovs-vsctl` cannot be started, fails, or does not end within 60 s.
    pub fn vsctl(&self, words: &[&str]) -> Result<String, Error> {
        run(&mut self.instance.vsctl(words))
    }

    /// Runs `ovs-appctl` with these arguments. The program finds the switch by the pidfile beside the database's
    /// socket.
    ///
    /// # Errors
    /// `ovs-appctl` cannot be started, fails, or does not end within 60 s.
    pub fn appctl(&self, words: &[&str]) -> Result<String, Error> {
        run(&mut self.instance.appctl_of_pidfile(words))
    }

    /// Runs `ovs-appctl` with these arguments, for an `ovs-vswitchd` of this crate that has no pidfile.
    pub(crate) fn appctl_of_socket(&self, words: &[&str]) -> Result<String, Error> {
        run(&mut self.instance.appctl(words))
    }

    /// Runs `ovs-ofctl` with these arguments. The program finds a bridge by its socket beside the database's.
    ///
    /// # Errors
    /// `ovs-ofctl` cannot be started, fails, or does not end within 60 s.
    pub fn ofctl(&self, words: &[&str]) -> Result<String, Error> {
        run(&mut self.instance.ofctl(words))
    }
}
