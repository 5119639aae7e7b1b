//! Records a trace in an instance of tracefs.

use measure::Failure;
use std::fs;
use std::path::{Path, PathBuf};

use super::clock::Reading;
use super::{Pid, Selection, Trace};

/// The process that runs a guest, with its threads.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its id.
    pub pid: u32,
    /// The process's threads, and the kernel threads that work for it (`vhost-PID`).
    pub threads: Vec<u32>,
    /// Whether a device is assigned to the guest (VFIO).
    pub has_vfio: bool,
}

impl Target {
    /// Looks up a running process, its threads, and the kernel threads that work for it.
    ///
    /// # Errors
    /// There is no process of this id, or its threads or descriptors may not be listed.
    pub fn find(pid: u32) -> Result<Self, Failure> {
        let folder = Path::new("/proc").join(pid.to_string());
        let ids = |path: &Path| -> Vec<u32> {
            let names = fs::read_dir(path).into_iter().flatten().flatten();
            names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
        };
        let mut threads = ids(&folder.join("task"));
        if threads.is_empty() {
            let tried = format!("tracing process {pid}");
            return Err(Failure::new(tried, "there is none", "name a running one"));
        }
        let worker = format!("vhost-{pid}");
        let is_worker =
            |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim() == worker);
        threads.extend(ids(Path::new("/proc")).into_iter().filter(is_worker));
        let has_vfio = has_vfio(&folder.join("fd")).map_err(|error| {
            Failure::new(format!("looking for devices of process {pid}"), error, "run as root")
        })?;
        Ok(Self { pid, threads, has_vfio })
    }
}

/// Whether one of these descriptors is of a device that is handed on.
fn has_vfio(descriptors: &Path) -> std::io::Result<bool> {
    let mut links = fs::read_dir(descriptors)?.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let is_vfio =
        |link: PathBuf| link.starts_with("/dev/vfio") || link.to_string_lossy().contains("vfio-device");
    Ok(links.any(is_vfio))
}

/// A trace during recording.
pub struct Recorder {
    instance: PathBuf,
    first: Reading,
    is_tsc: bool,
}

impl Recorder {
    /// Starts a trace in an instance, a folder of tracefs that the caller has made and removes. Events of all threads
    /// are recorded, because a packet passes through many.
    ///
    /// # Errors
    /// A file of the instance cannot be written (no root, or the instance is gone), or the kernel lacks an event that
    /// the selection requires.
    pub fn start(instance: &Path, selection: &Selection) -> Result<Self, Failure> {
        let is_tsc = prepare(instance, selection, &[])?;
        write(instance, "tracing_on", "1")?;
        Ok(Self { instance: instance.to_owned(), first: Reading::now(), is_tsc })
    }

    /// Stops recording and returns the trace. Times in the trace are on CLOCK_MONOTONIC, in ns.
    ///
    /// # Errors
    /// The instance's `trace` cannot be read.
    pub fn stop(self) -> Result<Trace, Failure> {
        let last = Reading::now();
        let _ = fs::write(self.instance.join("tracing_on"), "0");
        let path = self.instance.join("trace");
        let text = fs::read(&path)
            .map_err(|error| Failure::new(format!("reading {}", path.display()), error, "run as root"))?;
        let text = String::from_utf8_lossy(&text);
        if !self.is_tsc {
            return Ok(Trace::parse(&text, 1e3));
        }
        let ticks_per_us = self.first.ticks_per_us(&last);
        let mut trace = Trace::parse(&text, ticks_per_us);
        let shift = self.first.monotonic_minus_tick(ticks_per_us);
        trace.events.iter_mut().for_each(|event| event.time = event.time.saturating_add_signed(shift));
        Ok(trace)
    }
}

/// Enables the events of a selection in an instance. Its filtered events are recorded only for these threads. Returns
/// whether the instance's clock is the time-stamp counter.
pub(super) fn prepare(instance: &Path, selection: &Selection, threads: &[Pid]) -> Result<bool, Failure> {
    write(instance, "buffer_size_kb", &selection.buffer_kib.to_string())?;
    let is_tsc = cfg!(target_arch = "x86_64") && write(instance, "trace_clock", "x86-tsc").is_ok();
    if !is_tsc {
        write(instance, "trace_clock", "mono")?;
    }
    for (event, field) in selection.filtered.iter().filter(|_| !threads.is_empty()) {
        let named: Vec<String> = threads.iter().map(|thread| format!("{field} == {thread}")).collect();
        // A line that is too long for the kernel leaves all of them: more than is needed.
        let _ = write(instance, &format!("events/{event}/filter"), &named.join(" || "));
    }
    for event in selection.events() {
        let switched = write(instance, &format!("events/{event}/enable"), "1");
        if selection.required.contains(&event) {
            switched?;
        }
    }
    Ok(is_tsc)
}

/// Writes one of an instance's files.
pub(super) fn write(instance: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let file = instance.join(name);
    fs::write(&file, text)
        .map_err(|error| Failure::new(format!("writing {text} to {}", file.display()), error, "run as root"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_that_cannot_be_listed_are_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let link = |name: &str, to: &str| std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
        link("0", "/dev/null");
        assert!(!has_vfio(folder.path()).unwrap());
        link("1", "anon_inode:[vfio-device]");
        assert!(has_vfio(folder.path()).unwrap());
        assert!(has_vfio(&folder.path().join("none")).is_err());
    }
}
