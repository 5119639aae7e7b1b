//! A guest that migrates to another QEMU on this machine while it runs.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vm::Qmp;
use vm::qmp::QmpError;

use super::{Guest, LIMIT, PAUSE, Plan, Port, Settings, new_folder};
use crate::Error;
use crate::socket::wait_for_listener;

/// Sockets in each guest's folder.
const MONITOR: &str = "monitor";
const INCOMING: &str = "incoming";

/// QEMU 7.2 loses writes of an emulated CPU during a migration. If the memory is a multiple of 64 pages, it clears
/// pages' dirty bits without informing the CPU, whose next write to such a page sets no bit
/// (`cpu_physical_memory_sync_dirty_bitmap`; fixed in 9.0). QEMU takes sizes that are multiples of this.
const ODD_KIB: u32 = 8;

/// A guest that can migrate. The guest is killed when this value is dropped.
pub struct Movable {
    /// The guest in its present QEMU.
    pub guest: Guest,
    plan: Plan,
}

/// Figures of a migration.
pub struct Migration {
    /// The time for which the guest did not run, as QEMU reports it.
    pub downtime: Duration,
    /// The time from the first page to the last.
    pub total: Duration,
    /// The number of passes over the guest's memory.
    pub passes: u64,
}

impl Movable {
    /// Boots a guest that can be migrated, and waits until it accepts commands.
    ///
    /// # Errors
    /// The causes of [`Settings::start`].
    pub fn start(mut settings: Settings) -> Result<Self, Error> {
        settings.memory_kib -= ODD_KIB;
        let (plan, folder) = (Plan::new(settings)?, new_folder()?);
        let mut command = plan.first(folder.path())?;
        command.args(monitor(folder.path()));
        Ok(Self { guest: Guest::launch(command, folder)?, plan })
    }

    /// Migrates the guest to another QEMU, with its ports at these sockets. The answers of commands that run during
    /// the migration are lost. If the migration fails, the guest stays in its QEMU, and the other QEMU ends.
    ///
    /// # Errors
    /// The other QEMU does not start or does not listen, a port's socket has no listener, QEMU refuses the migration
    /// or reports its failure, or the migration is not complete after 60 s.
    pub fn migrate(&mut self, ports: &[Port]) -> Result<Migration, Error> {
        let folder = new_folder()?;
        // Its memory holds the file system already; a machine with a kernel has to have one all the same.
        let mut command = self.plan.command(folder.path(), ports, b"-")?;
        let incoming = folder.path().join(INCOMING);
        let uri = format!("unix:{}", incoming.display());
        command.args(monitor(folder.path())).args(["-incoming", &uri]);
        let guest = Guest::launch_silent(command, folder)?;
        wait_for_listener(&incoming, LIMIT)?;
        let failed = |error: QmpError| Error::refused("migrating a guest", error.to_string());
        let mut monitor = connect_monitor(self.guest.folder()).map_err(failed)?;
        monitor.execute_with("migrate", json!({ "uri": uri })).map_err(failed)?;
        let deadline = Instant::now() + LIMIT;
        loop {
            let state = monitor.execute("query-migrate").map_err(failed)?;
            match state["status"].as_str() {
                Some("completed") => {
                    // The source keeps its sockets until here.
                    self.guest = guest;
                    return Ok(Migration::read(&state));
                }
                Some("failed" | "cancelled") => {
                    return Err(Error::refused("migrating a guest", format!("{state}; {}", guest.console())));
                }
                _ if Instant::now() > deadline => {
                    let (doing, said) = ("migrating a guest".to_owned(), state.to_string());
                    return Err(Error::TimedOut { doing, limit: LIMIT, said });
                }
                _ => std::thread::sleep(PAUSE),
            }
        }
    }
}

impl Migration {
    fn read(state: &Value) -> Self {
        let time = |name: &str| Duration::from_millis(state[name].as_u64().unwrap_or_default());
        let passes = state["ram"]["dirty-sync-count"].as_u64().unwrap_or_default();
        Self { downtime: time("downtime"), total: time("total-time"), passes }
    }
}

/// QEMU's arguments for a monitor in the guest's folder.
pub(crate) fn monitor(folder: &Path) -> [String; 2] {
    ["-qmp".to_owned(), format!("unix:{},server=on,wait=off", folder.join(MONITOR).display())]
}

/// A connection to the monitor in the guest's folder.
pub(crate) fn connect_monitor(folder: &Path) -> Result<Qmp, QmpError> {
    Qmp::connect(&folder.join(MONITOR), LIMIT)
}
