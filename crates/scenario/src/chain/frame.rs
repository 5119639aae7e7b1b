//! Frames between members: Ethernet, with the type that IEEE 802 reserves for experiments.

/// Local experimental EtherType 1 (IEEE 802 §9.2.4).
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
const ETHERNET: usize = 14;
/// Kind, place of the sender, length of the data.
const COMMON: usize = 4;
/// The longest frame.
pub const LONGEST: usize = 1514;
/// The most members of a chain.
pub const MOST_MEMBERS: usize = 8;

const READY: u8 = 1;
const DATA: u8 = 2;
const TICK_END: u8 = 3;
const END: u8 = 4;
const END_HEARD: u8 = 5;

/// A message from one member to the next. [`Frame::Ready`] and [`Frame::EndHeard`] go in the other direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The sender and all members after it can receive frames.
    Ready,
    /// Data for a user.
    Data {
        /// The tick that the work belongs to.
        tick: u64,
        /// Which user.
        user: u32,
        /// The data.
        bytes: &'a [u8],
    },
    /// Marks the end of a tick's frames.
    TickEnd(TickEnd),
    /// Marks the end of the chain.
    End,
    /// The answer to `End`.
    EndHeard,
}

/// When a tick's work arrived at each member and was passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickEnd {
    /// Counted from 1.
    pub tick: u64,
    /// When the tick was due, ns of the first member's clock.
    pub due_ns: u64,
    /// The number of data frames that the sender sent for the tick.
    pub frames: u32,
    /// For each member, when the tick's end arrived and when it was passed on, ns after the tick was due. For the
    /// first member there is no arrival. Times before due, or more than 4 s after it, are set to the limit.
    pub times_ns: [[u32; 2]; MOST_MEMBERS],
}

/// A member's Ethernet address.
pub fn address(place: usize) -> [u8; 6] {
    [0x02, 0x54, 0x4c, 0, 0, place as u8]
}

/// Writes a frame from the member at `from` to the one at `to`. Data that is too long for a frame is left out.
pub fn write(from: usize, to: usize, frame: &Frame<'_>, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.extend_from_slice(&address(to));
    bytes.extend_from_slice(&address(from));
    bytes.extend_from_slice(&ETHER_TYPE);
    let mut common = |kind: u8, data: usize| {
        bytes.extend_from_slice(&[kind, from as u8]);
        bytes.extend_from_slice(&(data as u16).to_be_bytes());
    };
    match frame {
        Frame::Ready => common(READY, 0),
        Frame::End => common(END, 0),
        Frame::EndHeard => common(END_HEARD, 0),
        Frame::Data { tick, user, bytes: data } => {
            common(DATA, data.len());
            bytes.extend_from_slice(&tick.to_be_bytes());
            bytes.extend_from_slice(&user.to_be_bytes());
            bytes.extend_from_slice(data);
        }
        Frame::TickEnd(end) => {
            common(TICK_END, 0);
            bytes.extend_from_slice(&end.tick.to_be_bytes());
            bytes.extend_from_slice(&end.due_ns.to_be_bytes());
            bytes.extend_from_slice(&end.frames.to_be_bytes());
            for time_ns in end.times_ns.iter().flatten() {
                bytes.extend_from_slice(&time_ns.to_be_bytes());
            }
        }
    }
}

/// Reads a frame to the member at `to`. Returns the sender's number and the frame. `None` for a frame to another
/// address, which a switch floods while it does not know the address, and for a frame of another protocol.
pub fn read(to: usize, bytes: &[u8]) -> Option<(usize, Frame<'_>)> {
    let mut rest = bytes.get(ETHERNET..)?;
    if bytes[..6] != address(to) || bytes[12..ETHERNET] != ETHER_TYPE {
        return None;
    }
    let [kind, from, high, low] = take(&mut rest)?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let frame = match kind {
        READY => Frame::Ready,
        END => Frame::End,
        END_HEARD => Frame::EndHeard,
        DATA => {
            let (tick, user) = (u64::from_be_bytes(take(&mut rest)?), u32::from_be_bytes(take(&mut rest)?));
            Frame::Data { tick, user, bytes: rest.get(..length)? }
        }
        TICK_END => {
            let mut end = TickEnd {
                tick: u64::from_be_bytes(take(&mut rest)?),
                due_ns: u64::from_be_bytes(take(&mut rest)?),
                frames: u32::from_be_bytes(take(&mut rest)?),
                ..TickEnd::default()
            };
            for time_ns in end.times_ns.iter_mut().flatten() {
                *time_ns = u32::from_be_bytes(take(&mut rest)?);
            }
            Frame::TickEnd(end)
        }
        _ => return None,
    };
    Some((from.into(), frame))
}

/// The most data of a data frame.
pub const MOST_DATA: usize = LONGEST - ETHERNET - COMMON - 12;

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_survive_the_way(tick: u64, user: u32, data in prop::collection::vec(any::<u8>(), 0..MOST_DATA), due_ns: u64, frames: u32, time: u32) {
            let end = TickEnd { tick, due_ns, frames, times_ns: [[time, !time]; MOST_MEMBERS] };
            for frame in [Frame::Ready, Frame::End, Frame::EndHeard, Frame::TickEnd(end), Frame::Data { tick, user, bytes: &data }] {
                let mut bytes = Vec::new();
                write(1, 2, &frame, &mut bytes);
                prop_assert!(bytes.len() <= LONGEST);
                prop_assert_eq!(read(3, &bytes), None);
                prop_assert_eq!(read(2, &bytes), Some((1, frame)));
                // Ethernet pads short frames.
                bytes.resize(bytes.len().max(60), 0);
                prop_assert_eq!(read(2, &bytes), Some((1, frame)));
            }
        }

        #[test]
        fn no_frame_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0..7u8) {
            let _ = read(0, &bytes);
            if let Some(head) = bytes.get_mut(..15) {
                head[..6].copy_from_slice(&address(0));
                head[12..14].copy_from_slice(&ETHER_TYPE);
                head[14] = kind;
                let _ = read(0, &bytes);
            }
        }
    }
}
