//! Conversion from rows of the table Mirror to mirrors of the switch. Each mirror observes one port.

use std::collections::BTreeMap;

use control::Direction;
use ovsdb::{Cache, Datum, Row, Uuid};

use crate::rows::{is_empty, rows, text};

/// A mirror of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The row that requests the mirror.
    pub row: Uuid,
    /// The name of that row.
    pub name: String,
    /// The port that gets the copies.
    pub to: String,
    /// The direction of the copied frames; `None` for both directions.
    pub only: Option<Direction>,
}

/// The requested mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    /// The mirrors that are possible, by the observed port.
    pub by_port: BTreeMap<String, Mirror>,
    /// Why other mirrors are not possible, one line each.
    pub refused: Vec<String>,
    /// The rows of all requested mirrors.
    pub rows: Vec<Uuid>,
}

impl Mirrors {
    /// Adds the mirrors of another bridge.
    pub fn extend(&mut self, other: Mirrors) {
        self.by_port.extend(other.by_port);
        self.refused.extend(other.refused);
        self.rows.extend(other.rows);
    }
}

/// The most mirrors of a bridge: each may observe all ports.
const MOST_MIRRORS: usize = 64;

/// The name of the switch's port that mirrors a port.
pub fn mirror_of(port: &str) -> String {
    format!("mirror-of-{port}")
}

/// Reads the mirrors of a bridge. `is_port` returns whether an interface is a port of the switch.
pub fn mirrors(cache: &Cache, bridge: &Row, is_port: impl Fn(&str) -> bool) -> Mirrors {
    let mut mirrors = Mirrors::default();
    let mut wanted: Vec<(Uuid, &Row)> = rows(cache, bridge, "mirrors", "Mirror").collect();
    wanted.sort_by_key(|(_, row)| text(row, "name").to_owned());
    if wanted.len() > MOST_MIRRORS {
        let left_out = wanted.split_off(MOST_MIRRORS).len();
        mirrors.refused.push(format!("{left_out} mirrors are left out: a bridge has at most {MOST_MIRRORS}"));
    }
    for (id, row) in wanted {
        mirrors.rows.push(id);
        if let Err(why) = read(cache, bridge, (id, row), &is_port, &mut mirrors.by_port) {
            mirrors.refused.push(format!("mirror {}: {why}", text(row, "name")));
        }
    }
    mirrors
}

/// Adds the mirrors of one row to the others.
fn read(
    cache: &Cache,
    bridge: &Row,
    (id, mirror): (Uuid, &Row),
    is_port: &impl Fn(&str) -> bool,
    all: &mut BTreeMap<String, Mirror>,
) -> Result<(), String> {
    let name = text(mirror, "name");
    for column in ["select_vlan", "output_vlan", "snaplen", "filter"] {
        if !is_empty(mirror, column) {
            return Err(format!(
                "the switch does not mirror by {column}: ovs-vsctl clear mirror {name} {column}"
            ));
        }
    }
    let ports = |row: &Row, column: &str| -> Vec<String> {
        let ports = rows(cache, row, column, "Port");
        let interfaces = ports.flat_map(|(_, port)| rows(cache, port, "interfaces", "Interface"));
        let names = interfaces.map(|(_, interface)| text(interface, "name").to_owned());
        names.filter(|name| is_port(name)).collect()
    };
    let output = ports(mirror, "output_port");
    let [to] = &output[..] else {
        return Err(format!("give it a port of the switch: ovs-vsctl set mirror {name} output_port=UUID"));
    };
    // Each frame that passes the bridge comes from one of its ports.
    let is_all = mirror.get("select_all").and_then(Datum::boolean) == Some(true);
    let from = if is_all { ports(bridge, "ports") } else { ports(mirror, "select_src_port") };
    let of_destination = if is_all { Vec::new() } else { ports(mirror, "select_dst_port") };
    let mut selected: BTreeMap<String, Option<Direction>> =
        from.into_iter().map(|port| (port, Some(Direction::FromGuest))).collect();
    for port in of_destination {
        selected.entry(port).and_modify(|only| *only = None).or_insert(Some(Direction::ToGuest));
    }
    selected.remove(to);
    let is_used = |port: &&String| all.contains_key(*port);
    let observed = |port: &&String| all.values().any(|mirror| mirror.to == **port);
    if let Some(port) = selected.keys().find(is_used) {
        return Err(format!("port {port} is observed by another mirror, and a port has one"));
    }
    if let Some(port) = selected.keys().find(observed).or_else(|| Some(to).filter(is_used)) {
        return Err(format!("port {port} would be observed and get copies: name another one"));
    }
    all.extend(
        selected
            .into_iter()
            .map(|(port, only)| (port, Mirror { row: id, name: name.to_owned(), to: to.clone(), only })),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use ovsdb::{Limits, Schema};
    use serde_json::{Value, json};

    use super::*;

    const LIMITS: Limits = Limits {
        message_bytes: 1 << 20,
        message_values: 1 << 16,
        nesting: 16,
        rows: 1 << 10,
        cache_bytes: 1 << 20,
    };

    fn id(number: usize) -> Value {
        json!(["uuid", format!("00000000-0000-0000-0000-{number:012}")])
    }

    fn ids(numbers: &[usize]) -> Value {
        json!(["set", numbers.iter().map(|number| id(*number)).collect::<Vec<_>>()])
    }

    /// The mirrors of a bridge with ports a, b, c and d, which are the rows 10 to 13; b is no port of the switch.
    fn read(rows: Vec<Value>) -> Mirrors {
        let set = json!({"type": {"key": "uuid", "min": 0, "max": "unlimited"}});
        let text = json!({"type": "string"});
        let number = json!({"type": {"key": "integer", "min": 0, "max": 1}});
        let columns = |columns: Value| json!({"columns": columns});
        let schema = json!({"name": "Open_vSwitch", "version": "8.0.0", "tables": {
            "Bridge": columns(json!({"ports": set, "mirrors": set})),
            "Port": columns(json!({"interfaces": set})),
            "Interface": columns(json!({"name": text})),
            "Mirror": columns(json!({"name": text, "select_all": {"type": "boolean"}, "select_src_port": set,
                "select_dst_port": set, "output_port": set, "output_vlan": number})),
        }});
        let key = |number: usize| id(number)[1].as_str().unwrap().to_owned();
        let mirrors: Vec<usize> = (100..100 + rows.len()).collect();
        let mut tables = json!({"Port": {}, "Interface": {}, "Mirror": {}});
        for (port, name) in (10..).zip(["a", "b", "c", "d"]) {
            tables["Port"][key(port)] = json!({"initial": {"interfaces": id(port + 10)}});
            tables["Interface"][key(port + 10)] = json!({"initial": {"name": name}});
        }
        for (row, columns) in mirrors.iter().zip(rows) {
            tables["Mirror"][key(*row)] = json!({"initial": columns});
        }
        let bridge = json!({"ports": ids(&[10, 11, 12, 13]), "mirrors": ids(&mirrors)});
        tables["Bridge"] = json!({key(1): {"initial": bridge}});
        let mut cache = Cache::default();
        cache.update(&tables, &Schema::from_json(&schema).unwrap(), &LIMITS).unwrap();
        let (_, bridge) = cache.rows("Bridge").next().unwrap();
        mirrors_of(&cache, bridge)
    }

    fn mirrors_of(cache: &Cache, bridge: &Row) -> Mirrors {
        mirrors(cache, bridge, |port| port != "b")
    }

    fn shown(mirrors: &Mirrors) -> Vec<(&str, &str, Option<Direction>)> {
        let shown = mirrors.by_port.iter();
        shown.map(|(from, mirror)| (from.as_str(), mirror.to.as_str(), mirror.only)).collect()
    }

    #[test]
    fn rows_select_ports_and_directions() {
        let (from, to) = (Some(Direction::FromGuest), Some(Direction::ToGuest));
        let all = read(vec![json!({"name": "m", "select_all": true, "output_port": id(12)})]);
        assert_eq!(shown(&all), [("a", "c", from), ("d", "c", from)]);
        let selected = read(vec![json!({"name": "m", "select_src_port": ids(&[10, 11, 13]),
            "select_dst_port": ids(&[12, 13]), "output_port": id(12)})]);
        assert_eq!(shown(&selected), [("a", "c", from), ("d", "c", None)]);
        let two = read(vec![
            json!({"name": "1", "select_src_port": id(10), "output_port": id(12)}),
            json!({"name": "2", "select_dst_port": id(13), "output_port": id(12)}),
        ]);
        assert_eq!(shown(&two), [("a", "c", from), ("d", "c", to)]);
        assert!(two.refused.is_empty() && two.rows.len() == 2);
    }

    #[test]
    fn what_cannot_be_is_said_and_others_go_on() {
        let first = json!({"name": "1", "select_src_port": id(10), "output_port": id(12)});
        for (second, said) in [
            (json!({"name": "2", "select_src_port": id(13), "output_port": id(11)}), "give it a port"),
            (json!({"name": "2", "select_src_port": id(13)}), "give it a port"),
            (
                json!({"name": "2", "select_dst_port": id(10), "output_port": id(13)}),
                "observed by another mirror",
            ),
            (
                json!({"name": "2", "select_src_port": id(12), "output_port": id(13)}),
                "port c would be observed",
            ),
            (
                json!({"name": "2", "select_src_port": id(13), "output_port": id(10)}),
                "port a would be observed",
            ),
            (
                json!({"name": "2", "select_src_port": id(13), "output_port": id(12), "output_vlan": 7}),
                "clear mirror 2 output_vlan",
            ),
        ] {
            let read = read(vec![first.clone(), second]);
            assert_eq!(shown(&read), [("a", "c", Some(Direction::FromGuest))], "{said}");
            assert!(read.refused.len() == 1 && read.refused[0].contains(said), "{:?}", read.refused);
        }
        let many: Vec<Value> = (0..70).map(|row| json!({"name": format!("{row:02}")})).collect();
        let read = read(many);
        assert_eq!((read.rows.len(), read.refused.len()), (64, 65));
        assert!(read.refused[0].contains("6 mirrors are left out"));
    }
}
