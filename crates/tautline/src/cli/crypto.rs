//! What the user may write after `crypto`.

use clap::Args;
use crypto_device::{Limits, Port};

use super::EXIT_CODES;

/// Arguments of `crypto`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Crypto {
    /// A device: its name, the socket where it listens, and how many sessions a front-end may have there
    /// [default: 1024]. May be repeated.
    #[arg(long, required = true, value_name = "NAME=vhost-user:PATH[,sessions=N]", value_parser = port)]
    pub port: Vec<Port>,
}

fn port(text: &str) -> Result<Port, String> {
    let (name, target) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("it has no name")?;
    let mut parts = target.split(',');
    let path = parts.next().and_then(|target| target.strip_prefix("vhost-user:"));
    let path = path.filter(|path| !path.is_empty()).ok_or("it names no vhost-user:PATH")?;
    let mut limits = Limits::default();
    for part in parts {
        let sessions = part.strip_prefix("sessions=").ok_or(format!("{part}: write sessions=N"))?;
        limits.sessions = sessions
            .parse()
            .ok()
            .filter(|sessions| (1..=65536).contains(sessions))
            .ok_or(format!("{part}: a number from 1 to 65536 is needed"))?;
    }
    Ok(Port { name: name.to_owned(), path: path.into(), limits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_a_name_a_socket_and_perhaps_a_limit() {
        let read = port("a=vhost-user:/run/a,sessions=7").unwrap();
        assert_eq!((read.name.as_str(), read.path.to_str(), read.limits.sessions), ("a", Some("/run/a"), 7));
        assert_eq!(port("a=vhost-user:/run/a").unwrap().limits, Limits::default());
        for wrong in [
            "vhost-user:/run/a",
            "=vhost-user:/run/a",
            "a=vhost-user:",
            "a=tap:b",
            "a=vhost-user:/run/a,sessions=0",
            "a=vhost-user:/run/a,sessions=65537",
            "a=vhost-user:/run/a,packed=off",
        ] {
            assert!(port(wrong).is_err(), "{wrong}");
        }
    }
}
