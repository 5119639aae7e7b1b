//! Another machine: the agent behind a connection that both ends authenticate.
//!
//! At the near end, a child process of the run relays lines between its pipes and a TLS connection ([`near`]). At the
//! far end, `tautline agent --listen` starts one agent for each run that proved its key, and relays too ([`far`]).

#[cfg(feature = "remote")]
pub mod far;
#[cfg(feature = "remote")]
pub mod keys;
#[cfg(feature = "remote")]
pub mod near;
#[cfg(feature = "remote")]
mod relay;
#[cfg(feature = "remote")]
mod tls;

use std::path::PathBuf;

use measure::{EnvironmentKind, Failure};

use crate::{Environment, Running, Start};

/// The port at which an agent listens if no port is named.
pub const PORT: u16 = 17411;

/// Another machine, on which `tautline agent --listen` runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// `HOST` or `HOST:PORT`; an IPv6 address is in brackets.
    pub address: String,
    /// The near end's key file [default: the file in `keys::default_folder`].
    pub key: Option<PathBuf>,
}

impl Remote {
    /// `HOST:PORT`, also if the user left out the port.
    fn with_port(&self) -> String {
        let after_host = self.address.rsplit(']').next().unwrap_or_default();
        if after_host.contains(':') { self.address.clone() } else { format!("{}:{PORT}", self.address) }
    }
}

impl Environment for Remote {
    fn kind(&self) -> EnvironmentKind {
        EnvironmentKind::Remote
    }

    fn accelerator(&self) -> &str {
        "native, another machine"
    }

    /// Unknown here: the other machine's kind is not visible.
    fn is_emulated(&self) -> bool {
        false
    }

    fn facts(&self) -> Vec<(String, String)> {
        vec![("address".into(), self.with_port())]
    }

    #[cfg(not(feature = "remote"))]
    fn start(&self, _: &Start<'_>) -> Result<Running, Failure> {
        let tried = format!("connecting to the agent at {}", self.with_port());
        Err(Failure::new(tried, "this program was built without it", "use the program of `make release`"))
    }

    #[cfg(feature = "remote")]
    fn start(&self, start: &Start<'_>) -> Result<Running, Failure> {
        let key = match &self.key {
            Some(key) => key.clone(),
            None => keys::default_folder()?.join(keys::NEAR_FILE),
        };
        let address = self.with_port();
        let mut command = std::process::Command::new(&start.agent.binary);
        command.args(&start.agent.arguments).arg(near::ARGUMENT).arg(&address).arg(key);
        let running = crate::host::spawn_with_pipes(
            command,
            &format!("the connection to the agent at {address}"),
            "check that the file exists and may be executed",
        )?;
        Ok(running.elsewhere())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_added_where_none_is_named() {
        for (text, whole) in
            [("far", "far:17411"), ("far:80", "far:80"), ("[::1]", "[::1]:17411"), ("[::1]:80", "[::1]:80")]
        {
            assert_eq!(Remote { address: text.into(), key: None }.with_port(), whole);
        }
    }
}
