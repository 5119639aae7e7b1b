use std::time::Duration;

use ::vm::Qmp;
use linux::output_file::last_lines;
use linux::{Child, OutputFile};
use measure::Failure;
use measure::quota::CpuCgroup;

use crate::channel::{Channel, ChannelError};
use crate::janitor::cgroups_named;

/// How long an agent may take to end by itself after its channel was closed.
const GRACE: Duration = Duration::from_secs(2);

/// Removes the parts that a start has made, after the process has ended.
pub type CleanUp = Box<dyn FnOnce() + Send>;

/// An agent that runs. Dropping the value ends the agent and removes what was made for it.
pub struct Running {
    channel: Option<Channel>,
    child: Child,
    /// The output of the process, or of the guest's kernel.
    output: OutputFile,
    /// Whether closing the channel makes the process end (an agent does, a VM does not).
    ends_with_channel: bool,
    clean_up: Option<CleanUp>,
    /// The name of the thing that was started, for error texts.
    what: String,
    /// The name of the cgroup that was made for the agent.
    cgroup: Option<String>,
    /// Whether the agent runs on another machine.
    is_elsewhere: bool,
    /// The connection to QEMU's monitor, if the agent runs in a guest.
    monitor: Option<Qmp>,
}

impl Running {
    pub(crate) fn new(what: String, channel: Channel, child: Child, output: OutputFile) -> Self {
        Running {
            channel: Some(channel),
            child,
            output,
            ends_with_channel: true,
            clean_up: None,
            what,
            cgroup: None,
            is_elsewhere: false,
            monitor: None,
        }
    }

    pub(crate) fn with_monitor(mut self, monitor: Qmp) -> Self {
        self.monitor = Some(monitor);
        self
    }

    pub(crate) fn killed_at_end(mut self) -> Self {
        self.ends_with_channel = false;
        self
    }

    #[cfg(feature = "remote")]
    pub(crate) fn elsewhere(mut self) -> Self {
        self.is_elsewhere = true;
        self
    }

    pub(crate) fn in_cgroup(mut self, name: String) -> Self {
        self.cgroup = Some(name);
        self
    }

    pub(crate) fn with_clean_up(mut self, clean_up: CleanUp) -> Self {
        self.clean_up = Some(clean_up);
        self
    }

    /// The channel to the agent.
    pub fn channel(&mut self) -> &mut Channel {
        self.channel.as_mut().expect("taken only by drop")
    }

    /// The id of the process that was started: the agent itself, the container's runtime or QEMU.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// The number of exits of a guest's vCPUs since its start; `None` if there is no guest, or if exits are not
    /// counted.
    pub fn exits(&mut self) -> Option<u64> {
        self.monitor.as_mut()?.exits().ok()?
    }

    /// The cgroup that counts the agent's CPU time: the cgroup that was made for the agent, or this process's own
    /// cgroup; `None` if the agent runs on another machine. To be called after the agent's greeting.
    pub fn cpu_cgroup(&self) -> CpuCgroup {
        if self.is_elsewhere {
            return CpuCgroup::default();
        }
        let made = self.cgroup.as_ref().and_then(|name| CpuCgroup::at(&cgroups_named(name)));
        made.unwrap_or_else(CpuCgroup::own)
    }

    /// Turns a channel's error into one that quotes the last output of the process or the guest.
    pub fn explain(&mut self, doing: &str, error: &ChannelError, remedy: &str) -> Failure {
        if matches!(error, ChannelError::Closed) {
            // The process may need a moment between closing its end and ending.
            let _ = self.child.wait_within(Duration::from_millis(500));
        }
        let ended = match self.child.try_wait() {
            Ok(Some(status)) => format!("{error}; {} ended with {status}", self.what),
            Ok(None) => format!("{error}; {} still runs", self.what),
            Err(e) => format!("{error}; waiting for {}: {e}", self.what),
        };
        let output = self.last_output();
        let answer = if output.is_empty() { ended } else { format!("{ended}; its last output: {output}") };
        Failure::new(doing, answer, remedy)
    }

    /// The last lines that the process, or the guest's console, printed.
    pub fn last_output(&self) -> String {
        const TAIL_BYTES: u64 = 16 << 10;
        let text = self.output.tail(TAIL_BYTES).unwrap_or_default();
        // The call trace follows a kernel's panic; the cause stands before it.
        let panic = text.find("Kernel panic").map(|at| at + text[at..].find('\n').unwrap_or(text.len() - at));
        last_lines(&text[..panic.unwrap_or(text.len())], 3).join(" | ")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.channel.take());
        if self.ends_with_channel {
            let _ = self.child.wait_within(GRACE);
        }
        let _ = self.child.kill();
        if let Some(clean_up) = self.clean_up.take() {
            clean_up();
        }
    }
}
