//! CPUs: lists of them as people and the kernel write them, which of them a thread may use, and binding it.

use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A text that is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no CPU or range; write for example 0,2-5")]
pub struct NoList(pub String);

/// The CPUs of a list such as `0,2-5`, in order, each once.
pub fn parse(list: &str) -> Result<Vec<usize>, NoList> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let wrong = || NoList(part.to_owned());
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= CpuSet::MAX_CPU {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The list of these CPUs, which are in order, as the kernel writes it: `0-3,7`.
pub fn list(cpus: &[usize]) -> String {
    let ranges = cpus.chunk_by(|before, after| before + 1 == *after).map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    });
    ranges.collect::<Vec<_>>().join(",")
}

/// The CPUs that the calling thread may use.
pub fn usable() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Binds the calling thread to these CPUs.
pub fn bind(cpus: &[usize]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &set(cpus)?)?)
}

/// Binds another thread, by the id that the kernel gave it, to these CPUs.
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

/// The calling thread stays on some CPUs until this is dropped.
#[derive(Debug)]
pub struct Bound {
    before: CpuSet,
    /// What was bound is this thread, and no other that this might be sent to.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Bound {
    /// Binds it.
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
    fn lists_are_read_and_written() {
        for (text, cpus, written) in [
            ("0", vec![0], "0"),
            ("0-2,7", vec![0, 1, 2, 7], "0-2,7"),
            ("7, 1 - 2 ,2", vec![1, 2, 7], "1-2,7"),
            ("3,4", vec![3, 4], "3-4"),
        ] {
            assert_eq!(parse(text).unwrap(), cpus, "{text}");
            assert_eq!(list(&cpus), written, "{text}");
        }
        assert_eq!(list(&[]), "");
        for bad in ["", "x", "3-1", "0-99999999", "0,,1", "-1", "1-2-3"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

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
