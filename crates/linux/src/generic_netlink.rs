//! A client of generic netlink: numbered commands with attributes, to a family of the kernel (genetlink(7),
//! linux/netlink.h, linux/genetlink.h).

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// The family of the controller, which knows the numbers of all families.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// The type of an acknowledgement, with 0 or a negated error.
const ERROR: u16 = 2;

const MESSAGE_HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;

/// A family, reached through a socket of its own.
#[derive(Debug)]
pub struct Family {
    socket: OwnedFd,
    id: u16,
    sequence: u32,
}

/// An attribute: its type and its bytes.
pub type Attribute<'a> = (u16, &'a [u8]);

impl Family {
    /// Looks for a family by its name.
    ///
    /// # Errors
    /// The kernel has no such family (`ENOENT`), often because its module is not loaded, or refuses the socket.
    pub fn find(name: &str) -> io::Result<Self> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(GENERIC))?;
        let mut family = Family { socket, id: CONTROLLER, sequence: 0 };
        let answer = family.call(GET_FAMILY, 1, &[(FAMILY_NAME, text(name).as_slice())])?;
        let id = attributes(&answer).find(|(kind, _)| *kind == FAMILY_ID);
        let id = id.and_then(|(_, bytes)| Some(u16::from_ne_bytes(bytes.try_into().ok()?)));
        family.id =
            id.ok_or_else(|| io::Error::other(format!("generic netlink names no number of {name}")))?;
        Ok(family)
    }

    /// Sends a command and waits until it was carried out. Returns the attributes of the first answer; empty if the
    /// command has none.
    ///
    /// # Errors
    /// The kernel's answer to the command, or a broken message.
    pub fn call(&mut self, command: u8, version: u8, attributes: &[Attribute<'_>]) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let message = message(self.id, self.sequence, command, version, attributes);
        sendto(&self.socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = None;
        let mut bytes = vec![0; 1 << 16];
        loop {
            let (received, _) = recv(&self.socket, &mut bytes[..], RecvFlags::empty())?;
            for Answer { kind, sequence, payload } in answers(&bytes[..received]) {
                if sequence != self.sequence {
                    continue;
                }
                if kind == ERROR {
                    return acknowledged(payload).map(|()| answer.unwrap_or_default());
                }
                answer.get_or_insert_with(|| payload.get(GENERIC_HEADER..).unwrap_or_default().to_vec());
            }
        }
    }
}

/// A text as an attribute has it.
pub fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

fn message(family: u16, sequence: u32, command: u8, version: u8, attributes: &[Attribute<'_>]) -> Vec<u8> {
    let mut message = vec![0; MESSAGE_HEADER];
    message.extend([command, version, 0, 0]);
    for (kind, bytes) in attributes {
        let length = (ATTRIBUTE_HEADER + bytes.len()) as u16;
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend_from_slice(bytes);
        message.resize(padded(message.len()), 0);
    }
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&family.to_ne_bytes());
    message[6..8].copy_from_slice(&(REQUEST | ACKNOWLEDGE).to_ne_bytes());
    message[8..12].copy_from_slice(&sequence.to_ne_bytes());
    message
}

/// A message of the kernel.
pub(crate) struct Answer<'a> {
    pub kind: u16,
    pub sequence: u32,
    pub payload: &'a [u8],
}

pub(crate) fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The messages of a datagram. Messages behind a malformed one are left out.
pub(crate) fn answers(mut bytes: &[u8]) -> impl Iterator<Item = Answer<'_>> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(word(bytes, 0)?) as usize;
        let (kind, sequence) = (u16::from_ne_bytes(word(bytes, 4)?), u32::from_ne_bytes(word(bytes, 8)?));
        let payload = bytes.get(MESSAGE_HEADER..length)?;
        bytes = bytes.get(padded(length)..).unwrap_or_default();
        Some(Answer { kind, sequence, payload })
    })
}

/// The attributes of an answer. Attributes behind a malformed one are left out.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(word(bytes, 0)?));
        let kind = u16::from_ne_bytes(word(bytes, 2)?);
        let value = bytes.get(ATTRIBUTE_HEADER..length)?;
        bytes = bytes.get(padded(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn acknowledged(payload: &[u8]) -> io::Result<()> {
    let code = word(payload, 0).map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
        None => Err(io::Error::other("an acknowledgement without a result")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_lengths_and_its_padding() {
        let message = message(0x1f, 9, 3, 1, &[(2, b"vdpa\0"), (7, &[])]);
        assert_eq!(message.len(), 16 + 4 + 12 + 4);
        let [answer] = answers(&message).collect::<Vec<_>>().try_into().ok().unwrap();
        assert_eq!((answer.kind, answer.sequence), (0x1f, 9));
        assert_eq!(answer.payload[..2], [3, 1]);
        let read: Vec<_> = attributes(&answer.payload[GENERIC_HEADER..]).collect();
        assert_eq!(read, [(2, &b"vdpa\0"[..]), (7, &[])]);
    }

    #[test]
    fn malformed_messages_end_the_list() {
        let good = message(1, 1, 1, 1, &[(1, b"abcd")]);
        for length in 0..good.len() {
            assert_eq!(answers(&good[..length]).count(), 0, "{length}");
        }
        for length in [0u32, 15, 1000, u32::MAX] {
            let bad = [&length.to_ne_bytes(), &good[4..]].concat();
            assert_eq!(answers(&bad).count(), 0, "{length}");
        }
        for length in [0u16, 3, 9, u16::MAX] {
            let bad = [&length.to_ne_bytes()[..], &[1, 0, 5, 6, 7, 8]].concat();
            assert_eq!(attributes(&bad).count(), 0, "{length}");
        }
        assert_eq!(acknowledged(&(-17i32).to_ne_bytes()).unwrap_err().raw_os_error(), Some(17));
        assert!(acknowledged(&[0; 4]).is_ok() && acknowledged(&[0; 3]).is_err());
        assert!(acknowledged(&i32::MIN.to_ne_bytes()).is_err());
    }

    /// Each kernel has the controller itself, also where modules are missing.
    #[test]
    fn a_family_is_found_by_its_name() {
        match Family::find("nlctrl") {
            Ok(family) => assert_eq!(family.id, CONTROLLER),
            // A sandbox that refuses such sockets.
            Err(error) => assert_ne!(error.raw_os_error(), Some(libc::ENOENT), "{error}"),
        }
        let error = Family::find("no-such-family").unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }
}
