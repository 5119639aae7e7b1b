//! A machine that has booted, kept in the cache: another machine continues from this state within 1 s, while a boot
//! takes 17 s.
//!
//! The saved memory is a file, which the restored machines map privately: no machine writes to the file, and pages
//! that no machine has written exist in the host's memory once. The rest of what QEMU saves is the state of its
//! devices.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use vm::Qmp;
use vm::qmp::QmpError;

use super::cache::{self, SAVED};
use super::launch::Launch;
use crate::Error;
use crate::guest::Guest;
use crate::guest::monitor;
use crate::process::PAUSE;

const MEMORY: &str = "memory";
const DEVICES: &str = "devices";
/// The time limit for saving, which takes less than a second on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);
const SAVING: &str = "saving the nested machine";
const RESTORING: &str = "restoring the nested machine";

/// The place of a saved machine in the cache.
pub struct Saved(PathBuf);

impl Saved {
    /// The place for this name; machines with different arguments or contents must have different names.
    pub fn new(name: &str) -> Self {
        Self(cache::folder().join(name).with_extension(SAVED))
    }

    /// Restores the saved machine. If the cache has no such machine, boots and saves one first.
    ///
    /// # Errors
    /// The causes of [`Launch::new`], [`Launch::boot`] and [`Launch::wait`]. QEMU refuses to save or to restore, or
    /// takes longer than 60 s. The cache's folder cannot be written, or the machine's clock cannot be set.
    pub fn restore(
        &self,
        memory_mib: u32,
        launch: impl Fn() -> Result<Launch, Error>,
    ) -> Result<(Guest, UnixStream), Error> {
        // The folder's time tells how long the machine has been unused.
        match std::fs::File::open(&self.0).and_then(|folder| folder.set_modified(SystemTime::now())) {
            Ok(()) => {}
            Err(_) => self.make(memory_mib, launch()?)?,
        }
        let mut launch = launch()?;
        launch.command.args(memory(&self.0, memory_mib, "off"));
        launch.command.args(["-incoming", "defer"]);
        let (guest, data) = launch.wait()?;
        self.resume(&guest).map_err(|error| {
            let remedy = format!("remove {} to have a new one saved", self.0.display());
            Error::refused(RESTORING, format!("{error}; {}; {remedy}", guest.console()))
        })?;
        // Its clock stands where it was saved.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let set = guest.run(&format!("date -s @{}", now.as_secs()))?;
        if !set.success() {
            return Err(Error::refused("setting the nested machine's clock", set.stderr));
        }
        Ok((guest, data))
    }

    fn resume(&self, guest: &Guest) -> Result<(), QmpError> {
        let mut monitor = monitor::connect(guest.folder())?;
        leave_out_memory(&mut monitor)?;
        let uri = format!("exec:cat '{}'", self.0.join(DEVICES).display());
        monitor.execute_with("migrate-incoming", json!({ "uri": uri }))?;
        let deadline = Instant::now() + LIMIT;
        while monitor.execute("query-status")?["status"] == "inmigrate" {
            if Instant::now() > deadline {
                return Err(QmpError::Late(LIMIT));
            }
            std::thread::sleep(PAUSE);
        }
        monitor.execute("cont").map(drop)
    }

    /// Boots a machine on a file as its memory and saves the rest.
    fn make(&self, memory_mib: u32, mut launch: Launch) -> Result<(), Error> {
        let cache = cache::folder();
        cache::drop_unused(&cache);
        let folder = tempfile::Builder::new().suffix(&format!(".{SAVED}")).tempdir_in(&cache);
        let folder = folder.map_err(Error::system(SAVING))?;
        launch.command.args(memory(folder.path(), memory_mib, "on"));
        let (guest, _data) = launch.boot()?;
        let devices = folder.path().join(DEVICES);
        save(&guest, &devices)
            .map_err(|error| Error::refused(SAVING, format!("{error}; {}", guest.console())))?;
        drop(guest);
        // If another test was faster, its saved machine is equally good.
        match std::fs::rename(folder.path(), &self.0) {
            Err(_) if self.0.is_dir() => Ok(()),
            renamed => renamed.map_err(Error::system(SAVING)),
        }
    }
}

fn save(guest: &Guest, devices: &Path) -> Result<(), QmpError> {
    let mut monitor = monitor::connect(guest.folder())?;
    monitor.execute("stop")?;
    leave_out_memory(&mut monitor)?;
    let uri = format!("exec:cat >'{}'", devices.display());
    monitor.execute_with("migrate", json!({ "uri": uri }))?;
    let deadline = Instant::now() + LIMIT;
    loop {
        let state = monitor.execute("query-migrate")?;
        match state["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                let (command, answer) = ("migrate".to_owned(), state.to_string());
                return Err(QmpError::Refused { command, answer });
            }
            _ if Instant::now() > deadline => return Err(QmpError::Late(LIMIT)),
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// Leaves the memory out of the migration stream: it is in its file already.
fn leave_out_memory(monitor: &mut Qmp) -> Result<(), QmpError> {
    let capability = json!({ "capability": "x-ignore-shared", "state": true });
    monitor.execute_with("migrate-set-capabilities", json!({ "capabilities": [capability] })).map(drop)
}

fn memory(folder: &Path, mib: u32, shared: &str) -> [String; 4] {
    let file = folder.join(MEMORY);
    let backend =
        format!("memory-backend-file,id=memory,size={mib}M,mem-path={},share={shared}", file.display());
    ["-object".into(), backend, "-machine".into(), "memory-backend=memory".into()]
}
