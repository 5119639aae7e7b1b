//! Ports as they are described, made into what the switch takes.
use std::fmt::Display;

use control::{NETWORK_OPTION, NUMBER_OPTION, OptionValue, PortDescription};
use port::spec::{Kind, Options, PortSpec, Spec};
use switch::PortOptions;
use virtio::net::MacAddress;

use crate::bonds;
use crate::error::Invalid;
use crate::policing;
use crate::settings::Settings;
use crate::vlans;

/// The OpenFlow number of a bridge's own port (`OFPP_LOCAL` of version 1.0).
const LOCAL: u16 = 0xfffe;

/// The highest OpenFlow number of a port (`OFPP_MAX` of version 1.0).
const MOST_NUMBER: u16 = 0xfeff;

/// Bytes of the longest name of a network.
const NETWORK_BYTES: usize = 64;

/// A port that was read and is not made yet.
pub struct NamedSpec {
    pub name: String,
    pub description: PortDescription,
    pub spec: PortSpec,
    pub options: PortOptions,
}

/// The settings of ports whose description does not set others.
#[derive(Clone, Copy, Debug)]
pub struct PortDefaults {
    pub cache_policy: port::CachePolicy,
    pub max_frame: Option<u32>,
    /// Kinds of port beside those of the crate `port`.
    pub kinds: &'static [Kind],
}

impl PortDefaults {
    pub fn of(settings: &Settings, kinds: &'static [Kind]) -> Self {
        PortDefaults { cache_policy: settings.cache_policy, max_frame: settings.max_frame, kinds }
    }
}

/// Reads a port as the command line has it: `NAME=KIND:TARGET[,key=value]…`.
///
/// # Errors
/// The text has no name, kind or target, or an option that is not `key=value`.
pub fn described(text: &str) -> Result<(String, PortDescription), Invalid> {
    let (name, spec) = text
        .split_once('=')
        .filter(|(name, _)| is_name(name))
        .ok_or_else(|| Invalid("write NAME=KIND:TARGET, as in a=tap:tap0".to_owned()))?;
    let Spec { kind, target, options } = spec.parse().map_err(invalid)?;
    let value = |(key, value): (&str, &str)| (key.to_owned(), OptionValue::Text(value.to_owned()));
    let options = options.left().map(value).collect();
    Ok((name.to_owned(), PortDescription { kind, target, options, ..PortDescription::default() }))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains([':', '='])
}

/// Reads the description of one port and opens nothing yet. An error does not name the port.
///
/// # Errors
/// The name is empty or has a ':' or '=', the target is empty, the kind or an option is unknown, an option's value is
/// wrong, an address is no MAC address, a rate is wrong ([`policing::read`]), the name of the
/// network is too long, the OpenFlow number is none, or VLANs or a bond are wrong ([`vlans::take`], [`bonds::take`]).
pub fn read(name: &str, description: PortDescription, defaults: PortDefaults) -> Result<NamedSpec, Invalid> {
    if !is_name(name) {
        return Err(Invalid("a name is not empty and has neither ':' nor '='".to_owned()));
    }
    let PortDescription { kind, target, options, allow, police, .. } = &description;
    if target.is_empty() {
        return Err(Invalid(
            "the target is empty; write a path, the name of an interface or a file".to_owned(),
        ));
    }
    let mut options = options.clone();
    let vlans = vlans::take(&mut options)?;
    let bond = bonds::take(&mut options)?;
    let network = options.remove(NETWORK_OPTION).map(|name| name.to_string()).unwrap_or_default();
    let number = options.remove(NUMBER_OPTION).map(|number| number.to_string());
    let number = number.map(|text| read_number(&text)).transpose()?;
    if network.len() > NETWORK_BYTES {
        return Err(Invalid(format!("the network's name has more than {NETWORK_BYTES} bytes")));
    }
    let is_tunnel = tunnel_ports::is_tunnel(kind);
    if is_tunnel {
        options.insert(tunnel_ports::BRIDGE_OPTION.to_owned(), OptionValue::Text(network.clone()));
    }
    let options = Options::new(options.iter().map(|(key, value)| (key.clone(), value.to_string())));
    let spec = Spec { kind: kind.clone(), target: target.clone(), options };
    let mut spec = PortSpec::of(spec, defaults.kinds).map_err(invalid)?;
    spec.set_cache_policy(defaults.cache_policy);
    let address = |text: &str| text.parse().map_err(|error| Invalid(format!("allow {text}: {error}")));
    let addresses = allow.iter().flat_map(|text| text.split('+')).map(address);
    let addresses: Vec<MacAddress> = addresses.collect::<Result<_, _>>()?;
    let usual = PortOptions::default().floods_per_second;
    let options = PortOptions {
        addresses: (!addresses.is_empty()).then_some(addresses),
        max_frame_bytes: description.max_frame.or(defaults.max_frame),
        floods_per_second: description.flood_limit.map_or(usual, |limit| (limit > 0).then_some(limit)),
        policing: policing::read(police.iter().flat_map(|text| text.split('+')))?,
        network,
        number,
        vlans,
        bond,
        is_tunnel,
    };
    Ok(NamedSpec { name: name.to_owned(), description, spec, options })
}

/// An OpenFlow number of a port.
fn read_number(text: &str) -> Result<u16, Invalid> {
    let number = text.parse().ok().filter(|number| (1..=MOST_NUMBER).contains(number) || *number == LOCAL);
    number.ok_or_else(|| Invalid(format!("ofport={text}: write a number from 1 to {MOST_NUMBER}")))
}

/// All ports of a switch; `kinds` are those beside the kinds of the crate `port`. `wrong` names the port in an error.
///
/// # Errors
/// The causes of [`read`], for the first such port.
pub fn read_all(
    settings: &Settings,
    kinds: &'static [Kind],
    wrong: impl Fn(&str, &dyn Display) -> Invalid,
) -> Result<Vec<NamedSpec>, Invalid> {
    let defaults = PortDefaults::of(settings, kinds);
    let ports = settings.ports_with_limits();
    ports.map(|(name, port)| read(name, port, defaults).map_err(|why| wrong(name, &why))).collect()
}

fn invalid(error: impl Display) -> Invalid {
    Invalid(error.to_string())
}
