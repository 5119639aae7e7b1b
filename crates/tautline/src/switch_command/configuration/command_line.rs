//! The configuration file as a command line.

use toml::{Table, Value};

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

/// The words of the command line that means the same.
pub fn words(table: &Table) -> Result<Vec<String>, String> {
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
        for word in of_value(key, value)? {
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
        let words = of_value(key, value).map_err(|why| format!("[ports.{name}] {why}"))?;
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
fn of_value(key: &str, value: &Value) -> Result<Vec<String>, String> {
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
