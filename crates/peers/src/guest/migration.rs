//! A guest that migrates to another QEMU on this machine while it runs.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vm::qmp::QmpError;

use super::{Guest, LIMIT, PAUSE, Plan, Port, Settings, monitor, new_folder};
use crate::Error;
use crate::socket::wait_for_listener;

/// The socket in the folder of a QEMU that waits for a guest.
const INCOMING: &str = "incoming";

/// QEMU 7.2 loses writes of an emulated CPU during a migration. If the memory is a multiple of 64 pages, it clears
/// pages' dirty bits without informing the CPU, whose next write to such a page sets no bit
/// (`cpu_physical_memory_sync_dirty_bitmap`; fixed in 9.0). QEMU takes sizes that are multiples of this.
const ODD_KIB: u32 = 8;

/// The command of a QEMU whose files are in a folder: it boots the guest, or with ports it waits for the guest.
pub(crate) type Commands = Box<dyn Fn(&Path, Option<&[Port]>) -> Result<Command, Error> + Send>;

/// The file system for a QEMU that waits for a guest, whose memory contains the guest's own: a machine with a kernel
/// must have one.
pub(crate) const NO_FILES: &[u8] = b"-";

/// A guest that can migrate. The guest is killed when this value is dropped.
pub struct Movable {
    /// The guest in its present QEMU.
    pub guest: Guest,
    commands: Commands,
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
        let plan = Plan::new(settings)?;
        Self::boot(Box::new(move |folder, ports| match ports {
            None => plan.first(folder),
            Some(ports) => plan.command(folder, ports, NO_FILES),
        }))
    }

    /// Boots a guest by these commands.
    ///
    /// # Errors
    /// The command cannot be made, QEMU ends, or the guest accepts no commands within 120 s.
    pub(crate) fn boot(commands: Commands) -> Result<Self, Error> {
        let folder = new_folder()?;
        let command = commands(folder.path(), None)?;
        Ok(Self { guest: Guest::launch(command, folder)?, commands })
    }

    /// Migrates the guest to another QEMU, with its ports at these sockets. The answers of commands that run during
    /// the migration are lost. If the migration fails, the guest stays in its QEMU, and the other QEMU ends.
    ///
    /// # Errors
    /// The other QEMU does not start or does not listen, a port's socket has no listener, QEMU refuses the migration
    /// or reports its failure, or the migration is not complete after 60 s.
    pub fn migrate(&mut self, ports: &[Port]) -> Result<Migration, Error> {
        let folder = new_folder()?;
        let mut command = (self.commands)(folder.path(), Some(ports))?;
        let incoming = folder.path().join(INCOMING);
        let uri = format!("unix:{}", incoming.display());
        command.args(["-incoming", &uri]);
        let guest = Guest::launch_silent(command, folder)?;
        wait_for_listener(&incoming, LIMIT)?;
        let failed = |error: QmpError| Error::refused("migrating a guest", error.to_string());
        let mut monitor = monitor::connect(self.guest.folder()).map_err(failed)?;
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
