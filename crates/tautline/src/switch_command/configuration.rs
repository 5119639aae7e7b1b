//! The configuration file: the options of the command line as TOML, a table for each port.
//!
//! It is turned into a command line and read as one: each key means what the option of its name means, and what is
//! wrong is said in the same words.
mod command_line;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use clap::Parser;
use port::Port;
use switch::{PortOptions, View};
use toml::Table;

use super::configuration_file::{self, Reader};
use super::ports;
use crate::cli::{self, Cli, Command};
use crate::exit::Usage;

/// Reads a file.
pub fn read(path: &Path) -> Result<cli::Switch, Usage> {
    parse(path, configuration_file::read(path))
}

/// What was read of a file.
fn parse(path: &Path, text: io::Result<String>) -> Result<cli::Switch, Usage> {
    let wrong = |why: String| Usage(format!("--config {}: {why}", path.display()));
    let text = text.map_err(|error| wrong(format!("{error}; name a regular file that can be read")))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let line = command_line::words(&table).map_err(wrong)?;
    let parsed = Cli::try_parse_from(line).map_err(|error| {
        let text = error.to_string();
        // The usage below is that of a command line.
        let said = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        wrong(said.split_whitespace().collect::<Vec<_>>().join(" "))
    })?;
    match parsed.command {
        Command::Switch(arguments) => Ok(arguments),
        _ => Err(wrong("it says nothing of a switch".to_owned())),
    }
}

/// A file that is read again when its user says so.
pub struct Configured {
    path: PathBuf,
    reader: Reader,
    /// What holds until the next start.
    at_start: cli::Switch,
    /// The file's ports that are there.
    in_force: BTreeMap<String, InForce>,
}

#[derive(Clone)]
struct InForce {
    text: String,
    options: PortOptions,
}

impl Configured {
    /// As the switch was started.
    ///
    /// # Errors
    /// A port is not understood, or the system has no descriptor left.
    pub fn new(path: PathBuf, at_start: cli::Switch) -> Result<Self, Usage> {
        let reader = Reader::new().map_err(|error| {
            let remedy = "raise the open-files limit (ulimit -n)";
            Usage(format!("--config {}: making an eventfd: {error}; {remedy}", path.display()))
        })?;
        let in_force = ports::read(&at_start)?
            .into_iter()
            .map(|port| (port.name, InForce { text: port.text, options: port.options }));
        Ok(Configured { path, reader, in_force: in_force.collect(), at_start })
    }

    /// A port was removed by `tautline ctl`: another one of its name is not the file's.
    pub fn forget(&mut self, name: &str) {
        self.in_force.remove(name);
    }

    /// Readable when the file was read again: [`Configured::reload`].
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.reader.wake_fd()
    }

    /// Begins to read the file again; a line for people if that cannot be.
    pub fn begin_reload(&mut self) -> Option<String> {
        let error = self.reader.begin(&self.path).err()?;
        let path = self.path.display();
        Some(format!("--config {path}: starting a thread that reads it: {error}; nothing is changed"))
    }

    /// Changes what is different in the file that was read again; says what was done. A file that is wrong changes
    /// nothing, and what could not be done is tried again the next time. `None` if it is not read yet.
    pub fn reload(&mut self, switch: &mut View<'_>) -> Option<Vec<String>> {
        let text = self.reader.take(&self.path)?;
        Some(match self.wanted(text) {
            Ok((new, ports)) => self.change(&new, ports, switch),
            Err(error) => vec![format!("{error}; nothing is changed")],
        })
    }

    fn change(&mut self, new: &cli::Switch, ports: Vec<Wanted>, switch: &mut View<'_>) -> Vec<String> {
        let mut said = Vec::new();
        let differ: Vec<&str> = for_all(new)
            .into_iter()
            .zip(for_all(&self.at_start))
            .filter_map(|((key, now), (_, before))| (now != before).then_some(key))
            .collect();
        if !differ.is_empty() {
            said.push(format!(
                "{}: {} is not as it was at the start; start the switch again to have it so",
                self.path.display(),
                differ.join(", ")
            ));
        }
        self.apply(ports, switch, &mut said);
        if said.is_empty() {
            said.push(format!("{}: read again, nothing is different", self.path.display()));
        }
        said
    }

    /// What the file says, and its ports; those that are new or different are made, but not begun.
    fn wanted(&self, text: io::Result<String>) -> Result<(cli::Switch, Vec<Wanted>), Usage> {
        let new = parse(&self.path, text)?;
        let held = cli::Switch {
            cache_policy: self.at_start.cache_policy,
            max_frame: self.at_start.max_frame,
            ..new.clone()
        };
        let wrong = |name: &str, why: &dyn Display| {
            Usage(format!("--config {}: [ports.{name}] {why}", self.path.display()))
        };
        let ports = ports::read(&held)?.into_iter().map(|port| {
            let is_there = self.in_force.get(&port.name).is_some_and(|there| there.text == port.text);
            let made = match is_there {
                true => None,
                false => Some(port.spec.build().map_err(|error| wrong(&port.name, &error))?),
            };
            Ok(Wanted { name: port.name, made, as_said: InForce { text: port.text, options: port.options } })
        });
        Ok((new, ports.collect::<Result<_, Usage>>()?))
    }

    fn apply(&mut self, wanted: Vec<Wanted>, switch: &mut View<'_>, said: &mut Vec<String>) {
        let mut say = |port: &str, what: &str, result: Result<(), String>| {
            let done = result.is_ok();
            said.push(match result {
                Ok(()) => format!("{port}: {what}"),
                Err(why) => format!("{port}: not {what}: {why}"),
            });
            done
        };
        let stays = |name: &String| wanted.iter().any(|one| one.name == *name && one.made.is_none());
        let going: Vec<String> = self.in_force.keys().filter(|name| !stays(name)).cloned().collect();
        let mut ended = BTreeMap::new();
        for name in going {
            if say(&name, "removed", switch.remove_port(&name).map_err(|error| error.to_string())) {
                ended.extend(self.in_force.remove_entry(&name));
            }
        }
        for Wanted { name, made, as_said } in wanted {
            let before = self.in_force.get(&name).cloned();
            match (made, before) {
                (None, Some(before)) if before.options != as_said.options => {
                    let set = switch.set_port_options(&name, as_said.options.clone());
                    if say(&name, "given other limits", set.map_err(|error| error.to_string())) {
                        self.in_force.insert(name, as_said);
                    }
                }
                // It could not be removed.
                (Some(_), Some(_)) | (None, _) => {}
                (Some(made), None) => {
                    let added = switch.add_port(&name, made, as_said.options.clone());
                    if say(&name, "added", added.map_err(|error| error.to_string())) {
                        self.in_force.insert(name, as_said);
                    } else if let Some(before) = ended.remove(&name) {
                        let back = self.bring_back(&name, &before, switch);
                        if say(&name, "brought back as it was", back) {
                            self.in_force.insert(name, before);
                        }
                    }
                }
            }
        }
    }

    fn bring_back(&self, name: &str, port: &InForce, switch: &mut View<'_>) -> Result<(), String> {
        let (_, mut spec) = ports::named(&port.text).map_err(|error| error.to_string())?;
        spec.set_cache_policy(self.at_start.cache_policy);
        let made = spec.build().map_err(|error| error.to_string())?;
        switch.add_port(name, made, port.options.clone()).map_err(|error| error.to_string())
    }
}

/// A port as the file wants it.
struct Wanted {
    name: String,
    /// If it is not there in this way yet.
    made: Option<Box<dyn Port>>,
    as_said: InForce,
}

/// What holds for all of the switch and cannot be changed while it runs, by key, to be compared.
fn for_all(arguments: &cli::Switch) -> [(&'static str, String); 11] {
    let cli::Switch { wire, cpus, spin, max_frame, max_moves, worker_deadline, mac_table_size, .. } =
        arguments;
    let cli::Switch { ageing, cache_policy, control, metrics, .. } = arguments;
    [
        ("wire", format!("{wire:?}")),
        ("cpus", format!("{cpus:?}")),
        ("spin", format!("{spin:?}")),
        ("max-frame", format!("{max_frame:?}")),
        ("max-moves", format!("{max_moves:?}")),
        ("worker-deadline", format!("{worker_deadline:?}")),
        ("mac-table-size", format!("{mac_table_size:?}")),
        ("ageing", format!("{ageing:?}")),
        ("cache-policy", format!("{cache_policy:?}")),
        ("control", format!("{control:?}")),
        ("metrics", format!("{metrics:?}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<cli::Switch, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_mean_what_the_options_mean() {
        let read = read_text(
            "spin = \"5us\"\nwire = [\"one=two\"]\nmac-table-size = 100\n[ports.one]\nkind = \"vhost-user\"\n\
             target = \"/tmp/one\"\nqueue-pairs = 2\npacked = false\nallow = [\"02:00:00:00:00:01\"]\nflood-limit = 9\n\
             police = [\"7pps\", \"1gbit\"]\n\
             [ports.two]\nkind = \"tap\"\ntarget = \"tap0\"\n",
        )
        .unwrap();
        assert_eq!(read.port, ["one=vhost-user:/tmp/one,packed=off,queue-pairs=2", "two=tap:tap0"]);
        assert_eq!((read.spin.as_micros(), read.mac_table_size), (5, 100));
        assert_eq!((&read.wire[0][..], &read.flood_limit[0][..]), ("one=two", "one=9"));
        let ports = ports::read(&read).unwrap();
        assert_eq!(ports[0].options.addresses.as_ref().map(Vec::len), Some(1));
        assert_eq!(ports[0].options.floods_per_second, Some(9));
        assert_eq!(ports[0].options.policing.packets_per_second, Some(7));
        assert_eq!(ports[0].options.policing.bits_per_second, Some(1_000_000_000));
    }

    #[test]
    fn the_packages_own_file_is_understood() {
        let read = read_text(include_str!("../../../../packaging/switch.toml")).unwrap();
        assert_eq!((ports::read(&read).unwrap().len(), read.control.is_some()), (2, true));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file() {
        for (text, said) in [
            ("speed = 9", "no key 'speed'"),
            ("spin = \"5\"", "spin"),
            ("[ports.one]\nkind = \"tap\"", "no target"),
            ("[ports.one]\nkind = \"tap\"\ntarget = \"t\"\nup = \"a,b=c\"", "no comma"),
            ("ports = 3", "no table"),
            ("x", "TOML"),
            ("", "port"),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.contains(said) && error.contains("--config"), "{text:?}: {error}");
        }
    }
}
