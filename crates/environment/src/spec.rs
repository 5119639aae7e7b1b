//! Environments as the user writes them on the command line: `host`, `container:cpus=0.5`,
//! `vm:accel=tcg,memory=2048`.

use std::path::PathBuf;
use std::str::FromStr;

use ::vm::Profile;
use measure::{EnvironmentKind, Failure};

use crate::container::{self, Container, Runtime};
use crate::host::Host;
use crate::partition::Partitioned;
use crate::remote::Remote;
use crate::vm::{self, Accelerator, Machine, Vm};
use crate::{Environment, Running, Start};

/// One environment that the user asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// `host`
    Host,
    /// `container`
    Container(container::Settings),
    /// `partition`, with its CPUs in ascending order
    Partition(Vec<usize>),
    /// `vm`
    Vm(vm::Settings),
    /// `remote`
    Remote(Remote),
}

/// The error for a text that names no environment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "environment {text:?}: {reason}; write host, container[:runtime=crun|runc|lxc,cpus=N], partition:CPUS, vm[:accel=kvm|tcg,machine=q35|microvm,memory=MIB,kernel=PATH,profile=plain|throughput|latency|realtime-guest,partition=CPUS], or remote:HOST[:PORT][,key=FILE]"
)]
pub struct SpecError {
    text: String,
    reason: String,
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let error = |reason: String| SpecError { text: text.to_owned(), reason };
        let (kind, options) = text.split_once(':').unwrap_or((text, ""));
        if kind == "remote" {
            return remote(options).map(Spec::Remote).map_err(error);
        }
        if kind == "partition" {
            return partition(options).map(Spec::Partition).map_err(error);
        }
        let options = joined(options, continues_a_list);
        let options = options.iter().map(String::as_str).filter(|option| !option.is_empty()).map(|option| {
            option.split_once('=').ok_or_else(|| error(format!("{option:?} is not of the form key=value")))
        });
        let unknown = |key: &str, value: &str| error(format!("{key}={value} is not an option of it"));
        match kind {
            "host" => match options.into_iter().next() {
                None => Ok(Spec::Host),
                Some(option) => option.and_then(|(key, value)| Err(unknown(key, value))),
            },
            "container" => {
                let mut settings = container::Settings::default();
                for option in options {
                    match option? {
                        ("runtime", "crun") => settings.runtime = Some(Runtime::Crun),
                        ("runtime", "runc") => settings.runtime = Some(Runtime::Runc),
                        ("runtime", "lxc") => settings.runtime = Some(Runtime::Lxc),
                        ("cpus", value) => match value.parse::<f64>() {
                            Ok(cpus) if (0.01..=4096.0).contains(&cpus) => settings.cpu_quota = Some(cpus),
                            _ => {
                                return Err(error(format!("cpus={value} is not a number from 0.01 to 4096")));
                            }
                        },
                        (key, value) => return Err(unknown(key, value)),
                    }
                }
                Ok(Spec::Container(settings))
            }
            "vm" => {
                let mut settings = vm::Settings::default();
                for option in options {
                    match option? {
                        ("accel", "kvm") => settings.accelerator = Some(Accelerator::Kvm),
                        ("accel", "tcg") => settings.accelerator = Some(Accelerator::Tcg),
                        ("machine", "q35") => settings.machine = Machine::Q35,
                        ("machine", "microvm") => settings.machine = Machine::Microvm,
                        ("memory", value) => match value.parse::<u64>() {
                            Ok(mib) if (128..=1 << 24).contains(&mib) => settings.memory_mib = mib,
                            _ => {
                                return Err(error(format!("memory={value} is not a number of MiB from 128")));
                            }
                        },
                        ("kernel", path) => settings.kernel = Some(PathBuf::from(path)),
                        ("profile", name) => match Profile::named(name) {
                            Some(profile) => settings.profile = Some(profile),
                            None => return Err(unknown("profile", name)),
                        },
                        ("partition", list) => settings.partition = partition(list).map_err(error)?,
                        (key, value) => return Err(unknown(key, value)),
                    }
                }
                Ok(Spec::Vm(settings))
            }
            _ => Err(error("no such kind".into())),
        }
    }
}

/// The CPUs of a partition, in ascending order.
fn partition(list: &str) -> Result<Vec<usize>, String> {
    let mut cpus = linux::cpus::parse(list).map_err(|error| error.to_string())?;
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() {
        return Err("it names no CPU to take from everything else; write for example partition:2-3".into());
    }
    Ok(cpus)
}

/// `HOST[:PORT][,key=FILE]`
fn remote(text: &str) -> Result<Remote, String> {
    let (address, options) = text.split_once(',').unwrap_or((text, ""));
    if address.is_empty() {
        return Err("it names no host".into());
    }
    let key = match options.split_once('=') {
        None if options.is_empty() => None,
        Some(("key", path)) if !path.is_empty() => Some(PathBuf::from(path)),
        _ => return Err(format!("{options:?} is not an option of it")),
    };
    Ok(Remote { address: address.to_owned(), key })
}

impl Spec {
    /// The kind of the environment.
    pub fn kind(&self) -> EnvironmentKind {
        match self {
            Spec::Host => EnvironmentKind::Host,
            Spec::Container(_) => EnvironmentKind::Container,
            Spec::Partition(_) => EnvironmentKind::Partition,
            Spec::Vm(_) => EnvironmentKind::Vm,
            Spec::Remote(_) => EnvironmentKind::Remote,
        }
    }

    /// The CPUs of the host that the environment takes from everything else.
    pub fn partition(&self) -> Option<&[usize]> {
        match self {
            Spec::Partition(cpus) => Some(cpus),
            Spec::Vm(settings) if !settings.partition.is_empty() => Some(&settings.partition),
            Spec::Host | Spec::Container(_) | Spec::Vm(_) | Spec::Remote(_) => None,
        }
    }

    /// Finds out whether this machine can start the environment, and by which means. A container or a virtual machine
    /// is started once as a proof, CPUs are taken; a host or a remote machine is accepted without a proof.
    ///
    /// # Errors
    /// The causes of [`Container::prove`], [`Partitioned::prove`] or [`Vm::prove`].
    pub fn prove(&self, start: &Start<'_>) -> Result<Proven, Failure> {
        Ok(match self {
            Spec::Host => Proven::Host(Host),
            Spec::Container(settings) => Proven::Container(Container::prove(settings.clone(), start)?),
            Spec::Partition(cpus) => Proven::Partition(Partitioned::prove(cpus, start)?),
            Spec::Vm(settings) => Proven::Vm(Vm::prove(settings.clone(), start)?.into()),
            Spec::Remote(remote) => Proven::Remote(remote.clone()),
        })
    }

    /// The environment without a proof, if the spec names a container's runtime or a virtual machine's accelerator: its
    /// first start shows whether that works. Otherwise as [`Spec::prove`].
    ///
    /// # Errors
    /// The causes of [`Spec::prove`], or a named program is not installed.
    pub fn trusted(&self, start: &Start<'_>) -> Result<Proven, Failure> {
        Ok(match self {
            Spec::Container(settings) => Proven::Container(Container::trusted(settings.clone(), start)?),
            Spec::Vm(settings) => Proven::Vm(Vm::trusted(settings.clone(), start)?.into()),
            Spec::Host | Spec::Partition(_) | Spec::Remote(_) => self.prove(start)?,
        })
    }
}

/// An environment whose means are known.
#[derive(Clone, Debug)]
pub enum Proven {
    /// The host.
    Host(Host),
    /// A container and its runtime.
    Container(Container),
    /// CPUs that are taken from everything else.
    Partition(Partitioned),
    /// A virtual machine and its accelerator.
    Vm(Box<Vm>),
    /// Another machine.
    Remote(Remote),
}

impl Proven {
    /// The spec of this environment. It names the runtime or the accelerator, so that [`Spec::trusted`] proves nothing
    /// again.
    pub fn spec(&self) -> Spec {
        match self {
            Proven::Host(_) => Spec::Host,
            Proven::Container(container) => Spec::Container(container.settled()),
            Proven::Partition(partition) => Spec::Partition(partition.cpus().to_vec()),
            Proven::Vm(vm) => Spec::Vm(vm.settled()),
            Proven::Remote(remote) => Spec::Remote(remote.clone()),
        }
    }

    fn environment(&self) -> &dyn Environment {
        match self {
            Proven::Host(host) => host,
            Proven::Container(container) => container,
            Proven::Partition(partition) => partition,
            Proven::Vm(vm) => vm.as_ref(),
            Proven::Remote(remote) => remote,
        }
    }
}

impl Environment for Proven {
    fn kind(&self) -> EnvironmentKind {
        self.environment().kind()
    }

    fn accelerator(&self) -> &str {
        self.environment().accelerator()
    }

    fn is_emulated(&self) -> bool {
        self.environment().is_emulated()
    }

    fn facts(&self) -> Vec<(String, String)> {
        self.environment().facts()
    }

    fn start(&self, start: &Start<'_>) -> Result<Running, Failure> {
        self.environment().start(start)
    }
}

/// Splits a list at the commas that begin a new environment, and not at the commas between options or CPUs: after a
/// comma, `key=value` or a number continues the environment before it.
pub fn split_list(text: &str) -> Vec<String> {
    joined(text, |part| part.split(':').next().unwrap_or_default().contains('=') || continues_a_list(part))
}

/// Whether a part between commas is a CPU or a range of CPUs. No environment and no option begins with a digit.
fn continues_a_list(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_digit())
}

/// The parts of a text between its commas. A part that `continues` is joined to the part before it.
fn joined(text: &str, continues: impl Fn(&str) -> bool) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(',') {
        match parts.last_mut() {
            Some(last) if continues(part) => {
                last.push(',');
                last.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_and_their_options() {
        assert_eq!("host".parse(), Ok(Spec::Host));
        let Ok(Spec::Container(settings)) = "container:runtime=runc,cpus=0.5".parse() else { panic!() };
        assert_eq!((settings.runtime, settings.cpu_quota), (Some(Runtime::Runc), Some(0.5)));
        let Ok(Spec::Vm(settings)) = "vm:accel=tcg,machine=microvm,memory=512".parse() else { panic!() };
        assert_eq!((settings.accelerator, settings.memory_mib), (Some(Accelerator::Tcg), 512));
        let Ok(Spec::Vm(settings)) = "vm:profile=realtime-guest".parse() else { panic!() };
        assert_eq!(settings.profile, Some(Profile::RealtimeGuest));
        let remote = |address: &str, key: Option<&str>| {
            Ok(Spec::Remote(Remote { address: address.into(), key: key.map(PathBuf::from) }))
        };
        assert_eq!("remote:far".parse(), remote("far", None));
        assert_eq!("remote:[::1]:80,key=a.pem".parse(), remote("[::1]:80", Some("a.pem")));
        assert_eq!("partition:3,1-2".parse(), Ok(Spec::Partition(vec![1, 2, 3])));
        let Ok(spec @ Spec::Vm(_)) = "vm:partition=2,3,memory=512".parse::<Spec>() else { panic!() };
        assert_eq!(spec.partition(), Some(&[2, 3][..]));
        for bad in ["partition", "partition:", "partition:x", "partition:cpus=1", "vm:partition="] {
            assert!(bad.parse::<Spec>().is_err(), "{bad}");
        }
        for bad in ["remote", "remote:", "remote:far,key=", "remote:far,cpus=1"] {
            assert!(bad.parse::<Spec>().is_err(), "{bad}");
        }
        for bad in [
            "",
            "vmm",
            "host:x=1",
            "container:cpus=0",
            "container:cpus=nan",
            "vm:memory=1",
            "vm:accel",
            "vm:profile=quick",
        ] {
            let error = bad.parse::<Spec>().unwrap_err().to_string();
            assert!(error.contains("write host, container"), "{error}");
        }
    }

    #[test]
    fn a_list_splits_between_environments_only() {
        assert_eq!(
            split_list("host,container:cpus=0.5,runtime=runc,vm,remote:far,key=a.pem,host"),
            ["host", "container:cpus=0.5,runtime=runc", "vm", "remote:far,key=a.pem", "host"]
        );
        assert_eq!(
            split_list("partition:2,4-5,host,vm:partition=1,3,memory=512,vm"),
            ["partition:2,4-5", "host", "vm:partition=1,3,memory=512", "vm"]
        );
    }
}
