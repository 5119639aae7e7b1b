//! Network namespaces, and what joins them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{self, Process};
use crate::requirements::{Requirements, is_root};
use crate::{Error, Output};

/// Long enough for a busy machine; only a failing command waits for it.
const LIMIT: Duration = Duration::from_secs(60);
/// Who an ordinary user is where the test is root: nobody, as every distribution has it.
const NOBODY: &str = "65534";

/// A network namespace, its loopback up. A process holds it, and it goes with that process: no name stays
/// behind in `/run/netns`, whatever becomes of the test.
pub struct Netns {
    holder: Process,
    owner: Owner,
    tools: Tools,
}

/// Whose namespace it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// Root's, of the machine's own user namespace.
    Root,
    /// An ordinary user's, who is root in a user namespace of his own. The test is that user.
    User,
    /// The same, for a test that is root and steps down first.
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
    /// A namespace as root makes it.
    pub fn new() -> Result<Self, Error> {
        let mut needs = Requirements::new();
        needs.root();
        let tools = Tools::find(&mut needs);
        needs.met()?;
        let mut command = Command::new(&tools.unshare);
        command.arg("--net");
        Self::hold(command, Owner::Root, tools)
    }

    /// A namespace as an ordinary user makes it, in a user namespace. A test that runs as root becomes
    /// `nobody` for it.
    pub fn unprivileged() -> Result<Self, Error> {
        let mut needs = Requirements::new();
        let tools = Tools::find(&mut needs);
        needs.met()?;
        let owner = if is_root() { Owner::Nobody } else { Owner::User };
        let mut command = owner.command(&tools, &tools.unshare);
        command.args(["--user", "--map-root-user", "--net"]);
        Self::hold(command, owner, tools)
    }

    /// A second namespace of the same owner and in the same user namespace, so that [`Netns::join`] may
    /// connect the two.
    pub fn sibling(&self) -> Result<Self, Error> {
        let tools = self.tools.clone();
        let mut command = self.enter(false);
        command.arg(&tools.unshare).arg("--net");
        Self::hold(command, self.owner, tools)
    }

    fn hold(mut command: Command, owner: Owner, tools: Tools) -> Result<Self, Error> {
        // `cat` ends when its standard input does, which is when this process ends, however it ends.
        command.args(["--", "sh", "-c", "echo held; exec cat"]);
        let holder = Process::start_with_input("a network namespace", &mut command)?;
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

    /// A command that will run inside, as the namespace's owner, whose rights it has there. Without its
    /// own program and arguments yet.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.enter(true);
        command.arg(program);
        command
    }

    /// The same, for a process that dies with the thread that starts it: an ordinary user's namespace is entered
    /// with other rights, which clears the request that was made for it.
    pub(crate) fn tied(&self, program: &Path) -> Command {
        let mut command = self.command(&self.tools.setpriv);
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    }

    /// Runs a shell's command line inside, for at most a minute.
    pub fn run(&self, line: &str) -> Result<Output, Error> {
        self.run_within(line, LIMIT)
    }

    /// Runs a shell's command line inside; it is killed when the limit has passed.
    pub fn run_within(&self, line: &str, limit: Duration) -> Result<Output, Error> {
        process::run(self.command("sh").args(["-c", line]), limit)
    }

    /// Starts a shell's command line inside, which is killed when the value is dropped.
    pub fn start(&self, line: &str) -> Result<Background, Error> {
        Process::start_with_input(line, self.command("sh").args(["-c", &format!("exec {line}")]))
            .map(Background)
    }

    /// Runs `ip` with these words inside.
    pub fn ip(&self, words: &str) -> Result<(), Error> {
        let output = process::run(self.command(&self.tools.ip).args(words.split_whitespace()), LIMIT)?;
        if output.success() { Ok(()) } else { Err(Error::refused(format!("ip {words}"), output.stderr)) }
    }

    /// Gives an interface an address (`10.0.0.1/24`) and takes it up.
    pub fn configure(&self, interface: &str, address: &str) -> Result<(), Error> {
        self.ip(&format!("address add {address} dev {interface}"))?;
        self.ip(&format!("link set {interface} up"))
    }

    /// Makes a TAP interface that lasts until the namespace goes.
    pub fn tap(&self, interface: &str, queues: TapQueues) -> Result<(), Error> {
        let queues = if queues == TapQueues::Many { "multi_queue" } else { "" };
        self.ip(&format!("tuntap add {interface} mode tap vnet_hdr {queues}"))
    }

    /// A pair of virtual Ethernet interfaces of these names, one in each namespace. Both must be root's, or
    /// one the other's [`Netns::sibling`].
    pub fn join(&self, interface: &str, other: &Netns, others: &str) -> Result<(), Error> {
        self.ip(&format!("link add {interface} type veth peer name {others} netns {}", other.holder()))
    }
}

/// How many queues a TAP interface may have; its user says the same when opening it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapQueues {
    /// One.
    One,
    /// As many as are opened.
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

/// A command that goes on while the test does something else. Killed when dropped.
pub struct Background(Process);

impl Background {
    /// What it has said so far, on both its outputs.
    pub fn said(&self) -> String {
        self.0.said()
    }

    /// Waits until it has said this.
    pub fn wait_for(&self, text: &str, limit: Duration) -> Result<(), Error> {
        self.0.wait_for(text, 0, limit, |said| said.contains(text).then_some(()))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether it runs still.
    pub fn runs(&mut self) -> bool {
        self.0.runs()
    }

    /// Waits until it has ended by itself or by a signal; its exit status, which is 128 and the signal's
    /// number where a signal ended it. Killed, and an error, when the limit has passed.
    pub fn end(&mut self, limit: Duration) -> Result<i32, Error> {
        self.0.end(limit)
    }
}
