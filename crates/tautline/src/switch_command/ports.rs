//! What the user wrote about ports and workers.
use std::collections::BTreeMap;

use port::spec::PortSpec;
use switch::{Policing, PortOptions};
use virtio::net::MacAddress;

use super::policing;
use crate::exit::Usage;
use crate::{cli, cpu_list};

/// A port as the user named and described it.
pub struct NamedSpec {
    pub name: String,
    /// As written: `NAME=KIND:TARGET`.
    pub text: String,
    pub spec: PortSpec,
    pub options: PortOptions,
}

/// What holds for ports of which nothing else is said.
#[derive(Clone, Copy, Debug)]
pub struct PortDefaults {
    pub cache_policy: port::CachePolicy,
    pub max_frame: Option<u32>,
}

/// One port by itself: `NAME=KIND:TARGET`, and what it may send.
pub fn one(
    text: &str,
    allow: &[String],
    max_frame: Option<u32>,
    flood_limit: Option<u32>,
    police: &[String],
    defaults: &PortDefaults,
) -> Result<NamedSpec, Usage> {
    let (name, mut spec) = named(text)?;
    spec.set_cache_policy(defaults.cache_policy);
    let address = |text: &String| text.parse().map_err(|error| Usage(format!("allow {text}: {error}")));
    let addresses: Vec<MacAddress> = allow.iter().map(address).collect::<Result<_, _>>()?;
    let usual = PortOptions::default().floods_per_second;
    let options = PortOptions {
        addresses: (!addresses.is_empty()).then_some(addresses),
        max_frame_bytes: max_frame.or(defaults.max_frame),
        floods_per_second: flood_limit.map_or(usual, |limit| (limit > 0).then_some(limit)),
        policing: policing::read(police.iter().map(String::as_str))?,
    };
    Ok(NamedSpec { name: name.to_owned(), text: text.to_owned(), spec, options })
}

/// Name and kind of a port.
pub fn named(text: &str) -> Result<(&str, PortSpec), Usage> {
    let (name, spec) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty() && !name.contains(':'))
        .ok_or_else(|| Usage(format!("--port {text}: write NAME=KIND:TARGET, as in a=tap:tap0")))?;
    let spec = spec.parse().map_err(|error| Usage(format!("--port {text}: {error}")))?;
    Ok((name, spec))
}

/// The ports, with what they may send.
pub fn read(arguments: &cli::Switch) -> Result<Vec<NamedSpec>, Usage> {
    let mut allowed: BTreeMap<&str, Vec<MacAddress>> = BTreeMap::new();
    for text in &arguments.allow {
        let (name, addresses) = text
            .split_once('=')
            .ok_or_else(|| Usage(format!("--allow {text}: write NAME=MAC, or NAME=MAC+MAC for several")))?;
        for address in addresses.split('+') {
            let address = address.parse().map_err(|error| Usage(format!("--allow {text}: {error}")))?;
            allowed.entry(name).or_default().push(address);
        }
    }
    let mut policed = policed(&arguments.police)?;
    let mut floods = FloodLimits::read(&arguments.flood_limit)?;
    let mut ports = Vec::new();
    for text in &arguments.port {
        let (name, mut spec) = named(text)?;
        spec.set_cache_policy(arguments.cache_policy);
        let options = PortOptions {
            addresses: allowed.remove(name),
            max_frame_bytes: arguments.max_frame,
            floods_per_second: floods.take(name),
            policing: policed.remove(name).unwrap_or_default(),
        };
        ports.push(NamedSpec { name: name.to_owned(), text: text.clone(), spec, options });
    }
    let unknown =
        |option: &str, name: &str| Usage(format!("{option} {name}=…: there is no port of this name"));
    let left = [
        ("--allow", allowed.into_keys().next()),
        ("--flood-limit", floods.of_port.into_keys().next()),
        ("--police", policed.into_keys().next()),
    ];
    match left.into_iter().find_map(|(option, name)| name.map(|name| unknown(option, name))) {
        Some(error) => Err(error),
        None => Ok(ports),
    }
}

/// What may come from each port that has a limit.
fn policed(texts: &[String]) -> Result<BTreeMap<&str, Policing>, Usage> {
    let mut rates: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for text in texts {
        let (name, of_port) = text.split_once('=').ok_or_else(|| {
            Usage(format!("--police {text}: write NAME=RATE, or NAME=RATE+RATE, as in a=100kpps+1gbit"))
        })?;
        rates.entry(name).or_default().extend(of_port.split('+'));
    }
    rates.into_iter().map(|(name, rates)| Ok((name, policing::read(rates)?))).collect()
}

/// What was written of floods: frames a second, 0 for any number.
struct FloodLimits<'a> {
    of_all: Option<u32>,
    of_port: BTreeMap<&'a str, u32>,
}

impl<'a> FloodLimits<'a> {
    fn read(texts: &'a [String]) -> Result<Self, Usage> {
        let mut limits = FloodLimits { of_all: None, of_port: BTreeMap::new() };
        for text in texts {
            let (name, number) = text.rsplit_once('=').map_or((None, &**text), |(name, n)| (Some(name), n));
            let limit = number
                .parse()
                .map_err(|_| Usage(format!("--flood-limit {text}: write frames a second, or NAME=that")))?;
            match name {
                Some(name) => _ = limits.of_port.insert(name, limit),
                None => limits.of_all = Some(limit),
            }
        }
        Ok(limits)
    }

    fn take(&mut self, name: &str) -> Option<u32> {
        let written = self.of_port.remove(name).or(self.of_all);
        written.map_or(PortOptions::default().floods_per_second, |limit| (limit > 0).then_some(limit))
    }
}

/// The two ports of a wire.
pub fn pair(text: &str) -> Result<(String, String), Usage> {
    let pair = text.split_once('=').ok_or_else(|| Usage(format!("--wire {text}: write A=B")))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// One worker on each of these CPUs; one that goes where it likes if nothing is said.
pub fn workers(text: Option<&str>) -> anyhow::Result<Vec<Option<usize>>> {
    let Some(text) = text else { return Ok(vec![None]) };
    let cpus = cpu_list::read("--cpus", Some(text))?;
    Ok(cpus.into_iter().map(Some).collect())
}
