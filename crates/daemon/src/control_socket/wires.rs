//! The wires between ports that requests change: all but those of a configuration file.
use std::collections::{BTreeMap, BTreeSet};

use control::PortDescription;
use control::protocol::Change;
use switch::View;

/// Wires, each by its ends, the lesser name first.
#[derive(Default)]
pub struct Wires(BTreeSet<(String, String)>);

impl Wires {
    /// Wires that are there already.
    pub fn of(wires: &[(String, String)]) -> Self {
        let ordered = |(a, b): (String, String)| if a < b { (a, b) } else { (b, a) };
        Wires(wires.iter().cloned().map(ordered).collect())
    }

    /// Wires that are wanted between these ports.
    ///
    /// # Errors
    /// A wire's end is not among the ports, both its ends are the same, or a port is an end of two wires.
    pub fn between(
        wires: &[(String, String)],
        ports: &BTreeMap<String, PortDescription>,
    ) -> Result<Self, String> {
        let wires = Wires::of(wires);
        let mut used = BTreeSet::new();
        for (a, b) in &wires.0 {
            let missing = [a, b].into_iter().find(|end| !ports.contains_key(*end));
            if let Some(missing) = missing {
                return Err(format!("wire {a}={b}: there is no port {missing} in the request"));
            }
            if !used.insert(a) || !used.insert(b) {
                return Err(format!(
                    "wire {a}={b}: a port is an end of one wire at most, and not of both ends"
                ));
            }
        }
        Ok(wires)
    }

    /// Takes away the wires that are not wanted, and those with an end that does not stay.
    pub fn cut(&mut self, wanted: &Self, stays: impl Fn(&str) -> bool, switch: &mut View<'_>) -> Vec<Change> {
        let goes = |(a, b): &(String, String)| {
            let stays = stays(a) && stays(b);
            !stays || !wanted.0.contains(&(a.clone(), b.clone()))
        };
        let mut changes = Vec::new();
        for (a, b) in self.0.extract_if(.., goes).collect::<Vec<_>>() {
            let cut = switch.remove_wire(&a, &b);
            changes.push(change(&a, format!("unwired from {b}"), cut.err()));
        }
        changes
    }

    /// Makes the wires that are wanted and missing.
    pub fn connect(&mut self, wanted: Self, switch: &mut View<'_>) -> Vec<Change> {
        let mut changes = Vec::new();
        for (a, b) in wanted.0 {
            if self.0.contains(&(a.clone(), b.clone())) {
                continue;
            }
            let made = switch.add_wire(&a, &b);
            changes.push(change(&a, format!("wired to {b}"), made.as_ref().err()));
            if made.is_ok() {
                self.0.insert((a, b));
            }
        }
        changes
    }
}

fn change(port: &str, change: String, error: Option<impl ToString>) -> Change {
    Change { port: port.to_owned(), change, error: error.map(|error| error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_is_between_two_ports_of_the_request() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let ports: BTreeMap<_, _> = names.map(|name| (name, PortDescription::default())).into();
        for (wires, said) in [
            (vec![("b", "a"), ("a", "b")], None),
            (vec![("a", "d")], Some("no port d")),
            (vec![("a", "a")], Some("one wire at most")),
            (vec![("a", "b"), ("c", "b")], Some("one wire at most")),
        ] {
            let wires: Vec<_> = wires.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
            let error = Wires::between(&wires, &ports).err();
            assert_eq!(error.is_some(), said.is_some(), "{wires:?}: {error:?}");
            assert!(error.is_none_or(|error| error.contains(said.unwrap_or_default())), "{wires:?}");
        }
    }
}
