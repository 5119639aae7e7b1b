//! Network namespaces, and the devices that connect them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{self, Process};
use crate::requirements::{Requirements, is_root};
use crate::{Error, Output};

/// Limit of a command. Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The user and group number of `nobody` (65534 in every distribution), to which a test that runs as root changes.
const NOBODY: &str = "65534";

/// A network namespace whose loopback device is up. A process holds the namespace; the namespace is removed when that
/// process ends. The namespace has no name in `/run/netns`, however the test ends.
pub struct Netns {
    holder: Process,
    owner: Owner,
    tools: Tools,
}

/// The owner of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// Root in the machine's initial user namespace.
    Root,
    /// An ordinary user that is root in its own user namespace. The test runs as this user.
    User,
    /// The user `nobody`, which is root in its own user namespace. The test runs as root and changes to the user
    /// `nobody` first.
    Nobody,
}

#[derive(Clone)]
struct Tools {
    setpriv: PathBuf,
    unshare: PathBuf,
    nsenter: PathBuf,
    ip: PathBuf,
}

impl Tools {
    fn find(needs: &mut Requirements) -> Self {
        Self {
            setpriv: needs.program("setpriv", "util-linux"),
            unshare: needs.program("unshare", "util-linux"),
            nsenter: needs.program("nsenter", "util-linux"),
            ip: needs.program("ip", "iproute2"),
        }
    }
}

impl Netns {
    /// Makes a namespace as root.
    ///
    /// # Errors
    /// The test is not root, util-linux or iproute2 is missing, or the kernel refuses the namespace.
    pub fn new() -> Result<Self, Error> {
        let mut needs = Requirements::new();
        needs.root();
        let tools = Tools::find(&mut needs);
        needs.met()?;
        let mut command = Command::new(&tools.unshare);
        command.arg("--net");
        Self::hold(command, Owner::Root, tools)
    }

    /// Makes a namespace as an ordinary user, in a user namespace. A test that runs as root becomes the user `nobody`
    /// for this.
    ///
    /// # Errors
    /// util-linux or iproute2 is missing, or the kernel refuses user namespaces to ordinary users
    /// (`user.max_user_namespaces`).
    pub fn unprivileged() -> Result<Self, Error> {
        let mut needs = Requirements::new();
        let tools = Tools::find(&mut needs);
        needs.met()?;
        let owner = if is_root() { Owner::Nobody } else { Owner::User };
        let mut command = owner.command(&tools, &tools.unshare);
        command.args(["--user", "--map-root-user", "--net"]);
        Self::hold(command, owner, tools)
    }

    /// Makes a second namespace with the same owner and in the same user namespace, so that [`Netns::join`] can
    /// connect the two.
    ///
    /// # Errors
    /// The kernel refuses the namespace, for example at a limit of `user.max_net_namespaces`.
    pub fn sibling(&self) -> Result<Self, Error> {
        let tools = self.tools.clone();
        let mut command = self.enter(false);
        command.arg(&tools.unshare).arg("--net");
        Self::hold(command, self.owner, tools)
    }

    fn hold(mut command: Command, owner: Owner, tools: Tools) -> Result<Self, Error> {
        // `cat` ends when its standard input does, which is when this process ends, however it ends.
        command.args(["--", "sh", "-c", "echo held; exec cat"]);
        let holder = Process::start("a network namespace", &mut command)?;
        holder.wait_for("the start", 0, LIMIT, |said| said.contains("held").then_some(())).map_err(
            |error| Error::refused(format!("making a network namespace ({owner:?})"), error.to_string()),
        )?;
        let namespace = Self { holder, owner, tools };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// The process that holds the namespace: `/proc/ID/ns/net` is the namespace.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    fn enter(&self, network: bool) -> Command {
        let mut command = self.owner.command(&self.tools, &self.tools.nsenter);
        command.arg(format!("--target={}", self.holder()));
        if self.owner != Owner::Root {
            command.args(["--user", "--preserve-credentials"]);
        }
        if network {
            command.arg("--net");
        }
        command.arg("--");
        command
    }

    /// A command that runs `program` inside, with the rights of the namespace's owner. The caller adds the program's
    /// arguments.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.enter(true);
        command.arg(program);
        command
    }

    /// A command that runs `program` inside and is killed when the thread that starts it ends. `setpriv` requests
    /// this inside the namespace, because entering an ordinary user's namespace changes the process's rights, which
    /// clears an earlier request (prctl(2)).
    pub(crate) fn tied(&self, program: &Path) -> Command {
        let mut command = self.command(&self.tools.setpriv);
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    }

    /// Runs a shell's command line inside, for at most a minute.
    ///
    /// # Errors
    /// The shell cannot be started, or does not end within 60 s. A command that fails is not an error: see
    /// [`Output::status`].
    pub fn run(&self, line: &str) -> Result<Output, Error> {
        self.run_within(line, LIMIT)
    }

    /// Runs a shell's command line inside; it is killed when the limit has passed.
    ///
    /// # Errors
    /// The shell cannot be started, or does not end in time. A command that fails is not an error: see
    /// [`Output::status`].
    pub fn run_within(&self, line: &str, limit: Duration) -> Result<Output, Error> {
        process::run(self.command("sh").args(["-c", line]), limit)
    }

    /// Starts a shell's command line inside, which is killed when the value is dropped.
    ///
    /// # Errors
    /// The shell cannot be started.
    pub fn start(&self, line: &str) -> Result<Background, Error> {
        Process::start(line, self.command("sh").args(["-c", &format!("exec {line}")])).map(Background)
    }

    /// Runs `ip` with these arguments inside the namespace.
    ///
    /// # Errors
    /// `ip` cannot be started, does not end within 60 s, or ends with an error, which the failure quotes.
    pub fn ip(&self, words: &str) -> Result<(), Error> {
        let output = process::run(self.command(&self.tools.ip).args(words.split_whitespace()), LIMIT)?;
        if output.success() { Ok(()) } else { Err(Error::refused(format!("ip {words}"), output.stderr)) }
    }

    /// Gives an interface an address (`10.0.0.1/24`) and sets it up.
    ///
    /// # Errors
    /// There is no such interface, it has the address already, or `address` is invalid.
    pub fn configure(&self, interface: &str, address: &str) -> Result<(), Error> {
        self.ip(&format!("address add {address} dev {interface}"))?;
        self.ip(&format!("link set {interface} up"))
    }

    /// Makes a TAP interface that exists until the namespace is removed.
    ///
    /// # Errors
    /// The kernel has no TAP devices (`/dev/net/tun`), or the name is taken or invalid.
    pub fn tap(&self, interface: &str, queues: TapQueues) -> Result<(), Error> {
        let queues = if queues == TapQueues::Many { "multi_queue" } else { "" };
        self.ip(&format!("tuntap add {interface} mode tap vnet_hdr {queues}"))
    }

    /// Makes a pair of virtual Ethernet interfaces with these names, one in each namespace. Root must have made both
    /// namespaces, or one must be the other's [`Netns::sibling`].
    ///
    /// # Errors
    /// A name is taken or invalid, or the owner of this namespace has no rights in the other one.
    pub fn join(&self, interface: &str, other: &Netns, others: &str) -> Result<(), Error> {
        self.ip(&format!("link add {interface} type veth peer name {others} netns {}", other.holder()))
    }
}

/// The number of queues that a TAP interface may have. A program that opens the interface must request the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapQueues {
    /// One.
    One,
    /// As many queues as programs open.
    Many,
}

impl Owner {
    fn command(self, tools: &Tools, program: &std::path::Path) -> Command {
        if self != Owner::Nobody {
            return Command::new(program);
        }
        let mut command = Command::new(&tools.setpriv);
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]).arg(program);
        // A folder that this user may not read is no place to be in.
        command.current_dir("/");
        command
    }
}

/// A command in the background. The command is killed when this value is dropped.
pub struct Background(Process);

impl Background {
    /// The output of the command so far, on standard output and standard error.
    pub fn said(&self) -> String {
        self.0.said()
    }

    /// Waits until the command has printed this text on its standard output.
    ///
    /// # Errors
    /// The command ends, or the limit passes, before it has printed the text.
    pub fn wait_for(&self, text: &str, limit: Duration) -> Result<(), Error> {
        self.0.wait_for(text, 0, limit, |said| said.contains(text).then_some(()))
    }

    /// The command's process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether the command still runs.
    pub fn runs(&mut self) -> bool {
        self.0.runs()
    }

    /// Waits until the command has ended by itself or by a signal. Returns its exit status, or 128 and the signal's
    /// number if a signal ended it.
    ///
    /// # Errors
    /// The command still runs after the limit. The command is then killed when this value is dropped.
    pub fn end(&mut self, limit: Duration) -> Result<i32, Error> {
        self.0.end(limit)
    }
}
