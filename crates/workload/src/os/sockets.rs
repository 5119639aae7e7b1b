//! select and epoll on TCP sockets over loopback, each of which has a byte to be read: a call reports all.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use measure::Failure;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::select::{FD_SETSIZE, FdSet, select};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;
use nix::unistd::write;

use super::call_failed;
use crate::batch::{self, Measured, Pace, Scale, timed};
use crate::sys;
use crate::trial::Trial;

/// How sockets are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    Select,
    Epoll,
}

/// Connected pairs, kept between trials.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// The near ends have low numbers, as select needs (select(2), FD_SETSIZE), and the far ends high ones.
    near: Vec<TcpStream>,
    far: Vec<OwnedFd>,
}

/// Descriptors that the pairs of the largest trial need.
const DESCRIPTORS: u64 = FD_SETSIZE as u64 * 2;

impl Sockets {
    /// So many near ends, each with a byte waiting.
    fn ready(&mut self, count: usize) -> Result<&[TcpStream], Failure> {
        if self.near.len() < count {
            allow_descriptors()?;
            sys::bring_loopback_up().map_err(|error| {
                Failure::new(
                    "bringing the loopback interface up",
                    error,
                    "run `ip link set lo up` here, or give the agent CAP_NET_ADMIN",
                )
            })?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(over_loopback)?;
            while self.near.len() < count {
                self.connect(&listener)?;
            }
        }
        Ok(&self.near[..count])
    }

    fn connect(&mut self, listener: &TcpListener) -> Result<(), Failure> {
        let near =
            TcpStream::connect(listener.local_addr().map_err(over_loopback)?).map_err(over_loopback)?;
        let (accepted, _) = listener.accept().map_err(over_loopback)?;
        let far = sys::duplicate_from(&accepted, FD_SETSIZE as i32).map_err(call_failed("fcntl(F_DUPFD)"))?;
        drop(accepted);
        // Closing resets the connection at once: no port is left behind in TIME_WAIT.
        let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        for socket in [near.as_fd(), far.as_fd()] {
            setsockopt(&socket, sockopt::Linger, &at_once).map_err(call_failed("setsockopt(SO_LINGER)"))?;
        }
        write(&far, &[1]).map_err(call_failed("sending over loopback"))?;
        self.near.push(near);
        self.far.push(far);
        Ok(())
    }
}

fn over_loopback(error: std::io::Error) -> Failure {
    Failure::new(
        "connecting two TCP sockets over loopback",
        error,
        "bring the loopback interface up in this environment: ip link set lo up",
    )
}

/// Raises the limit of open files where it is too low.
fn allow_descriptors() -> Result<(), Failure> {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft >= DESCRIPTORS {
            return Ok(());
        }
        setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, hard.max(DESCRIPTORS))
    });
    raised.map_err(|error| {
        let tried = format!("raising the limit of open files to {DESCRIPTORS}");
        Failure::new(tried, error, format!("run `ulimit -n {DESCRIPTORS}` before"))
    })
}

/// Measures one call over `count` sockets.
pub(crate) fn measure(
    (poll, count): (Poll, usize),
    trial: &Trial,
    pace: &mut Pace,
    sockets: &mut Sockets,
) -> Result<Measured, Failure> {
    let near = sockets.ready(count)?;
    match poll {
        Poll::Select => measure_select(near, trial, pace),
        Poll::Epoll => measure_epoll(near, trial, pace),
    }
}

fn measure_select(near: &[TcpStream], trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
    let mut all = FdSet::new();
    for socket in near {
        if socket.as_raw_fd() >= FD_SETSIZE as i32 {
            return Err(Failure::new(
                format!("select on {} sockets", near.len()),
                format!("their descriptors go beyond {FD_SETSIZE}"),
                "start the agent with fewer open files",
            ));
        }
        all.insert(socket.as_fd());
    }
    let end = near.iter().map(|socket| socket.as_raw_fd() + 1).max().unwrap_or(0);
    batch::measure(trial.budget, Scale::nanos(1.0), pace, |units| {
        timed(|| {
            (0..units).try_for_each(|_| {
                let (mut set, mut at_once) = (all, TimeVal::new(0, 0));
                let ready = select(end, &mut set, None, None, &mut at_once).map_err(call_failed("select"))?;
                all_ready(ready as usize, near.len())
            })
        })
    })
}

fn measure_epoll(near: &[TcpStream], trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(call_failed("epoll_create1"))?;
    for socket in near {
        epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, 0)).map_err(call_failed("epoll_ctl"))?;
    }
    let mut events = vec![EpollEvent::empty(); near.len()];
    batch::measure(trial.budget, Scale::nanos(1.0), pace, |units| {
        timed(|| {
            (0..units).try_for_each(|_| {
                let ready = epoll.wait(&mut events, EpollTimeout::ZERO).map_err(call_failed("epoll_wait"))?;
                all_ready(ready, near.len())
            })
        })
    })
}

fn all_ready(ready: usize, count: usize) -> Result<(), Failure> {
    if ready == count {
        return Ok(());
    }
    Err(Failure::new(
        format!("asking {count} sockets that have a byte each"),
        format!("{ready} were reported ready"),
        "see whether something resets connections over loopback",
    ))
}
