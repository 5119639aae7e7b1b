//! Network namespaces as threads: what runs on the thread is inside, and so is what it starts.
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use linux::namespace::{UnshareFlags, unshare};

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace; it goes when the thread and all descriptors of its interfaces are gone.
pub struct Namespace {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// Its loopback interface is up.
    pub fn new() -> Self {
        let (jobs, queue) = channel::<Job>();
        let thread = std::thread::spawn(move || {
            let hint = "run the tests as root, or through: unshare --user --map-root-user --net";
            unshare(UnshareFlags::NEWNET).unwrap_or_else(|errno| panic!("unshare: {errno}; {hint}"));
            queue.into_iter().for_each(|job| job());
        });
        let namespace = Namespace { jobs: Some(jobs), thread: Some(thread) };
        namespace.sh("ip link set lo up");
        namespace
    }

    /// Runs this inside.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (result, taken) = channel();
        let job = move || drop(result.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job))));
        self.jobs.as_ref().unwrap().send(Box::new(job)).expect("the namespace's thread has ended");
        match taken.recv().expect("the namespace's thread has ended") {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Runs a shell's line inside, however it ends.
    pub fn try_sh(&self, line: &str) -> Output {
        let line = line.to_owned();
        self.run(move || Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs a shell's line inside, which must not fail; what it printed.
    #[track_caller]
    pub fn sh(&self, line: &str) -> String {
        let output = self.try_sh(line);
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{line}: {}\n{out}\n{err}", output.status);
        out
    }

    /// Starts a program inside, which ends with the value.
    pub fn start(&self, program: &str, arguments: &[&str]) -> Background {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        Background(self.run(move || command.spawn().unwrap()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.jobs = None;
        let _ = self.thread.take().unwrap().join();
    }
}

/// A program that is ended with the value.
pub struct Background(pub std::process::Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
