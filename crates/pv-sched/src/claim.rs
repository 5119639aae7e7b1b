//! Shares of a CPU's time. Each program that raises vCPUs on a CPU claims one, so that several daemons together do
//! not exceed the limit that each of them keeps.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use measure::Failure;

use crate::settings::{MAX_PERCENT, Settings};

/// A claimed share, until this is dropped. It is a socket's abstract name (unix(7)), which the kernel releases even
/// if the process is killed. Processes in other network namespaces have separate names.
#[derive(Debug)]
pub struct Claim {
    _name: UnixDatagram,
}

impl Claim {
    /// Claims a share for one vCPU, raised within the usual limits, on a CPU.
    ///
    /// # Errors
    /// Other processes have claimed all shares of this CPU.
    pub fn of(cpu: usize) -> Result<Self, Failure> {
        let parts = MAX_PERCENT / Settings::default().percent();
        for part in 0..parts {
            let name = format!("tautline-pv-sched-{cpu}-{part}");
            let bound = SocketAddr::from_abstract_name(name).and_then(|name| UnixDatagram::bind_addr(&name));
            match bound {
                Ok(name) => return Ok(Claim { _name: name }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(refused(cpu, error.to_string())),
            }
        }
        Err(refused(cpu, format!("{parts} vCPUs that may be raised are there already")))
    }
}

fn refused(cpu: usize, answer: String) -> Failure {
    let remedy = "give the guest another CPU, or run it without --pv-sched";
    Failure::new(format!("claiming time of CPU {cpu} for a vCPU that is raised"), answer, remedy)
}
