use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use linux::Child;
use measure::Failure;

use crate::command::find_command;
use crate::spawn;

/// A network namespace whose loopback device is up. A process holds the namespace: when that process ends, the kernel
/// removes the namespace and its devices. The namespace has no name in `/run/netns`.
///
/// For an ordinary user the namespace is in a user namespace, where that user is root.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
    is_rootless: bool,
}

impl Namespace {
    /// Makes a namespace that holds only its loopback device.
    ///
    /// # Errors
    /// The system has no namespaces for this user, or `unshare`, `nsenter` (util-linux) or `ip` (iproute2) is missing.
    pub fn new() -> Result<Self, Failure> {
        let is_rootless = !rustix::process::geteuid().is_root();
        let mut command = Command::new(program("unshare", "util-linux")?);
        if is_rootless {
            command.args(["--user", "--map-root-user"]);
        }
        command.arg("--net");
        Self::hold(command, is_rootless)
    }

    /// Makes a second network namespace in the same user namespace, so that devices can connect the two.
    ///
    /// # Errors
    /// The causes of [`Namespace::new`].
    pub fn sibling(&self) -> Result<Self, Failure> {
        let mut command = self.enter(false)?;
        command.arg(program("unshare", "util-linux")?).arg("--net");
        Self::hold(command, self.is_rootless)
    }

    fn hold(mut command: Command, is_rootless: bool) -> Result<Self, Failure> {
        // `cat` ends when its standard input does, which is when this process ends, however it ends.
        command.args(["--", "sh", "-c", "echo held; exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |answer: String| {
            let remedy = "allow user namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces), or run as root";
            Failure::new("making a network namespace", answer, remedy)
        };
        let mut holder = spawn::spawn(&mut command).map_err(|error| failed(error.to_string()))?;
        let mut line = String::new();
        let said = holder.take_stdout().expect("piped above");
        let _ = BufReader::new(said).read_line(&mut line);
        if line.trim() != "held" {
            let mut reason = String::new();
            let error = holder.take_stderr().expect("piped above");
            let _ = BufReader::new(error).read_line(&mut reason);
            return Err(failed(reason.trim().to_owned()));
        }
        let namespace = Namespace { holder, is_rootless };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// The path of the file by which the kernel shows the namespace.
    pub fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.id()).into()
    }

    /// The process that holds the namespace.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    fn enter(&self, network: bool) -> Result<Command, Failure> {
        let mut command = Command::new(program("nsenter", "util-linux")?);
        command.arg(format!("--target={}", self.holder.id()));
        if self.is_rootless {
            command.args(["--user", "--preserve-credentials"]);
        }
        if network {
            command.arg("--net");
        }
        command.arg("--");
        Ok(command)
    }

    /// The `nsenter` command that enters the namespace. The caller adds the program that is to run inside.
    ///
    /// # Errors
    /// `nsenter` (util-linux) is not installed.
    pub fn entering(&self) -> Result<Command, Failure> {
        self.enter(true)
    }

    /// Makes a TAP device in the namespace and sets it up.
    ///
    /// # Errors
    /// `ip` is not installed, the kernel has no TAP devices (`/dev/net/tun`), or the name is taken or invalid.
    pub fn tap(&self, name: &str) -> Result<(), Failure> {
        self.ip(&format!("tuntap add dev {name} mode tap"))?;
        self.ip(&format!("link set {name} up"))
    }

    /// A command that runs a program inside the namespace. The caller adds the program's arguments.
    ///
    /// # Errors
    /// `nsenter` (util-linux) is not installed.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, Failure> {
        let mut command = self.enter(true)?;
        command.arg(program);
        Ok(command)
    }

    /// Runs `ip` with these arguments inside the namespace, and waits for its end.
    ///
    /// # Errors
    /// `nsenter` or `ip` (iproute2) is not installed, or `ip` ends with an error; the failure quotes its first line.
    pub fn ip(&self, words: &str) -> Result<(), Failure> {
        self.run("ip", "iproute2", words)
    }

    /// Runs `nft` with these arguments inside the namespace, and waits for its end.
    ///
    /// # Errors
    /// `nsenter` or `nft` (nftables) is not installed, or `nft` ends with an error; the failure quotes its first
    /// line.
    pub fn nft(&self, words: &str) -> Result<(), Failure> {
        self.run("nft", "nftables", words)
    }

    fn run(&self, name: &str, package: &str, words: &str) -> Result<(), Failure> {
        run(self.command(program(name, package)?)?, name, words)
    }
}

/// Runs `ip` with these arguments in this process's own network namespace.
pub(super) fn host_ip(words: &str) -> Result<(), Failure> {
    run(Command::new(program("ip", "iproute2")?), "ip", words)
}

fn run(mut command: Command, name: &str, words: &str) -> Result<(), Failure> {
    command.args(words.split_whitespace()).stdin(Stdio::null());
    let tried = format!("{name} {words}");
    let remedy = "see whether this kernel has such devices, and whether this user may make them";
    let output = command.output().map_err(|error| Failure::new(&tried, error, remedy))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(tried, said.lines().next().unwrap_or("no reason given"), remedy))
}

/// Finds a program.
///
/// # Errors
/// The program is not installed.
pub(super) fn program(name: &str, package: &str) -> Result<PathBuf, Failure> {
    find_command(name).ok_or_else(|| {
        Failure::new(
            format!("looking for {name}"),
            "it is not installed",
            format!("install the package {package}"),
        )
    })
}
