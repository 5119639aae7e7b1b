use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::write;

use super::aio::Aio;
use super::timed::Timed;
use super::*;

/// A limit longer than any wait in these tests.
const LONG: Duration = Duration::from_secs(10);

fn is_readable(fd: &EventFd) -> bool {
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

/// An eventfd as a hostile peer leaves it: the next plain write waits for a reader.
fn brimful() -> EventFd {
    let fd = EventFd::adopt(eventfd(0, EventfdFlags::CLOEXEC).unwrap()).unwrap();
    write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    let flags = fcntl_getfl(&fd).unwrap();
    fcntl_setfl(&fd, flags - OFlags::NONBLOCK).unwrap();
    fd
}

/// Runs a function in a separate thread; panics if it takes too long.
fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(what()));
    answer.recv_timeout(LONG).expect("an answer, instead of waiting for ever")
}

#[test]
fn a_blocking_eventfd_never_makes_anybody_wait() {
    let fd = EventFd::adopt(eventfd(0, EventfdFlags::CLOEXEC).unwrap()).unwrap();
    fd.notify();
    assert!(is_readable(&fd));
    fd.drain();
    assert!(!is_readable(&fd));
    fd.drain();
    in_time(|| {
        let fd = brimful();
        for _ in 0..200 {
            fd.notify();
        }
        assert!(is_readable(&fd));
        fd.drain();
        // The peer may turn the mode back; reading an empty one does not wait either.
        fd.drain();
        fd.notify();
        assert!(is_readable(&fd));
    });
}

/// The peer clears the flag and fills the counter over and over while it is notified.
#[test]
fn no_race_makes_anybody_wait() {
    let ours = brimful();
    let theirs = ours.share().unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let hostile = {
        let end = Arc::clone(&end);
        std::thread::spawn(move || {
            let poke = eventfd_flags(&theirs);
            while !end.load(Ordering::Relaxed) {
                fcntl_setfl(&theirs, poke | OFlags::NONBLOCK).unwrap();
                let _ = rustix::io::read(&theirs, &mut [0; 8]);
                let _ = write(&theirs, &(u64::MAX - 1).to_ne_bytes());
                fcntl_setfl(&theirs, poke).unwrap();
            }
        })
    };
    in_time(move || {
        for _ in 0..20_000 {
            ours.notify();
        }
    });
    end.store(true, Ordering::Relaxed);
    hostile.join().unwrap();
}

fn eventfd_flags(fd: &OwnedFd) -> OFlags {
    fcntl_getfl(fd).unwrap() - OFlags::NONBLOCK
}

/// The way for systems without AIO: broken off within milliseconds, and then left alone.
#[test]
fn without_aio_a_wait_is_broken_off() {
    in_time(|| {
        let mut timed = Timed::new().unwrap();
        let fd = EventFd::new().unwrap();
        assert!(timed.signal(fd.as_fd()));
        assert!(is_readable(&fd));
        let fd = brimful();
        let since = Instant::now();
        assert!(!timed.signal(fd.as_fd()), "it is known to be hostile");
        println!("broken off after {:?}", since.elapsed());
    });
}

#[test]
fn a_notification_reaches_the_shared_descriptor() {
    let ours = EventFd::new().unwrap();
    let theirs = EventFd::adopt(ours.share().unwrap()).unwrap();
    theirs.notify();
    theirs.notify();
    let mut count = [0; 8];
    assert_eq!(rustix::io::read(&ours, &mut count), Ok(8));
    assert_eq!(u64::from_ne_bytes(count), 2);
    theirs.notify();
    ours.drain();
    assert_eq!(rustix::io::read(&theirs, &mut count), Err(Errno::AGAIN));
}

/// Anonymous inodes other than eventfds, too: what a write to those does is not a notification.
#[test]
fn what_is_no_eventfd_is_refused() {
    use rustix::fs::inotify;
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
    let others: [(&str, OwnedFd); 8] = [
        ("socket", UnixStream::pair().unwrap().0.into()),
        ("pipe", std::io::pipe().unwrap().1.into()),
        ("file", std::fs::File::open("/dev/null").unwrap().into()),
        ("memfd", rustix::fs::memfd_create("anon_inode:[eventfd]", rustix::fs::MemfdFlags::CLOEXEC).unwrap()),
        ("epoll", epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()),
        ("timerfd", timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).unwrap()),
        ("inotify", inotify::init(inotify::CreateFlags::empty()).unwrap()),
        ("pidfd", pidfd_open(getpid(), PidfdFlags::empty()).unwrap()),
    ];
    let aio = Aio::new().unwrap();
    for (kind, fd) in others {
        assert_eq!(aio.is_event_fd(fd.as_fd()), Ok(false), "{kind}, where there is no /proc");
        assert_eq!(EventFd::adopt(fd).unwrap_err(), NotAnEventFd::OtherKind, "{kind}");
    }
    let fd = EventFd::new().unwrap();
    assert_eq!(aio.is_event_fd(fd.as_fd()), Ok(true));
    assert!(!is_readable(&fd), "asking does not signal");
}

/// The cost of a notification that never waits. There is no limit: the figures are printed for a decision.
#[test]
fn costs_of_a_notification() {
    const TIMES: u32 = 20_000;
    let fd = EventFd::new().unwrap();
    let (mut aio, mut timed) = (Aio::new().unwrap(), Timed::new().unwrap());
    let cost = |how: &mut dyn FnMut()| {
        let since = Instant::now();
        (0..TIMES).for_each(|_| how());
        since.elapsed() / TIMES
    };
    let plain = cost(&mut || _ = write(&fd, &1u64.to_ne_bytes()));
    let aio = cost(&mut || aio.signal(fd.as_fd()).unwrap());
    let timed = cost(&mut || _ = timed.signal(fd.as_fd()));
    println!("one notification: plain write {plain:?}, by AIO {aio:?}, write with a timer {timed:?}");
}
