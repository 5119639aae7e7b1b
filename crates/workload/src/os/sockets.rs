//! Measures select and epoll on TCP sockets over loopback, each of which has a byte to read: a call reports all of
//! them.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use linux::interface::Interface;
use measure::Failure;
use rustix::event::{Timespec, epoll};
use rustix::io::{fcntl_dupfd_cloexec, write};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::failure::call_failed;
use crate::batch::{self, Measured, Pace, Scale, timed};
use crate::sys::{MOST_DESCRIPTORS, ReadSet};
use crate::trial::Trial;

/// The system call that polls the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    Select,
    Epoll,
}

/// Connected pairs, kept between trials.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// The polled ends have low descriptor numbers, as select requires, and the sending ends have high numbers.
    receivers: Vec<TcpStream>,
    senders: Vec<OwnedFd>,
}

/// Descriptors that the pairs of the largest trial need.
const DESCRIPTORS: u64 = MOST_DESCRIPTORS as u64 * 2;

impl Sockets {
    /// So many receivers, each with a byte waiting.
    fn ready(&mut self, count: usize) -> Result<&[TcpStream], Failure> {
        if self.receivers.len() < count {
            allow_descriptors()?;
            Interface::named("lo").and_then(|lo| lo.set_up()).map_err(|error| {
                Failure::new(
                    "bringing the loopback interface up",
                    error,
                    "run `ip link set lo up` here, or give the agent CAP_NET_ADMIN",
                )
            })?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(over_loopback)?;
            while self.receivers.len() < count {
                self.connect(&listener)?;
            }
        }
        Ok(&self.receivers[..count])
    }

    fn connect(&mut self, listener: &TcpListener) -> Result<(), Failure> {
        let receiver =
            TcpStream::connect(listener.local_addr().map_err(over_loopback)?).map_err(over_loopback)?;
        let (accepted, _) = listener.accept().map_err(over_loopback)?;
        let sender = fcntl_dupfd_cloexec(&accepted, MOST_DESCRIPTORS as i32);
        let sender = sender.map_err(call_failed("fcntl(F_DUPFD)"))?;
        drop(accepted);
        // Closing resets the connection at once: no port is left behind in TIME_WAIT.
        for socket in [receiver.as_fd(), sender.as_fd()] {
            set_socket_linger(socket, Some(Duration::ZERO)).map_err(call_failed("setsockopt(SO_LINGER)"))?;
        }
        write(&sender, &[1]).map_err(call_failed("sending over loopback"))?;
        self.receivers.push(receiver);
        self.senders.push(sender);
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
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= DESCRIPTORS) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(DESCRIPTORS));
    setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), maximum }).map_err(|error| {
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
    let receivers = sockets.ready(count)?;
    match poll {
        Poll::Select => measure_select(receivers, trial, pace),
        Poll::Epoll => measure_epoll(receivers, trial, pace),
    }
}

fn measure_select(receivers: &[TcpStream], trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
    let Some(set) = ReadSet::new(receivers) else {
        return Err(Failure::new(
            format!("select on {} sockets", receivers.len()),
            format!("their descriptors go beyond {MOST_DESCRIPTORS}"),
            "start the agent with fewer open files",
        ));
    };
    batch::measure(trial.budget, Scale::nanos(1.0), pace, |units| {
        timed(|| {
            (0..units).try_for_each(|_| {
                let ready = set.ready().map_err(call_failed("select"))?;
                all_ready(ready, receivers.len())
            })
        })
    })
}

fn measure_epoll(receivers: &[TcpStream], trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(call_failed("epoll_create1"))?;
    for socket in receivers {
        let added = epoll::add(&epoll, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        added.map_err(call_failed("epoll_ctl"))?;
    }
    let mut events = Vec::with_capacity(receivers.len());
    let at_once = Timespec::default();
    batch::measure(trial.budget, Scale::nanos(1.0), pace, |units| {
        timed(|| {
            (0..units).try_for_each(|_| {
                events.clear();
                let free = rustix::buffer::spare_capacity(&mut events);
                let ready = epoll::wait(&epoll, free, Some(&at_once)).map_err(call_failed("epoll_wait"))?;
                all_ready(ready, receivers.len())
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
