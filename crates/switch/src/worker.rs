//! A worker's thread, from its start to its end.
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::mailbox::{Incarnation, Mailbox, Report, Reports};
use crate::programs::Programs;
use crate::running_worker::{Failure, RunningWorker};
use crate::worker_counters::WorkerCounters;
use crate::worker_options::Common;

/// A worker before it starts.
pub(crate) struct Worker {
    pub incarnation: Incarnation,
    pub cpu: Option<usize>,
    pub common: Arc<Common>,
    /// The program of each port.
    pub programs: Programs,
    pub mailbox: Arc<Mailbox>,
    pub reports: Reports,
    pub counters: Arc<WorkerCounters>,
}

impl Worker {
    /// The thread's body. Returns when the worker was told to stop. Reports in any case that the worker is gone.
    pub fn run(self) {
        let (worker, reports) = (self.incarnation, self.reports.clone());
        // After a panic only the queues that the worker was not using are used again.
        let result = catch_unwind(AssertUnwindSafe(|| self.work()));
        match result {
            Ok(Ok(())) => reports.send(Report::Gone { worker, panic: None }),
            Ok(Err((action, source))) => reports.send(Report::Failed { worker, action, source }),
            Err(panic) => reports.send(Report::Gone { worker, panic: Some(panic_message(&*panic)) }),
        }
    }

    fn work(self) -> Result<(), Failure> {
        self.counters.heartbeat.begin();
        if let Some(cpu) = self.cpu {
            pin(cpu).map_err(|error| ("pinning it to its CPU", error))?;
        }
        let has_cpu = self.cpu.is_some();
        let confine = self.common.options.confine;
        let worker = RunningWorker::new(
            self.common,
            self.programs,
            self.mailbox,
            self.reports,
            self.counters,
            has_cpu,
        )?;
        // No bytes of any peer have been read yet.
        confine().map_err(|error| ("giving up what it does not need", error))?;
        worker.run()
    }
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "(no message)".to_owned())
}

fn pin(cpu: usize) -> io::Result<()> {
    linux::cpus::bind(&[cpu]).map_err(|error| {
        let hint = "give CPUs that are online and in this process's cpuset";
        io::Error::other(format!("CPU {cpu}: {error}; {hint}"))
    })
}
