//! The file of `--flows`: a flow, a group or a meter on each line, as `ovs-ofctl add-flows`, `add-groups` and `add-meter`
//! read it.
use std::fmt::Display;
use std::path::Path;

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

/// Makes a bridge of the flows that a policy becomes.
///
/// # Errors
/// The file cannot be read, a policy cannot hold for one of the ports, or the file is no policy for them
/// ([`policy::compile`]).
pub fn of_policy(path: &Path, settings: &Settings, ports: &[NamedSpec]) -> Result<SwitchBridge, Invalid> {
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
    let text = policy::compile(&text_of("--policy", path)?, &known).map_err(|mistake| wrong(&mistake))?;
    of_text(&text, &wrong)
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
