//! The text of the configuration file: a key for each setting, and a table for each port.
use control::PortDescription;
use toml::{Table, Value};

use crate::error::Invalid;
use crate::ports;
use crate::settings::Settings;

/// Keys that may have several values.
const LISTS: [&str; 2] = ["wire", "flood-limit"];

/// Reads the text of a configuration file.
///
/// # Errors
/// The text is no TOML, or a key or value is wrong; the error names it.
pub fn parse(text: &str) -> Result<Settings, Invalid> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| Invalid(error.to_string()))?;
    let mut settings = Settings::default();
    // Ports come first, because settings for all ports may name one.
    if let Some(ports) = table.get("ports") {
        let no_table = || Invalid("'ports' is no table; write [ports.NAME] for each port".to_owned());
        for (name, port) in ports.as_table().ok_or_else(no_table)? {
            let wrong = |why: String| Invalid(format!("[ports.{name}] {why}"));
            settings.ports.push((name.clone(), description(port).map_err(wrong)?));
        }
    }
    for (key, value) in table.iter().filter(|(key, _)| *key != "ports") {
        let wrong = |why: String| Invalid(format!("{key}: {why}"));
        for word in words(key, value).map_err(wrong)? {
            settings.set(key, &word).map_err(|Invalid(why)| wrong(why))?;
        }
    }
    if settings.ports.is_empty() && settings.control.is_none() {
        return Err(Invalid(
            "there is neither a port nor a control socket; write [ports.NAME] or control".to_owned(),
        ));
    }
    Ok(settings)
}

/// Reads the text of a configuration file, and each port of it as far as that goes without making one.
///
/// # Errors
/// As [`parse`]; or a port has an unknown kind, an unknown option or a wrong limit.
pub fn check(text: &str) -> Result<(), Invalid> {
    ports::read_all(&parse(text)?, &[], |name, why| Invalid(format!("[ports.{name}] {why}"))).map(drop)
}

fn description(port: &Value) -> Result<PortDescription, String> {
    let port = port.as_table().ok_or("is no table")?;
    if let Some(missing) = ["kind", "target"].into_iter().find(|key| !port.contains_key(*key)) {
        return Err(format!("has no {missing}; write kind = \"vhost-user\" and target = \"PATH\""));
    }
    port.clone().try_into().map_err(|error| error.to_string().trim_end().to_owned())
}

/// The value of a key, or several.
fn words(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let word = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        _ => Err("write a text or a number"),
    };
    Ok(match value {
        Value::Array(values) if LISTS.contains(&key) => values.iter().map(word).collect::<Result<_, _>>()?,
        one => vec![word(one)?],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_options_mean() {
        let read = parse(
            "spin = \"5us\"\nwire = [\"one=two\"]\nmac-table-size = 100\nflood-limit = [\"two=3\", \"7\"]\n\
             [ports.one]\nkind = \"vhost-user\"\n\
             target = \"/tmp/one\"\nqueue-pairs = 2\npacked = false\nallow = [\"02:00:00:00:00:01\"]\nflood-limit = 9\n\
             police = [\"7pps\", \"1gbit\"]\n\
             [ports.two]\nkind = \"tap\"\ntarget = \"tap0\"\n[ports.three]\nkind = \"tap\"\ntarget = \"tap1\"\n",
        )
        .unwrap();
        assert_eq!((read.spin.as_micros(), read.mac_table_size), (5, 100));
        assert_eq!(read.wires, [("one".to_owned(), "two".to_owned())]);
        let ports = ports::read_all(&read, &[], |name, why| Invalid(format!("{name}: {why}"))).unwrap();
        let one = ports.iter().find(|port| port.name == "one").unwrap();
        let options: Vec<_> =
            one.description.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(options, ["packed=off", "queue-pairs=2"]);
        assert_eq!(one.options.addresses.as_ref().map(Vec::len), Some(1));
        assert_eq!(one.options.policing.packets_per_second, Some(7));
        assert_eq!(one.options.policing.bits_per_second, Some(1_000_000_000));
        let floods =
            |name: &str| ports.iter().find(|port| port.name == name).unwrap().options.floods_per_second;
        assert_eq!(["one", "two", "three"].map(floods), [Some(9), Some(3), Some(7)]);
    }

    #[test]
    fn the_packages_own_file_is_understood() {
        let read = parse(include_str!("../../../packaging/switch.toml")).unwrap();
        assert_eq!((read.ports.len(), read.control.is_some()), (2, true));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, said) in [
            ("speed = 9", "speed: there is no such key"),
            ("spin = \"5\"", "spin: write a number with its unit"),
            ("spin = [\"5us\", \"6us\"]", "spin: write a text"),
            ("max-moves = 0", "max-moves: write 1"),
            ("flood-limit = \"one=3\"", "flood-limit: there is no port"),
            ("wire = \"a\"", "wire: write A=B"),
            ("cpus = \"x\"", "cpus: "),
            ("metrics = 3", "metrics: "),
            ("[ports.one]\nkind = \"tap\"", "[ports.one] has no target"),
            (
                "[ports.one]\nkind = \"tap\"\ntarget = \"t\"\nup = 1.5",
                "[ports.one] invalid type: floating point",
            ),
            ("ports = 3", "no table"),
            ("x", "TOML"),
            ("", "neither a port nor"),
        ] {
            let Invalid(error) = parse(text).unwrap_err();
            assert!(error.contains(said), "{text:?}: {error}");
        }
        let no_option = "[ports.one]\nkind = \"tap\"\ntarget = \"t\"\nup = \"a,b=c\"";
        assert_eq!(check(no_option).unwrap_err().0, "[ports.one] option up=a,b=c: write on or off");
    }
}
