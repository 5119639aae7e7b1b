//! A configuration file that SIGHUP has read again.
use std::fmt::Display;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use port::spec::Kind;
use switch::View;

use crate::configuration_file::{self, Reader};
use crate::error::Invalid;
use crate::ports::{self, NamedSpec, PortDefaults};
use crate::settings::Settings;
use crate::settings_file;
use crate::wanted_ports::{Wanted, WantedPorts};

/// Reads a configuration file.
///
/// # Errors
/// The file cannot be read, or a setting in it is wrong.
pub fn read_settings(path: &Path) -> Result<Settings, Invalid> {
    parse(path, configuration_file::read(path))
}

/// The error for a file with a mistake.
fn wrong(path: &Path, why: &dyn Display) -> Invalid {
    Invalid(format!("--config {}: {why}", path.display()))
}

/// The error for a wrong port of a file.
pub fn wrong_port(path: &Path, name: &str, why: &dyn Display) -> Invalid {
    wrong(path, &format_args!("[ports.{name}] {why}"))
}

fn parse(path: &Path, text: io::Result<String>) -> Result<Settings, Invalid> {
    let text =
        text.map_err(|error| wrong(path, &format_args!("{error}; name a regular file that can be read")))?;
    settings_file::parse(&text).map_err(|error| wrong(path, &error))
}

/// The configuration file, and the settings from it that are in force.
pub struct Configured {
    path: PathBuf,
    reader: Reader,
    /// The settings that cannot change before the next start.
    at_start: Settings,
    kinds: &'static [Kind],
    ports: WantedPorts,
}

impl Configured {
    /// The file with whose settings the switch was started.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(
        path: PathBuf,
        at_start: Settings,
        kinds: &'static [Kind],
        ports: Vec<NamedSpec>,
    ) -> Result<Self, Invalid> {
        let reader = Reader::new().map_err(|error| {
            let remedy = "raise the open-files limit (ulimit -n)";
            wrong(&path, &format_args!("making an eventfd: {error}; {remedy}"))
        })?;
        Ok(Configured { path, reader, ports: WantedPorts::new(ports), at_start, kinds })
    }

    /// Forgets a port that was removed by request. A later port of its name does not belong to the file.
    pub fn forget(&mut self, name: &str) {
        self.ports.forget(name);
    }

    /// Readable when the file was read again: [`Configured::reload`].
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.reader.wake_fd()
    }

    /// Starts to read the file again. Returns a line for the log if that is impossible.
    pub fn begin_reload(&mut self) -> Option<String> {
        let error = self.reader.begin(&self.path).err()?;
        let path = self.path.display();
        Some(format!("--config {path}: starting a thread that reads it: {error}; nothing is changed"))
    }

    /// Applies the differences of the file that was read again, and returns lines for the log. A wrong file changes
    /// nothing. A change that failed is tried again at the next reload. `None` if the file is not read yet.
    pub fn reload(&mut self, switch: &mut View<'_>) -> Option<Vec<String>> {
        let text = self.reader.take(&self.path)?;
        Some(match self.wanted(text) {
            Ok((new, ports)) => self.change(&new, ports, switch),
            Err(error) => vec![format!("{error}; nothing is changed")],
        })
    }

    fn change(&mut self, new: &Settings, ports: Vec<Wanted>, switch: &mut View<'_>) -> Vec<String> {
        let mut said = Vec::new();
        let differ = new.differences(&self.at_start);
        if !differ.is_empty() {
            said.push(format!(
                "{}: {} is not as it was at the start; start the switch again to have it so",
                self.path.display(),
                differ.join(", ")
            ));
        }
        let changes = self.ports.apply(ports, PortDefaults::of(&self.at_start, self.kinds), switch);
        said.extend(changes.iter().map(ToString::to_string));
        if said.is_empty() {
            said.push(format!("{}: read again, nothing is different", self.path.display()));
        }
        said
    }

    /// The file's settings and ports. Ports that are new or different are made, but not started.
    fn wanted(&self, text: io::Result<String>) -> Result<(Settings, Vec<Wanted>), Invalid> {
        let new = parse(&self.path, text)?;
        let held = Settings {
            cache_policy: self.at_start.cache_policy,
            max_frame: self.at_start.max_frame,
            ..new.clone()
        };
        let wrong = |name: &str, why: &dyn Display| wrong_port(&self.path, name, why);
        let ports = self.ports.prepare(ports::read_all(&held, self.kinds, wrong)?, wrong)?;
        Ok((new, ports))
    }
}
