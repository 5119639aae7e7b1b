//! What a relay connects.
use std::path::PathBuf;
use std::str::FromStr;

use vhost_device::NamedSocket;

/// The default limit of the memory that a front-end may share, in bytes. The kernel pins shared memory as a whole.
pub const DEFAULT_MEMORY_BYTES: u64 = 64 << 30;

/// The socket of a front-end: `NAME=vhost-user:PATH[,memory=SIZE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name at the beginning of log lines.
    pub name: String,
    /// Path of the socket, at which the relay listens.
    pub path: PathBuf,
    /// Bytes of memory that a front-end may share.
    pub memory_bytes: u64,
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let NamedSocket { name, path, options } = NamedSocket::parse(text)?;
        let mut port = Port { name: name.to_owned(), path, memory_bytes: DEFAULT_MEMORY_BYTES };
        for part in options {
            let size = part.strip_prefix("memory=").ok_or(format!("{part}: write memory=SIZE"))?;
            port.memory_bytes =
                bytes(size).ok_or(format!("{part}: write a size from 1M to 64T, for example 64G"))?;
        }
        Ok(port)
    }
}

/// Bytes of a size in MiB, GiB or TiB.
fn bytes(text: &str) -> Option<u64> {
    let units = [("M", 20), ("G", 30), ("T", 40)];
    let (number, shift) =
        units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))?;
    let number: u64 = number.parse().ok().filter(|number| *number <= (64 << 40) >> shift)?;
    Some(number << shift).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_a_name_a_socket_and_perhaps_a_limit() {
        let read = |text: &str| text.parse::<Port>();
        let port = read("a=vhost-user:/run/a,memory=2G").unwrap();
        assert_eq!((port.name.as_str(), port.path.to_str()), ("a", Some("/run/a")));
        assert_eq!(port.memory_bytes, 2 << 30);
        assert_eq!(read("a=vhost-user:/run/a").unwrap().memory_bytes, DEFAULT_MEMORY_BYTES);
        assert_eq!(read("a=vhost-user:/run/a,memory=64T").unwrap().memory_bytes, 64 << 40);
        for wrong in
            ["vhost-user:/a", "=vhost-user:/a", "a=vhost-user:", "a=tap:b", "a=vhost-user:/a,sessions=1"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for size in ["0M", "65T", "1", "M", "-1G", "99999999999999999999G"] {
            assert!(read(&format!("a=vhost-user:/a,memory={size}")).is_err(), "{size}");
        }
    }
}
