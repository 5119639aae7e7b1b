//! The ports that one source (the configuration file or the control socket) wants, against those of the switch.
//! Missing ports are added, ports that are no longer wanted are removed, unchanged ports go on.
use std::collections::BTreeMap;
use std::fmt::Display;

use control::PortDescription;
use control::protocol::Change;
use port::Port;
use switch::{AddedPort, PortOptions, View};

use crate::error::Invalid;
use crate::ports::{self, NamedSpec, PortDefaults};

/// The ports of one source: the configuration file, or the control socket.
#[derive(Default)]
pub struct WantedPorts {
    in_force: BTreeMap<String, InForce>,
}

#[derive(Clone)]
struct InForce {
    description: PortDescription,
    options: PortOptions,
}

/// The requested settings of a port.
pub struct Wanted {
    name: String,
    /// The new port, unless the switch has the same one already.
    made: Option<Box<dyn Port>>,
    described: InForce,
}

impl Wanted {
    /// Whether the wanted port has this name and the switch has the same port already.
    pub fn is_there(&self, name: &str) -> bool {
        self.name == name && self.made.is_none()
    }
}

impl WantedPorts {
    /// A source whose ports the switch has already.
    pub fn new(ports: Vec<NamedSpec>) -> Self {
        let in_force = ports
            .into_iter()
            .map(|port| (port.name, InForce { description: port.description, options: port.options }));
        WantedPorts { in_force: in_force.collect() }
    }

    /// Forgets a port that was removed in another way. A later port of its name does not belong to this source.
    pub fn forget(&mut self, name: &str) {
        self.in_force.remove(name);
    }

    /// Whether the port with this name belongs to this source.
    pub fn has(&self, name: &str) -> bool {
        self.in_force.contains_key(name)
    }

    /// The descriptions of the ports.
    pub fn descriptions(&self) -> BTreeMap<String, PortDescription> {
        self.in_force.iter().map(|(name, port)| (name.clone(), port.description.clone())).collect()
    }

    /// Takes over ports of another switch. Returns the ports, not started.
    ///
    /// # Errors
    /// A port's socket, interface or file cannot be opened.
    pub fn inherit(&mut self, ports: Vec<NamedSpec>) -> Result<Vec<AddedPort>, String> {
        let mut added = Vec::new();
        for NamedSpec { name, description, spec, options } in ports {
            let port = spec.build().map_err(|error| format!("port {name}: {error}"))?;
            added.push(AddedPort { name: name.clone(), port, options: options.clone() });
            self.in_force.insert(name, InForce { description, options });
        }
        Ok(added)
    }

    /// Makes a port and adds it to the switch.
    ///
    /// # Errors
    /// The port's socket, interface or file cannot be opened, or the switch refuses it, as for a name that it has
    /// already.
    pub fn add(&mut self, port: NamedSpec, switch: &mut View<'_>) -> Result<(), String> {
        let NamedSpec { name, description, spec, options } = port;
        let made = spec.build().map_err(|error| error.to_string())?;
        switch.add_port(&name, made, options.clone()).map_err(|error| error.to_string())?;
        self.in_force.insert(name, InForce { description, options });
        Ok(())
    }

    /// Makes the ports that are new or different, and starts none. `wrong` names the port in an error.
    ///
    /// # Errors
    /// The socket, interface or file of a port cannot be opened.
    pub fn prepare(
        &self,
        ports: Vec<NamedSpec>,
        wrong: impl Fn(&str, &dyn Display) -> Invalid,
    ) -> Result<Vec<Wanted>, Invalid> {
        let prepare = |port: NamedSpec| {
            let NamedSpec { name, description, spec, options } = port;
            let is_there =
                self.in_force.get(&name).is_some_and(|there| there.description.is_same_port(&description));
            let made = match is_there {
                true => None,
                false => Some(spec.build().map_err(|error| wrong(&name, &error))?),
            };
            Ok(Wanted { name, made, described: InForce { description, options } })
        };
        ports.into_iter().map(prepare).collect()
    }

    /// As [`WantedPorts::apply`] for the ports of these names; all others stay as they are. A port that cannot be made
    /// stays unchanged.
    pub fn change(
        &mut self,
        names: &[String],
        ports: Vec<NamedSpec>,
        defaults: PortDefaults,
        switch: &mut View<'_>,
    ) -> Vec<Change> {
        let mut some = WantedPorts::default();
        some.in_force.extend(names.iter().filter_map(|name| self.in_force.remove_entry(name)));
        let (mut wanted, mut changes) = (Vec::new(), Vec::new());
        for port in ports {
            let name = port.name.clone();
            match some.prepare(vec![port], |_, why| Invalid(why.to_string())) {
                Ok(made) => wanted.extend(made),
                Err(Invalid(why)) => {
                    self.in_force.extend(some.in_force.remove_entry(&name));
                    changes.push(Change { port: name, change: "added".to_owned(), error: Some(why) });
                }
            }
        }
        changes.extend(some.apply(wanted, defaults, switch));
        self.in_force.append(&mut some.in_force);
        changes
    }

    /// Removes, adds and changes ports until they are as wanted. A change that failed is tried again at the next
    /// call.
    pub fn apply(
        &mut self,
        wanted: Vec<Wanted>,
        defaults: PortDefaults,
        switch: &mut View<'_>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut say = |port: &str, what: &'static str, result: Result<(), String>| {
            let error = result.err();
            let done = error.is_none();
            changes.push(Change { port: port.to_owned(), change: what.to_owned(), error });
            done
        };
        let stays = |name: &String| wanted.iter().any(|one| one.is_there(name));
        let going: Vec<String> = self.in_force.keys().filter(|name| !stays(name)).cloned().collect();
        let mut ended = BTreeMap::new();
        for name in going {
            if say(&name, "removed", switch.remove_port(&name).map_err(|error| error.to_string())) {
                ended.extend(self.in_force.remove_entry(&name));
            }
        }
        for Wanted { name, made, described } in wanted {
            let before = self.in_force.get(&name).cloned();
            match (made, before) {
                (None, Some(before)) if before.options != described.options => {
                    let set = switch.set_port_options(&name, described.options.clone());
                    if say(&name, "given other limits", set.map_err(|error| error.to_string())) {
                        self.in_force.insert(name, described);
                    }
                }
                // The port could not be removed.
                (Some(_), Some(_)) | (None, _) => {}
                (Some(made), None) => {
                    let added = switch.add_port(&name, made, described.options.clone());
                    if say(&name, "added", added.map_err(|error| error.to_string())) {
                        self.in_force.insert(name, described);
                    } else if let Some(before) = ended.remove(&name) {
                        let back = bring_back(&name, &before, defaults, switch);
                        if say(&name, "brought back as it was", back) {
                            self.in_force.insert(name, before);
                        }
                    }
                }
            }
        }
        changes
    }
}

fn bring_back(
    name: &str,
    port: &InForce,
    defaults: PortDefaults,
    switch: &mut View<'_>,
) -> Result<(), String> {
    let read = ports::read(name, port.description.clone(), defaults).map_err(|error| error.to_string())?;
    let made = read.spec.build().map_err(|error| error.to_string())?;
    switch.add_port(name, made, port.options.clone()).map_err(|error| error.to_string())
}
