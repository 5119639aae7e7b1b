//! The configuration file: the options of the command line as TOML, a table for each port.
//!
//! It is turned into a command line and read as one: each key means what the option of its name means, and what is
//! wrong is said in the same words.
use std::path::{Path, PathBuf};

use clap::Parser;
use switch::View;
use toml::{Table, Value};

use super::ports::{self, NamedSpec, PortDefaults};
use crate::cli::{self, Cli, Command};
use crate::exit::Usage;

/// What is said of one port and is no option of its kind.
const OF_PORT: [&str; 3] = ["allow", "flood-limit", "police"];

/// Options that a file may hold; the others belong to one run.
const OF_SWITCH: [&str; 12] = [
    "wire",
    "cpus",
    "spin",
    "max-frame",
    "flood-limit",
    "max-moves",
    "worker-deadline",
    "mac-table-size",
    "ageing",
    "cache-policy",
    "control",
    "metrics",
];

/// Reads a file.
pub fn read(path: &Path) -> Result<cli::Switch, Usage> {
    let wrong = |why: String| Usage(format!("--config {}: {why}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(format!("{error}; name a file that can be read")))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let line = command_line(&table).map_err(wrong)?;
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

/// The same as a command line.
fn command_line(table: &Table) -> Result<Vec<String>, String> {
    let mut line = vec!["tautline".to_owned(), "switch".to_owned()];
    for (key, value) in table {
        if key == "ports" {
            continue;
        }
        if !OF_SWITCH.contains(&key.as_str()) {
            return Err(format!(
                "there is no key '{key}'; there are {} and [ports.NAME]",
                OF_SWITCH.join(", ")
            ));
        }
        for word in words(key, value)? {
            line.push(format!("--{key}={word}"));
        }
    }
    let no_ports = Table::new();
    let ports = match table.get("ports") {
        None => &no_ports,
        Some(ports) => ports.as_table().ok_or("'ports' is no table; write [ports.NAME] for each port")?,
    };
    for (name, port) in ports {
        let port = port.as_table().ok_or_else(|| format!("ports.{name} is no table"))?;
        port_words(name, port, &mut line)?;
    }
    Ok(line)
}

fn port_words(name: &str, port: &Table, line: &mut Vec<String>) -> Result<(), String> {
    let text = |key: &str| {
        let value = port.get(key).and_then(Value::as_str);
        value.ok_or_else(|| {
            format!("[ports.{name}] has no {key}; write kind = \"vhost-user\" and target = \"PATH\"")
        })
    };
    let mut spec = format!("{name}={}:{}", text("kind")?, text("target")?);
    for (key, value) in port {
        if ["kind", "target"].contains(&key.as_str()) {
            continue;
        }
        let words = words(key, value).map_err(|why| format!("[ports.{name}] {why}"))?;
        if OF_PORT.contains(&key.as_str()) {
            line.extend(words.iter().map(|word| format!("--{key}={name}={word}")));
            continue;
        }
        for word in words {
            if word.contains(',') {
                return Err(format!("[ports.{name}] {key}: a value has no comma"));
            }
            spec += &format!(",{key}={word}");
        }
    }
    line.push(format!("--port={spec}"));
    Ok(())
}

/// One value, or several, as words of a command line.
fn words(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let word = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Boolean(on) => Ok(if *on { "on" } else { "off" }.to_owned()),
        _ => Err(format!("{key}: write a text, a number, true or false")),
    };
    match value {
        Value::Array(values) => values.iter().map(word).collect(),
        one => Ok(vec![word(one)?]),
    }
}

/// A file that is read again when its user says so.
pub struct Configured {
    path: PathBuf,
    arguments: cli::Switch,
}

impl Configured {
    pub fn new(path: PathBuf, arguments: cli::Switch) -> Self {
        Configured { path, arguments }
    }

    /// Reads the file again and changes what is different; says what was done. A file that is wrong changes nothing.
    pub fn reload(&mut self, switch: &mut View<'_>) -> Vec<String> {
        let read = || {
            let new = read(&self.path)?;
            let ports = (ports::read(&self.arguments)?, ports::read(&new)?);
            Ok::<_, Usage>((new, ports))
        };
        let (new, (old_ports, new_ports)) = match read() {
            Ok(read) => read,
            Err(error) => return vec![format!("{error}; nothing is changed")],
        };
        let mut said = Vec::new();
        if other_options(&new) != other_options(&self.arguments) {
            let keys = OF_SWITCH.join(", ");
            said.push(format!(
                "{}: of {keys} something else is written than at the start; start the switch again to have it so",
                self.path.display()
            ));
        }
        let defaults = PortDefaults { cache_policy: new.cache_policy, max_frame: new.max_frame };
        apply(&old_ports, new_ports, &defaults, switch, &mut said);
        if said.is_empty() {
            said.push(format!("{}: read again, nothing is different", self.path.display()));
        }
        self.arguments = new;
        said
    }
}

/// What cannot be changed while the switch runs, to be compared.
fn other_options(arguments: &cli::Switch) -> String {
    let cli::Switch { wire, cpus, spin, max_moves, worker_deadline, mac_table_size, ageing, control, .. } =
        arguments;
    format!(
        "{wire:?} {cpus:?} {spin:?} {max_moves} {worker_deadline:?} {mac_table_size} {ageing:?} {control:?}"
    )
}

fn apply(
    old: &[NamedSpec],
    new: Vec<NamedSpec>,
    _defaults: &PortDefaults,
    switch: &mut View<'_>,
    said: &mut Vec<String>,
) {
    let mut say = |port: &str, what: &str, result: Result<(), String>| {
        said.push(match result {
            Ok(()) => format!("{port}: {what}"),
            Err(why) => format!("{port}: not {what}: {why}"),
        });
    };
    let differs = |port: &NamedSpec| new.iter().all(|one| one.name != port.name || one.text != port.text);
    for port in old.iter().filter(|port| differs(port)) {
        say(&port.name, "removed", switch.remove_port(&port.name).map_err(|error| error.to_string()));
    }
    for port in new {
        let before = old.iter().find(|one| one.name == port.name && one.text == port.text);
        match before {
            Some(before) if before.options == port.options => {}
            Some(_) => {
                let set = switch.set_port_options(&port.name, port.options);
                say(&port.name, "given other limits", set.map_err(|error| error.to_string()));
            }
            None => {
                let built = port.spec.build().map_err(|error| error.to_string());
                let added = built.and_then(|built| {
                    switch.add_port(&port.name, built, port.options).map_err(|error| error.to_string())
                });
                say(&port.name, "added", added);
            }
        }
    }
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
