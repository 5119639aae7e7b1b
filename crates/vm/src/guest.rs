//! Controls a guest from its start to its end.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use host::HostTree;
use linux::child::{RUN, inherit};
use linux::output_file::last_lines;
use linux::{Child, OutputFile};
use measure::Failure;

use crate::arguments::{self, GuestSettings, Serial};
use crate::qmp::QmpError;
use crate::{Event, Placement, Qmp, Shortfall, ThreadStatus, Watch, memory};

/// How long QEMU may take to answer and to start. Each GiB of memory that it has to fill adds a second.
const ANSWER: Duration = Duration::from_secs(60);
/// How long QEMU may take to end when it is told to.
const END: Duration = Duration::from_secs(5);
const TAIL_BYTES: u64 = 4 << 10;

/// A guest that this process started. QEMU ends when this value is dropped, and when this process is killed.
pub struct Guest {
    child: Child,
    qmp: Qmp,
    watch: Watch,
    output: OutputFile,
    /// The memory that is to be locked, in MiB.
    locked_mib: Option<u64>,
}

impl Guest {
    /// Starts QEMU with the guest paused and every thread on its CPUs. The calling thread moves to the CPUs of the
    /// threads that are not vCPUs, because QEMU's threads inherit its CPUs.
    ///
    /// # Errors
    /// The calling thread cannot be bound to the housekeeping CPUs. Memory, descriptors or the process are refused.
    /// QEMU ends, refuses an argument or does not greet on its monitor in time; the failure quotes its last lines. A
    /// thread cannot be placed ([`Watch::look`]).
    pub fn start(qemu: &Path, settings: &GuestSettings, placement: &Placement) -> Result<Self, Failure> {
        let prepare = |error: std::io::Error| {
            Failure::new(
                "preparing a guest",
                error,
                "see what the system said; check free memory and open files",
            )
        };
        let housekeeping: Vec<usize> = placement.housekeeping.iter().collect();
        if !housekeeping.is_empty() {
            linux::cpus::bind(&housekeeping).map_err(|error| {
                let tried = format!("moving to CPU {} (--housekeeping)", placement.housekeeping);
                Failure::new(tried, error, "name CPUs that this process may use")
            })?;
        }
        let output = OutputFile::new().map_err(prepare)?;
        let (control, of_qemu) = UnixStream::pair().map_err(prepare)?;
        let mut command = Command::new(qemu);
        command.args(arguments::arguments(settings, placement));
        command.args(["-chardev", &format!("socket,id=control,fd={}", of_qemu.as_raw_fd())]);
        command.args(["-mon", "chardev=control,mode=control"]);
        command.stdin(Stdio::null()).stderr(output.stdio().map_err(prepare)?);
        if settings.serial != Serial::Stdout {
            command.stdout(Stdio::null());
        }
        command.env(RUN, std::process::id().to_string());
        let shared = settings.shared.iter().map(AsFd::as_fd);
        let inherited: Vec<_> = std::iter::once(of_qemu.as_fd()).chain(shared).collect();
        inherit(&mut command, &inherited);
        let tried = format!("starting {}", qemu.display());
        let mut child = Child::spawn_group(&mut command)
            .map_err(|error| Failure::new(&tried, error, "check that QEMU is installed whole"))?;
        drop(of_qemu);
        let filling = Duration::from_secs(if settings.hardware.locked {
            settings.hardware.memory_mib >> 10
        } else {
            0
        });
        let qmp = Qmp::over(control, ANSWER + filling)
            .map_err(|error| explain(&mut child, &output, &tried, &error))?;
        let mut guest = Guest {
            watch: Watch::new(child.id(), placement.clone()),
            child,
            qmp,
            output,
            locked_mib: settings.hardware.locked.then_some(settings.hardware.memory_mib),
        };
        guest.look()?;
        Ok(guest)
    }

    /// QEMU's process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The state of every thread at the last look.
    pub fn threads(&self) -> Vec<ThreadStatus> {
        self.watch.threads()
    }

    /// The settings that were asked for and not achieved.
    pub fn shortfalls(&self) -> Vec<Shortfall> {
        let mut missing = self.watch.shortfalls();
        if let (Some(wanted), Some(found)) = (self.locked_mib, self.memory_locked_mib())
            && found < wanted
        {
            missing.push(memory::not_locked(found, Some(wanted)));
        }
        missing
    }

    /// The amount of QEMU's memory that is locked, in MiB; `None` if QEMU has ended.
    pub fn memory_locked_mib(&self) -> Option<u64> {
        memory::locked_mib(&HostTree::live(), self.child.id().cast_signed())
    }

    /// Lets the guest run.
    ///
    /// # Errors
    /// QEMU has ended, refuses `cont` or does not answer in time, or the user interrupts.
    pub fn run(&mut self) -> Result<(), Failure> {
        let answer = self.qmp.execute("cont");
        answer
            .map(drop)
            .map_err(|error| explain(&mut self.child, &self.output, "letting the guest run", &error))
    }

    /// Reads every thread's CPUs and policy, and restores them if another program changed them. Discards QEMU's
    /// pending events.
    ///
    /// # Errors
    /// The causes of [`Watch::look`]. A monitor that does not answer is not an error: the threads' names are used
    /// instead.
    pub fn look(&mut self) -> Result<Vec<Event>, Failure> {
        // A monitor that is busy, or gone with its guest, is no error here: names tell, and the end is seen.
        let _ = self.qmp.pass_over_events();
        let qmp = &mut self.qmp;
        self.watch.look(|| qmp.roles().ok())
    }

    /// Waits up to `limit` for QEMU's end. Returns `None` while QEMU runs, and an error if QEMU ended with a failure.
    pub fn ended_within(&mut self, limit: Duration) -> Option<Result<(), Failure>> {
        let tried = "running QEMU";
        match self.child.wait_within(limit) {
            Ok(None) => None,
            Ok(Some(status)) if status.success() => Some(Ok(())),
            Ok(Some(_)) => Some(Err(explain(&mut self.child, &self.output, tried, &QmpError::Closed))),
            Err(error) => Some(Err(Failure::new(tried, error, "see the system's log"))),
        }
    }

    /// Ends the guest: asks it to shut down if `grace` is not zero, then tells QEMU to quit, then kills QEMU.
    pub fn end(&mut self, grace: Duration) {
        if !grace.is_zero() {
            let _ = self.qmp.tell("system_powerdown");
            if self.ended_within(grace).is_some() {
                return;
            }
        }
        let _ = self.qmp.tell("quit");
        if self.ended_within(END).is_none() {
            let _ = self.child.kill();
        }
    }
}

/// An error with the last lines that QEMU printed.
fn explain(child: &mut Child, output: &OutputFile, tried: &str, error: &QmpError) -> Failure {
    // From hanging up to having ended it may need a moment.
    let ended = match child.wait_within(Duration::from_millis(500)) {
        Ok(Some(status)) => format!("QEMU ended with {status}"),
        Ok(None) => error.to_string(),
        Err(system) => format!("{error}; {system}"),
    };
    let said = last_lines(&output.tail(TAIL_BYTES).unwrap_or_default(), 3).join(" | ");
    let answer = if said.is_empty() { ended } else { format!("{ended}: {said}") };
    Failure::new(tried, answer, "mend what QEMU says; --dry-run prints its command line")
}
