//! A container: an OCI runtime (crun or runc), or LXC.

mod lxc;
mod oci;
mod oci_config;
mod settings;

use std::path::PathBuf;
use std::process::Command;

use measure::{EnvironmentKind, Failure};

use crate::command::find_command;
use crate::{Environment, Running, Start};

pub use settings::{Runtime, Settings};

/// A container with namespaces and a cgroup of its own.
#[derive(Clone, Debug)]
pub struct Container {
    settings: Settings,
    runtime: Runtime,
    path: PathBuf,
    version: String,
}

const INSTALL: &str = "install crun or runc (`make setup` does)";

impl Container {
    /// Chooses the first runtime that starts a container whose agent sends its greeting.
    ///
    /// # Errors
    /// No installed runtime starts a container whose agent sends its greeting within the start's limit. The failure
    /// quotes each runtime's answer.
    pub fn prove(settings: Settings, start: &Start<'_>) -> Result<Self, Failure> {
        let candidates = match settings.runtime {
            Some(runtime) => vec![runtime],
            None => vec![Runtime::Crun, Runtime::Runc, Runtime::Lxc],
        };
        let mut answers = Vec::new();
        let mut remedy = INSTALL;
        for runtime in candidates {
            let Some(path) = find_command(runtime.command()) else {
                answers.push(format!("{}: not installed", runtime.command()));
                continue;
            };
            let container = Container::made_by(runtime, path, settings.clone());
            match container.start(start).and_then(|mut running| {
                running
                    .channel()
                    .receive(start.limit)
                    .map_err(|e| running.explain("a first start", &e, INSTALL))
            }) {
                Ok(_) => return Ok(container),
                Err(failure) => {
                    answers.push(format!("{}: {}", runtime.command(), failure.answer));
                    remedy =
                        "see what the runtime said; another is named with container:runtime=crun|runc|lxc";
                }
            }
        }
        Err(Failure::new("starting a container with the agent in it", answers.join("; "), remedy))
    }
}

impl Container {
    fn made_by(runtime: Runtime, path: PathBuf, settings: Settings) -> Self {
        Container { settings, runtime, version: version(&path), path }
    }

    /// The container without a proof, if its runtime is named: the first start shows whether it works. Otherwise as
    /// [`Container::prove`].
    ///
    /// # Errors
    /// The causes of [`Container::prove`], or the named runtime is not installed.
    pub fn trusted(settings: Settings, start: &Start<'_>) -> Result<Self, Failure> {
        let Some(runtime) = settings.runtime else { return Self::prove(settings, start) };
        let command = runtime.command();
        let path = find_command(command)
            .ok_or_else(|| Failure::new(format!("looking for {command}"), "not installed", INSTALL))?;
        Ok(Self::made_by(runtime, path, settings))
    }

    /// The settings with the runtime that was chosen.
    pub fn settled(&self) -> Settings {
        Settings { runtime: Some(self.runtime), ..self.settings.clone() }
    }

    /// Returns this container with an existing network namespace to start in.
    ///
    /// # Errors
    /// LXC was chosen; its containers have no network here.
    pub fn joining(&self, network_namespace: PathBuf) -> Result<Self, Failure> {
        if self.runtime == Runtime::Lxc {
            return Err(Failure::new(
                "starting a container in a network namespace by LXC",
                "only OCI runtimes are asked for that",
                INSTALL,
            ));
        }
        let settings = Settings { network_namespace: Some(network_namespace), ..self.settings.clone() };
        Ok(Container { settings, ..self.clone() })
    }
}

impl Environment for Container {
    fn kind(&self) -> EnvironmentKind {
        EnvironmentKind::Container
    }

    fn accelerator(&self) -> &str {
        "native"
    }

    fn facts(&self) -> Vec<(String, String)> {
        vec![("runtime".into(), self.version.clone())]
    }

    fn start(&self, start: &Start<'_>) -> Result<Running, Failure> {
        match self.runtime {
            Runtime::Crun | Runtime::Runc => oci::start(&self.path, &self.settings, start),
            Runtime::Lxc => lxc::start(&self.path, &self.settings, start),
        }
    }
}

fn version(path: &std::path::Path) -> String {
    let output = Command::new(path).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default().trim();
    match path.file_name().map(|name| name.to_string_lossy()) {
        Some(name) if !line.contains(&*name) => format!("{name} {line}"),
        _ => line.to_owned(),
    }
}
