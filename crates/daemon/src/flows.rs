//! The file of `--flows`: a flow, a group or a meter on each line, as `ovs-ofctl add-flows`, `add-groups` and `add-meter`
//! read it.
use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::bridges::{OWN, SwitchBridge, lines};
use crate::configuration_file::read_up_to;
use crate::error::Invalid;
use crate::ports::NamedSpec;
use crate::settings::Settings;

/// The most bytes of a file: more than a million of OVN's flows need.
const MOST_BYTES: u64 = 256 << 20;

/// Makes a bridge of the flows of a file.
///
/// # Errors
/// The file cannot be read; or a line is no flow, group or meter, has an action that is not there yet, names a group or
/// meter that the file does not have, or contradicts another one.
pub fn read(path: &Path) -> Result<SwitchBridge, Invalid> {
    of_text(&text_of("--flows", path)?, &|why| wrong("--flows", path, why))
}

/// The file of `--policy`, and the ports for which it holds.
pub struct PolicyFile {
    path: PathBuf,
    ports: Vec<policy::Port>,
}

impl PolicyFile {
    /// The policy's flows, one a line, as the file is now.
    ///
    /// # Errors
    /// The file cannot be read, or is no policy for the ports ([`policy::compile`]).
    pub fn flows(&self) -> Result<String, Invalid> {
        let text = text_of("--policy", &self.path)?;
        policy::compile(&text, &self.ports).map_err(|mistake| self.wrong(&mistake))
    }

    /// Makes a bridge of the policy's flows.
    ///
    /// # Errors
    /// See [`PolicyFile::flows`].
    pub fn bridge(&self) -> Result<SwitchBridge, Invalid> {
        of_text(&self.flows()?, &|why| self.wrong(why))
    }

    /// An error with the name of the file.
    pub fn wrong(&self, why: &dyn Display) -> Invalid {
        wrong("--policy", &self.path, why)
    }
}

/// The policy in a file.
///
/// # Errors
/// A policy cannot hold for one of the ports.
pub fn of_policy(path: &Path, settings: &Settings, ports: &[NamedSpec]) -> Result<PolicyFile, Invalid> {
    let wrong = |why: &dyn Display| wrong("--policy", path, why);
    if settings.flows.is_some() || !settings.wires.is_empty() {
        return Err(wrong(&"flows and wires pass by a policy; leave them out"));
    }
    let mut known: Vec<policy::Port> = Vec::new();
    for NamedSpec { name, options, .. } in ports {
        if !options.network.is_empty() || options.bond.is_some() {
            return Err(wrong(&format_args!(
                "port {name}: leave out its network and bond; a policy knows neither"
            )));
        }
        // The switch chooses the numbers in this way too (`switch::port_number`).
        let number = options.number.unwrap_or_else(|| {
            let first = known.len() as u16 + 1; // a switch has fewer ports than there are numbers
            (first..).find(|number| known.iter().all(|port| port.number != *number)).unwrap_or(first)
        });
        known.push(policy::Port {
            name: name.clone(),
            number,
            addresses: options.addresses.clone().unwrap_or_default(),
        });
    }
    Ok(PolicyFile { path: path.to_owned(), ports: known })
}

fn wrong(option: &str, path: &Path, why: &dyn Display) -> Invalid {
    Invalid(format!("{option} {}: {why}", path.display()))
}

fn text_of(option: &str, path: &Path) -> Result<String, Invalid> {
    let unread = |error| wrong(option, path, &format_args!("{error}; name a regular file that can be read"));
    read_up_to(path, MOST_BYTES).map_err(unread)
}

fn of_text(text: &str, wrong: &dyn Fn(&dyn Display) -> Invalid) -> Result<SwitchBridge, Invalid> {
    let of_line = |line: usize, why: &dyn Display| wrong(&format_args!("line {line}: {why}"));
    let lines = lines(text).map_err(|(line, why)| of_line(line, &why))?;
    let numbers: Vec<usize> = lines.iter().map(|line| line.number).collect();
    let made = SwitchBridge::of_changes(OWN, lines.into_iter().map(|line| line.what.addition()));
    made.map_err(|(at, failure)| of_line(numbers.get(at).copied().unwrap_or_default(), &failure))
}
