//! The server of QEMU's `ivshmem-doorbell` device (QEMU, docs/specs/ivshmem-spec.rst): memory that a guest shares with
//! this process, and interrupts to it.
//!
//! `-chardev socket,path=SOCKET,id=iv -device ivshmem-doorbell,vectors=N,chardev=iv`. If the accelerator has irqfds,
//! QEMU turns each vector's eventfd into one, and [`Peer::ring`] interrupts the guest without any thread of QEMU.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use measure::Failure;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::process::Pid;

use super::message::{MEMORY, VERSION, send};

/// The first peer's number; there is one guest a server.
const GUEST: i64 = 0;
/// The device has no more (hw/misc/ivshmem.c, IVSHMEM_MAX_PEERS and the size of its MSI-X table).
const MOST_VECTORS: usize = 64;

/// Accepts one guest after the other. All of them have the same memory and the same interrupts.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    memory: OwnedFd,
    bytes: u64,
    vectors: Vec<OwnedFd>,
}

/// A connected guest with its interrupts.
#[derive(Debug)]
pub struct Peer {
    /// The connection, which is used to report other peers. Closing it has no effect on the guest.
    connection: UnixStream,
    vectors: Vec<OwnedFd>,
}

impl Server {
    /// Listens at `socket`, with shared memory of `bytes` (a power of two and at least a page, because it becomes a
    /// PCI BAR) and `vectors` interrupt vectors.
    ///
    /// # Errors
    /// The sizes are impossible for a PCI device, the path cannot be bound, or there is no memory.
    pub fn listen(socket: &Path, bytes: u64, vectors: usize) -> Result<Self, Failure> {
        let tried =
            || format!("an ivshmem server at {} with {bytes} bytes and {vectors} vectors", socket.display());
        if !bytes.is_power_of_two() || bytes < 4096 || !(1..=MOST_VECTORS).contains(&vectors) {
            let remedy = format!("give a power of two from 4096 on, and 1 to {MOST_VECTORS} vectors");
            return Err(Failure::new(tried(), "no PCI device is like that", remedy));
        }
        let made = || -> io::Result<Self> {
            let memory = memfd_create("tautline-ivshmem", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&memory, bytes)?;
            // QEMU cannot take away what this process reads.
            fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW)?;
            let vectors = (0..vectors)
                .map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))
                .collect::<Result<_, _>>()?;
            Ok(Server { listener: UnixListener::bind(socket)?, memory, bytes, vectors })
        };
        made().map_err(|error| {
            Failure::new(tried(), error, "see that the folder can be written and has no such file")
        })
    }

    /// The shared memory, to be mapped.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Waits up to `limit` for QEMU to connect, and sends it the memory and the interrupts.
    ///
    /// # Errors
    /// QEMU did not connect, or closed the connection.
    pub fn accept(&self, limit: Duration) -> Result<Peer, Failure> {
        let failed = |error: io::Error| {
            let remedy = "see QEMU's output; its device is -device ivshmem-doorbell,chardev=ID,vectors=N";
            Failure::new("waiting for QEMU's ivshmem device", error, remedy)
        };
        wait_readable(self.listener.as_fd(), limit).map_err(failed)?;
        let (connection, _) = self.listener.accept().map_err(failed)?;
        connection.set_write_timeout(Some(limit)).map_err(failed)?;
        let greet = || -> io::Result<()> {
            send(&connection, VERSION, None)?;
            send(&connection, GUEST, None)?;
            send(&connection, MEMORY, Some(self.memory.as_fd()))?;
            // No other peers. Its own vectors, in order.
            self.vectors.iter().try_for_each(|vector| send(&connection, GUEST, Some(vector.as_fd())))
        };
        greet().map_err(failed)?;
        let vectors = self.vectors.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>();
        Ok(Peer { connection, vectors: vectors.map_err(failed)? })
    }
}

impl Peer {
    /// The process id of the client: QEMU, or the receiver itself; 0 if the kernel does not report it.
    pub fn process(&self) -> i32 {
        let peer = linux::peer::peer(&self.connection).ok();
        Pid::as_raw(peer.and_then(|peer| peer.process))
    }

    /// Interrupts the guest. Interrupts that the guest has not taken yet merge with this one. A sender that must not
    /// lose any has to number them in the shared memory.
    ///
    /// # Errors
    /// There is no such vector, or 2^64-1 interrupts were not taken.
    pub fn ring(&self, vector: usize) -> io::Result<()> {
        let vector = self.vectors.get(vector).ok_or(io::ErrorKind::InvalidInput)?;
        rustix::io::write(vector, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    /// A vector's eventfd, for code that signals it directly.
    pub fn vector(&self, vector: usize) -> Option<BorrowedFd<'_>> {
        self.vectors.get(vector).map(AsFd::as_fd)
    }
}

fn wait_readable(fd: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not connect in time")),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::connect;
    use super::super::message::receive;
    use super::*;

    fn message(stream: &UnixStream) -> (i64, Option<OwnedFd>) {
        receive(stream).unwrap()
    }

    /// The messages in the order of the specification's section "Client-Server protocol".
    #[test]
    fn a_guest_gets_its_memory_and_its_vectors_and_hears_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("iv");
        let server = Server::listen(&path, 1 << 20, 2).unwrap();
        assert_eq!(rustix::fs::fstat(server.memory()).unwrap().st_size, 1 << 20);
        let guest = UnixStream::connect(&path).unwrap();
        let doorbell = server.accept(Duration::from_secs(5)).unwrap();
        assert!(matches!(message(&guest), (0, None)));
        assert!(matches!(message(&guest), (0, None)));
        let (minus_one, memory) = message(&guest);
        assert_eq!(minus_one, -1);
        assert_eq!(rustix::fs::fstat(memory.unwrap()).unwrap().st_size, 1 << 20);
        let vectors: Vec<OwnedFd> = (0..2)
            .map(|_| {
                let (peer, descriptor) = message(&guest);
                assert_eq!(peer, 0);
                descriptor.unwrap()
            })
            .collect();
        doorbell.ring(1).unwrap();
        doorbell.ring(1).unwrap();
        let mut count = [0; 8];
        assert!(rustix::io::read(&vectors[0], &mut count).is_err(), "the other vector is silent");
        rustix::io::read(&vectors[1], &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 2);
        assert!(doorbell.ring(2).is_err());
    }

    #[test]
    fn a_client_that_is_no_guest_gets_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("iv");
        let server = Server::listen(&path, 1 << 20, 2).unwrap();
        let client = {
            let path = path.clone();
            std::thread::spawn(move || connect(&path, 2, Duration::from_secs(5)))
        };
        let doorbell = server.accept(Duration::from_secs(5)).unwrap();
        let (memory, vectors) = client.join().unwrap().unwrap();
        assert_eq!(rustix::fs::fstat(memory).unwrap().st_size, 1 << 20);
        doorbell.ring(0).unwrap();
        let mut count = [0; 8];
        rustix::io::read(&vectors[0], &mut count).unwrap();
        assert!(rustix::io::read(&vectors[1], &mut count).is_err(), "the other vector is silent");
        drop(doorbell);
        let gone = connect(&path, 1, Duration::from_millis(200)).unwrap_err().to_string();
        assert!(gone.contains("see whether the source"), "{gone}");
    }

    #[test]
    fn sizes_that_no_device_has_and_a_guest_that_does_not_come_are_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("iv");
        for (bytes, vectors) in [(0, 1), (4095, 1), (6144, 1), (4096, 0), (4096, 65)] {
            assert!(Server::listen(&path, bytes, vectors).is_err(), "{bytes} {vectors}");
        }
        let server = Server::listen(&path, 4096, 1).unwrap();
        let late = server.accept(Duration::from_millis(50)).unwrap_err();
        assert!(late.to_string().contains("did not connect in time"), "{late}");
        let taken = Server::listen(&path, 4096, 1).unwrap_err();
        assert!(taken.to_string().contains("in use"), "{taken}");
    }
}
