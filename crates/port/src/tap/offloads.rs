//! Which offloads this kernel's TAPs know.
use std::io;
use std::os::fd::BorrowedFd;

use virtio::net::Accepts;

use super::sys;

/// From most to least: USO came with Linux 6.2, UFO is known or ignored ever since there are net headers.
const SETS: [libc::c_uint; 4] = {
    let checksum = libc::TUN_F_CSUM;
    let tcp = checksum | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let fragments = tcp | libc::TUN_F_UFO;
    [fragments | libc::TUN_F_USO4 | libc::TUN_F_USO6, fragments, tcp, checksum]
};

/// Switches on all offloads that the kernel knows, or none if `wanted` is false. Returns what the kernel accepts.
pub(super) fn negotiate(fd: BorrowedFd<'_>, wanted: bool) -> io::Result<Accepts> {
    if !wanted {
        return sys::set_offloads(fd, 0).map(|()| Accepts::NOTHING);
    }
    let mut refused = None;
    for set in SETS {
        match sys::set_offloads(fd, set) {
            Ok(()) => return Ok(accepts(set)),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
}

/// A kernel accepts with a frame the offloads that it can also send with one; checksums and TSO are older than TAPs of
/// several queues.
fn accepts(set: libc::c_uint) -> Accepts {
    let has = |flag| set & flag != 0;
    Accepts {
        checksum: true,
        tcp_v4: true,
        tcp_v6: true,
        ecn: true,
        udp_fragments: has(libc::TUN_F_UFO),
        udp_segments: has(libc::TUN_F_USO4) && has(libc::TUN_F_USO6),
    }
}
