//! Threads as the kernel shows them: proc(5).

use std::fs;

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub id: u32,
    pub name: String,
    pub cpus: String,
    /// The kernel's number: 0 SCHED_OTHER, 1 SCHED_FIFO.
    pub policy: i32,
    pub priority: i32,
}

/// All of a process, by their ids.
pub fn of(process: u32) -> Vec<Thread> {
    let mut threads: Vec<Thread> = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| read(entry.path().to_str()?))
        .collect();
    threads.sort_by_key(|thread| thread.id);
    threads
}

fn read(folder: &str) -> Option<Thread> {
    let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
    let (head, rest) = stat.rsplit_once(')')?;
    let (id, name) = head.split_once(" (")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Thread {
        id: id.parse().ok()?,
        name: name.to_owned(),
        cpus: status(folder, "Cpus_allowed_list:")?,
        priority: fields[40 - 3].parse().ok()?,
        policy: fields[41 - 3].parse().ok()?,
    })
}

/// A line of a process's status.
pub fn status(folder: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(format!("{folder}/status")).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()))
}

/// The first and the last CPU that this test may use.
pub fn two_cpus() -> (String, String) {
    let cpus = linux::cpus::usable().unwrap();
    assert!(cpus.len() > 1, "this test needs two CPUs");
    (cpus[0].to_string(), cpus[cpus.len() - 1].to_string())
}
