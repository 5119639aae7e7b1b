//! CPUs: which of them a thread may use, and binding threads to them.

use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cpu_list::BadCpuList;
pub use crate::cpu_list::{list, parse};

/// Why a list contains no usable CPUs.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// The text is no list.
    #[error(transparent)]
    Bad(#[from] BadCpuList),
    /// The list is empty.
    #[error("it names no CPU; write for example 0,2-5")]
    Empty,
    /// This process may not use one of the CPUs.
    #[error("this process may not use CPU {cpu}; it may use {allowed}")]
    NotAllowed {
        /// The CPU.
        cpu: usize,
        /// A list of the CPUs that the process may use.
        allowed: String,
    },
    /// The system does not report which CPUs may be used.
    #[error("asking for the CPUs this process may use: {0}")]
    System(#[from] io::Error),
}

/// The CPUs of a list such as `0,2-5`, all of which this thread may use.
///
/// # Errors
/// The list names no CPU, or one that this thread may not use.
pub fn choose(list: &str) -> Result<Vec<usize>, ChooseError> {
    let chosen = parse(list)?;
    if chosen.is_empty() {
        return Err(ChooseError::Empty);
    }
    let allowed = usable()?;
    match chosen.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => Err(ChooseError::NotAllowed { cpu: *cpu, allowed: self::list(&allowed) }),
        None => Ok(chosen),
    }
}

/// The CPUs that the calling thread may use.
///
/// # Errors
/// `sched_getaffinity` is refused: the kernel's CPU mask is longer than a [`CpuSet`].
pub fn usable() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Binds the calling thread to these CPUs.
///
/// # Errors
/// A number is not below [`CpuSet::MAX_CPU`], or none of the CPUs is online and allowed to this thread by its cpuset.
pub fn bind(cpus: &[usize]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &set(cpus)?)?)
}

/// Binds another thread, by the id that the kernel gave it, to these CPUs.
///
/// # Errors
/// The id is 0, no such thread exists, or this process may not bind it (`CAP_SYS_NICE`). A CPU number is not below
/// [`CpuSet::MAX_CPU`], or none of the CPUs is online and allowed to the thread by its cpuset.
pub fn bind_thread(thread: u32, cpus: &[usize]) -> io::Result<()> {
    let thread = Pid::from_raw(thread.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(sched_setaffinity(Some(thread), &set(cpus)?)?)
}

fn set(cpus: &[usize]) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {cpu}")));
        }
        set.set(cpu);
    }
    Ok(set)
}

/// Keeps the calling thread on some CPUs until this is dropped.
#[derive(Debug)]
pub struct Bound {
    before: CpuSet,
    /// Keeps this value on the thread that was bound.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Bound {
    /// Binds the calling thread to these CPUs.
    ///
    /// # Errors
    /// The thread's present CPUs cannot be read ([`usable`]), or it cannot be bound to these ([`bind`]).
    pub fn to(cpus: &[usize]) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        bind(cpus)?;
        Ok(Bound { before, _thread: std::marker::PhantomData })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_bound_and_set_free() {
        let before = usable().unwrap();
        let last = before[before.len() - 1];
        let bound = Bound::to(&[last]).unwrap();
        assert_eq!(usable().unwrap(), [last]);
        drop(bound);
        assert_eq!(usable().unwrap(), before);
        assert!(bind(&[1 << 20]).is_err());
        assert_eq!(usable().unwrap(), before);
    }

    #[test]
    fn another_thread_is_bound() {
        let last = *usable().unwrap().last().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = gone.recv();
            usable().unwrap()
        });
        bind_thread(told.recv().unwrap(), &[last]).unwrap();
        drop(go);
        assert_eq!(thread.join().unwrap(), [last]);
    }
}
