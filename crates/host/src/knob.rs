//! One setting that can be changed at run time, and the way in which it is read, written and compared.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use linux::scheduler::{self, Policy};
use measure::Failure;
use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::pci_driver;
use super::threads::{self, Scheduling, ThreadId};
use super::tree::HostTree;

/// A setting of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "knob")]
pub enum Knob {
    /// A file that holds the value.
    File {
        /// The path of the file.
        path: String,
    },
    /// A file that holds a mask of CPUs.
    Mask {
        /// The path of the file.
        path: String,
    },
    /// A file that lists the possible values, with the present one in brackets.
    Choice {
        /// The path of the file.
        path: String,
    },
    /// A controller of a cgroup's children: `on` or `off`.
    Controller {
        /// The cgroup's `cgroup.subtree_control`.
        path: String,
        /// The controller's name, such as `cpuset`.
        controller: String,
    },
    /// A cgroup: `present`, or missing.
    Cgroup {
        /// The folder of the cgroup.
        path: String,
    },
    /// The CPUs that a thread may use.
    Affinity {
        /// The thread.
        thread: ThreadId,
    },
    /// A thread's policy and priority.
    Scheduling {
        /// The thread.
        thread: ThreadId,
    },
    /// The driver of a PCI device, and the only driver that may bind it: `e1000e -`, `vfio-pci vfio-pci`.
    PciDriver {
        /// The device's address, such as `0000:00:06.0`.
        device: String,
    },
}

const WATCHDOGS: [&str; 2] = ["/proc/sys/kernel/soft_watchdog", "/proc/sys/kernel/nmi_watchdog"];
const PRESENT: &str = "present";

impl Knob {
    /// The present value. Returns `None` if there is no such file, folder, thread or device.
    ///
    /// # Errors
    /// The knob's file exists and cannot be read.
    pub fn read(&self, tree: &HostTree) -> Result<Option<String>, Failure> {
        match self {
            Knob::File { path } | Knob::Mask { path } => text(tree, path),
            Knob::Choice { path } => {
                Ok(text(tree, path)?.map(|text| chosen(&text).unwrap_or(&text).to_owned()))
            }
            Knob::Controller { path, controller } => Ok(text(tree, path)?.map(|text| {
                let on = text.split_whitespace().any(|word| word.trim_start_matches('+') == controller);
                if on { "on" } else { "off" }.to_owned()
            })),
            Knob::Cgroup { path } => Ok(tree.has(path).then(|| PRESENT.to_owned())),
            Knob::Affinity { thread } => Ok(threads::now(tree, thread).map(|now| now.cpus.to_string())),
            Knob::Scheduling { thread } => {
                Ok(threads::now(tree, thread).map(|now| now.scheduling.to_string()))
            }
            Knob::PciDriver { device } => Ok(pci_driver::read(tree, device)?.map(|state| state.to_string())),
        }
    }

    /// Sets the value. [`Knob::set`] also checks that the kernel accepted the value.
    ///
    /// # Errors
    /// The kernel refuses the write: no privilege, a read-only mount, or a value that the knob does not accept. A
    /// value of a thread or a PCI device does not parse, the thread has ended, or the host is a recorded host, which
    /// has no threads.
    pub fn write(&self, tree: &HostTree, value: &str) -> Result<(), Failure> {
        let failed =
            |answer: String| Failure::new(format!("setting {self} to {value:?}"), answer, self.remedy(tree));
        match self {
            Knob::Choice { path } if !tree.is_live() => {
                // A recorded file has no kernel that moves the brackets.
                let now = text(tree, path)?.unwrap_or_default().replace(['[', ']'], "");
                let bracket = |word: &str| if word == value { format!("[{word}]") } else { word.to_owned() };
                let words: Vec<String> = now.split(' ').map(bracket).collect();
                tree.write(path, &words.join(" ")).map_err(|error| failed(error.to_string()))
            }
            Knob::File { path } | Knob::Mask { path } | Knob::Choice { path } => {
                if WATCHDOGS.contains(&path.as_str()) && value == "1" && tree.is_live() {
                    // A program that reads kernel.watchdog (`sysctl -a`) while both of these are off switches it off
                    // (kernel/watchdog.c, proc_watchdog_common). The two have no effect then.
                    let _ = tree.write("/proc/sys/kernel/watchdog", "1");
                }
                tree.write(path, value).map_err(|error| failed(error.to_string()))
            }
            Knob::Controller { path, controller } => {
                let sign = if value == "on" { '+' } else { '-' };
                if tree.is_live() {
                    return tree
                        .write(path, &format!("{sign}{controller}"))
                        .map_err(|error| failed(error.to_string()));
                }
                // A recorded file has no kernel that edits the list.
                let now = text(tree, path)?.unwrap_or_default();
                let mut words: Vec<&str> = now.split_whitespace().filter(|word| word != controller).collect();
                if value == "on" {
                    words.push(controller);
                }
                tree.write(path, &words.join(" ")).map_err(|error| failed(error.to_string()))
            }
            Knob::Cgroup { path } => match tree.make_folder(path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failed(error.to_string())),
                _ => Ok(()),
            },
            Knob::Affinity { thread } => {
                let cpus: CpuList = value.parse().map_err(|error| failed(format!("{error}")))?;
                let cpus: Vec<usize> = cpus.iter().collect();
                self.of_live_thread(tree, thread)?;
                linux::cpus::bind_thread(thread.id as u32, &cpus).map_err(|error| failed(error.to_string()))
            }
            Knob::Scheduling { thread } => {
                let wanted = Scheduling::parse(value).ok_or_else(|| failed("no such policy".into()))?;
                self.of_live_thread(tree, thread)?;
                let policy = Policy::Other(wanted.policy, wanted.priority);
                scheduler::set_of(thread.id, policy).map_err(|error| failed(error.to_string()))
            }
            Knob::PciDriver { device } => {
                let wanted = value.parse().map_err(|()| failed("no driver and override".into()))?;
                pci_driver::write(tree, device, &wanted).map_err(failed)
            }
        }
    }

    /// Sets the value and reads it back.
    ///
    /// # Errors
    /// The write fails, for the reasons of [`Knob::write`]; or the value cannot be read back, or differs afterwards.
    pub fn set(&self, tree: &HostTree, value: &str) -> Result<(), Failure> {
        self.write(tree, value)?;
        match self.read(tree)? {
            Some(now) if self.same(&now, value) => Ok(()),
            now => Err(Failure::new(
                format!("setting {self} to {value:?}"),
                format!("the kernel took it, and says {:?} now", now.unwrap_or_default()),
                "this host cannot have it; `tautline host undo` puts the value found back",
            )),
        }
    }

    /// Removes a cgroup, or a file of a recorded host, that did not exist before the change. Other knobs belong to
    /// the kernel and cannot be removed.
    ///
    /// # Errors
    /// `rmdir` of the cgroup is refused for 2 s, because it still has processes; or a file of a recorded host cannot
    /// be removed. Removing something that does not exist is not an error.
    pub fn remove(&self, tree: &HostTree) -> Result<(), Failure> {
        let removed = match self {
            Knob::Cgroup { path } => remove_cgroup(tree, path),
            Knob::File { path } | Knob::Mask { path } | Knob::Choice { path } if !tree.is_live() => {
                tree.remove_file(path)
            }
            // Files of the kernel disappear with the things that they belong to.
            _ => Ok(()),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::new(
                format!("removing {self}"),
                error,
                "see which processes are in it (cgroup.procs), move them, and call undo again",
            )),
            _ => Ok(()),
        }
    }

    /// Whether two texts mean the same value.
    pub fn same(&self, one: &str, other: &str) -> bool {
        let as_mask = |text: &str| CpuList::from_mask(text).ok();
        let as_list = |text: &str| text.parse::<CpuList>().ok();
        one == other
            || match self {
                Knob::Mask { .. } => as_mask(one).is_some() && as_mask(one) == as_mask(other),
                Knob::File { path } if path.ends_with("_list") || path.ends_with("cpuset.cpus") => {
                    as_list(one).is_some() && as_list(one) == as_list(other)
                }
                Knob::Affinity { .. } => as_list(one).is_some() && as_list(one) == as_list(other),
                _ => false,
            }
    }

    /// Whether the knob belongs to a thread, which may end at any time.
    pub fn is_of_a_thread(&self) -> bool {
        matches!(self, Knob::Affinity { .. } | Knob::Scheduling { .. })
    }

    fn of_live_thread(&self, tree: &HostTree, thread: &ThreadId) -> Result<(), Failure> {
        let failed =
            |answer: &str, remedy: &str| Err(Failure::new(format!("setting {self}"), answer, remedy));
        if !tree.is_live() {
            return failed("a recorded host has no threads", "run on the host itself");
        }
        match threads::now(tree, thread) {
            Some(_) => Ok(()),
            None => failed("the thread has ended", "nothing to do; make a new plan for those that run now"),
        }
    }

    fn remedy(&self, tree: &HostTree) -> String {
        match self {
            Knob::Affinity { .. } | Knob::Scheduling { .. } => {
                "run as root (CAP_SYS_NICE); some threads of the kernel are bound to their CPU for good".into()
            }
            Knob::PciDriver { .. } => {
                "run as root, with the driver's module loaded (modprobe vfio-pci); the kernel's log says more"
                    .into()
            }
            _ if tree.is_live() => {
                "run as root; in a container, run on the host itself: its /sys and /proc/sys are read-only there"
                    .into()
            }
            _ => format!("see whether {} may be written", tree.root().display()),
        }
    }
}

impl std::fmt::Display for Knob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Knob::File { path } | Knob::Mask { path } | Knob::Choice { path } | Knob::Cgroup { path } => {
                f.write_str(path)
            }
            Knob::Controller { path, controller } => write!(f, "controller {controller} in {path}"),
            Knob::Affinity { thread } => write!(f, "CPUs of thread {} ({})", thread.id, thread.name),
            Knob::Scheduling { thread } => write!(f, "scheduling of thread {} ({})", thread.id, thread.name),
            Knob::PciDriver { device } => write!(f, "driver of PCI device {device}"),
        }
    }
}

/// Removes a cgroup. A killed process stays in its cgroup until it has ended, so EBUSY is retried for 2 s.
fn remove_cgroup(tree: &HostTree, path: &str) -> std::io::Result<()> {
    const LIMIT: Duration = Duration::from_secs(2);
    let deadline = Instant::now() + LIMIT;
    loop {
        match tree.remove_folder(path) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
}

/// The word in brackets.
pub fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

fn text(tree: &HostTree, path: &str) -> Result<Option<String>, Failure> {
    match tree.read(path) {
        Ok(text) => Ok(Some(text)),
        Err(unread) if unread.is_absent() => Ok(None),
        Err(unread) => Err(unread.failure()),
    }
}
