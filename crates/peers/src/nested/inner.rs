//! A guest in the nested machine, under real KVM: it boots the kernel of set-up's cache with the file system of a
//! [`crate::Guest`]. The guest's control channel passes through a serial port of the machine.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::machine::{Clock, Machine};
use super::places::{GENERIC_INITRAMFS, GENERIC_KERNEL, INITRAMFS, KERNEL, SOCKET};
use crate::guest::control::{Control, Silence};
use crate::guest::{Job, LIMIT};
use crate::process::tail;
use crate::{Error, Output};

const BOOT: Duration = Duration::from_secs(120);
/// How long a guest may take to boot if the machine's clock counts instructions, in boots of the machine. A guest that
/// starts little needs about one second.
const COUNTED_BOOT: u32 = 10;
/// How often the machine is asked whether QEMU still runs, while the guest boots.
const LOOK: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(24 * 3600);
const CONSOLE: &str = "/run/guest.console";
const PID: &str = "/run/guest.pid";
/// Prints each thread of the programs that may run a guest, its state, and its position in the machine's kernel.
const THREADS: &str = "for p in $(pidof tautline qemu-system-x86_64); do for t in /proc/$p/task/*; do \
     echo \"$t $(cat $t/comm): $(grep State: $t/status) $(cat $t/wchan)\"; cat $t/stack; done; done 2>&1";
/// QEMU's end of the control channel.
const CHANNEL: &str = "-device virtio-serial-pci -chardev pipe,id=guest,path=/dev/virtio-ports/guest \
     -device virtserialport,chardev=guest,name=control";

/// The settings of the guest.
#[derive(Clone, Debug)]
pub struct InnerSettings {
    machine: String,
    cpu: &'static str,
    cpus: u16,
    memory_mib: u32,
    parameters: String,
    arguments: String,
    generic: bool,
    shared: bool,
    vm_run: Option<String>,
}

impl Default for InnerSettings {
    fn default() -> Self {
        Self {
            machine: "q35,accel=kvm".into(),
            cpu: "host",
            cpus: 1,
            memory_mib: 256,
            parameters: String::new(),
            arguments: String::new(),
            generic: false,
            shared: false,
            vm_run: None,
        }
    }
}

impl InnerSettings {
    /// Sets the value of QEMU's `-machine`; the default is `q35,accel=kvm`.
    pub fn machine(mut self, value: &str) -> Self {
        value.clone_into(&mut self.machine);
        self
    }

    /// Makes the guest end each interrupt by an exit: QEMU then delivers fewer interrupts twice (docs/nested.md).
    pub fn exit_at_end_of_interrupt(self) -> Self {
        InnerSettings { cpu: "host,kvm-pv-eoi=off", ..self }
    }

    /// Boots the machine's own kernel, which has drivers for more devices than virtio's. The default is the cloud
    /// kernel.
    pub fn generic_kernel(mut self) -> Self {
        self.generic = true;
        self
    }

    /// Starts the guest by `tautline vm run` with these options instead of QEMU's own command line. `tautline vm run`
    /// then chooses the machine, the CPUs and the shared memory.
    pub fn vm_run(mut self, options: &str) -> Self {
        self.vm_run = Some(options.to_owned());
        self
    }

    /// Uses memory that back-ends can map.
    pub(super) fn shared_memory(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Sets the number of virtual CPUs, and the memory in MiB. Defaults are one CPU and 256 MiB.
    pub fn size(self, cpus: u16, memory_mib: u32) -> Self {
        InnerSettings { cpus, memory_mib, ..self }
    }

    /// Adds words to the kernel's command line.
    pub fn parameters(mut self, words: &str) -> Self {
        words.clone_into(&mut self.parameters);
        self
    }

    /// Adds arguments for QEMU, as a shell of the machine reads them, including redirections, which open a descriptor
    /// such as a macvtap's.
    pub fn arguments(mut self, words: &str) -> Self {
        self.arguments = self.arguments + " " + words;
        self
    }

    /// The shell's command line that starts the guest.
    fn command(&self) -> String {
        let InnerSettings { machine, cpu, cpus, memory_mib, parameters, arguments, .. } = self;
        let (kernel, initramfs) =
            if self.generic { (GENERIC_KERNEL, GENERIC_INITRAMFS) } else { (KERNEL, INITRAMFS) };
        let line = format!("console=ttyS0 quiet panic=-1 {parameters}");
        if let Some(options) = &self.vm_run {
            return format!(
                "tautline vm run {options} --memory {memory_mib}M --kernel {kernel} --initrd {initramfs} \
                 --append '{line}' --serial {CONSOLE} -- {CHANNEL} {arguments}"
            );
        }
        let memory = match self.shared {
            true => format!(
                "-object memory-backend-memfd,id=memory,size={memory_mib}M,share=on -machine memory-backend=memory"
            ),
            false => String::new(),
        };
        format!(
            "qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
             -machine {machine} {memory} -cpu {cpu} -smp {cpus} -m {memory_mib}M \
             -kernel {kernel} -initrd {initramfs} -append '{line}' -serial file:{CONSOLE} {CHANNEL} {arguments}"
        )
    }
}

/// A running guest in the nested machine. The guest is killed when this value is dropped.
pub struct Inner<'a> {
    machine: &'a Machine,
    control: Control,
    stream: UnixStream,
    /// The command that started the guest; `None` after its end was waited for.
    job: Option<Job<'a>>,
}

impl Machine {
    /// Boots a guest in the machine, and waits until it accepts commands. Only one guest can be started at a time.
    ///
    /// # Errors
    /// The control channel cannot be made, QEMU ends, or the guest accepts no commands within 120 s, or within the
    /// time of 10 boots of a machine whose clock counts instructions. The machine's own
    /// [`Guest::run`](crate::Guest::run) may fail too.
    pub fn guest(&self, settings: &InnerSettings) -> Result<Inner<'_>, Error> {
        let doing = "making the control channel of the guest within";
        let socket = self.folder().join(SOCKET);
        let stream = UnixStream::connect(socket).map_err(Error::system(doing))?;
        let control = Control::new(stream.try_clone().map_err(Error::system(doing))?);
        let control = control.map_err(Error::system(doing))?;
        let line = format!("echo $$ >{PID}; exec {}", settings.command());
        let job = Some(self.begin(&line, DAY)?);
        let mut inner = Inner { machine: self, control, stream, job };
        let doing = "booting a guest in the nested machine";
        let limit = match self.clock() {
            Clock::Host => BOOT,
            Clock::Instructions => COUNTED_BOOT * self.boot(),
        };
        let deadline = Instant::now() + limit;
        loop {
            let silence = match inner.control.ready(LOOK) {
                Ok(()) => return Ok(inner),
                Err(silence) => silence,
            };
            let runs = self.run(&format!("kill -0 $(cat {PID})"))?.success();
            if silence == Silence::TimedOut && runs && Instant::now() < deadline {
                continue;
            }
            self.note_deaf_guests();
            let console = inner.console();
            let _ = self.run(&format!("kill -KILL $(cat {PID})"));
            let job = inner.job.take().expect("it was just begun");
            let said = tail(&(console + &job.wait_at_most(GRACE)?.stderr));
            return Err(match runs {
                false => Error::refused(doing, said),
                true => Error::TimedOut { doing: doing.into(), limit, said },
            });
        }
    }
}

impl Inner<'_> {
    /// Runs a shell's command line in the guest, for at most [`LIMIT`].
    ///
    /// # Errors
    /// The guest has ended, or the command does not end in time. A command that fails is not an error: see
    /// [`Output::status`].
    pub fn run(&self, line: &str) -> Result<Output, Error> {
        let doing = || format!("running `{line}` in the guest within");
        let id = self.control.send(line, LIMIT).map_err(Error::system(doing()))?;
        self.control.output(id, LIMIT + GRACE).map_err(|silence| match silence {
            Silence::Ended => Error::refused(doing(), format!("it has ended: {}", tail(&self.console()))),
            Silence::TimedOut => {
                self.machine.note_deaf_guests();
                let said = format!("no answer; the console: {}", tail(&self.console()));
                Error::TimedOut { doing: doing(), limit: LIMIT, said }
            }
        })
    }

    /// Runs a command line that must not fail, and returns its output.
    ///
    /// # Panics
    /// Panics with the command's output if the command fails.
    #[track_caller]
    pub fn must(&self, line: &str) -> String {
        self.run(line).unwrap_or_else(|error| panic!("{error}")).expect_success()
    }

    /// Waits until the program that started the guest has ended: QEMU, or `tautline vm run`.
    ///
    /// # Errors
    /// The program does not end within [`LIMIT`]: the error then says where in the machine's kernel its threads are.
    /// The causes of [`Job::wait`].
    pub fn wait(mut self) -> Result<Output, Error> {
        let ended = self.job.take().expect("only this takes it").wait_at_most(LIMIT);
        match ended {
            Err(Error::TimedOut { doing, limit, said }) => {
                self.machine.note_deaf_guests();
                let threads =
                    self.machine.run(THREADS).map_or_else(|error| error.to_string(), |found| found.stdout);
                Err(Error::TimedOut { doing, limit, said: format!("{said}\nthreads:\n{threads}") })
            }
            ended => ended,
        }
    }

    /// The process id, in the machine, of the guest's QEMU or of its `tautline vm run`.
    ///
    /// # Errors
    /// The machine runs no command, or its process-id file contains no number.
    pub fn id(&self) -> Result<u32, Error> {
        let said = self.machine.run(&format!("cat {PID}"))?;
        said.stdout.trim().parse().map_err(|_| Error::refused("reading QEMU's process id", said.stderr))
    }

    /// The output of the guest's kernel on the console.
    pub fn console(&self) -> String {
        self.machine.run(&format!("cat {CONSOLE}")).map(|output| output.stdout).unwrap_or_default()
    }
}

impl Drop for Inner<'_> {
    fn drop(&mut self) {
        let end =
            format!("pid=$(cat {PID}) && kill -KILL $pid && while [ -e /proc/$pid ]; do sleep 0.05; done");
        let _ = self.machine.run_within(&end, Duration::from_secs(10));
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
