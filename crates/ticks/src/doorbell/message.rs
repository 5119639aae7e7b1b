//! The only message of the protocol: eight bytes, little-endian, and at most one descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The only version of the protocol.
pub(super) const VERSION: i64 = 0;
/// Sent in place of a peer's number, with the descriptor of the shared memory.
pub(super) const MEMORY: i64 = -1;

pub(super) fn send(
    connection: &UnixStream,
    value: i64,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = value.to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let sent = sendmsg(connection, &[io::IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

pub(super) fn receive(connection: &UnixStream) -> io::Result<(i64, Option<OwnedFd>)> {
    let mut bytes = [0; size_of::<i64>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        connection.as_fd(),
        &mut [io::IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    if received.bytes < bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((i64::from_le_bytes(bytes), descriptor))
}
