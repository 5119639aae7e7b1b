//! A port without a switch that drops, sends or reflects frames, as testpmd's `rxonly`, `txonly` and `mac` do.
use frame::{QueueError, Side, Sink, Source};

use super::TestRig;
use crate::frames::{Fields, FrameSize, SizeMix, Stream, StreamError};

const BURST: usize = 32;

/// The treatment of frames by the port.
#[derive(Debug)]
pub enum Responder {
    /// Drops received frames.
    Drop,
    /// Sends prepared frames, as `txonly` does.
    Send(Box<Stream>),
    /// Sends received frames back, with this end's address as the source.
    Reflect,
}

/// The direction of the queue that failed, and the error.
pub type Failure = (Side, QueueError);

impl Responder {
    /// A responder that sends frames of this size.
    ///
    /// # Errors
    /// The memory for the frames is refused.
    pub fn sender(size: FrameSize) -> Result<Self, StreamError> {
        let mut stream = Stream::new(Fields::default(), &SizeMix::fixed(size), 0..1)?;
        stream.burst(BURST, |_| 0);
        Ok(Responder::Send(Box::new(stream)))
    }

    /// Processes one burst at the rig's first port. Returns how many frames were moved: 0 while its queues do not
    /// run.
    ///
    /// # Errors
    /// A queue of the port failed: the driver broke the ring's rules, or its memory was lost. The error has the
    /// queue's direction.
    #[inline(always)]
    pub fn turn(&self, rig: &mut TestRig) -> Result<usize, Failure> {
        let Some((source, sink)) = rig.end(0).pair(0) else { return Ok(0) };
        match self {
            Responder::Drop => drain(&mut **source),
            Responder::Send(stream) => send(&mut **sink, stream),
            Responder::Reflect => reflect(&mut **source, &mut **sink),
        }
    }
}

#[inline(always)]
fn drain(source: &mut dyn Source) -> Result<usize, Failure> {
    let frames = source.rx_burst(BURST).map_err(|why| (Side::FromGuest, why))?.len();
    if source.needs_release() {
        source.release();
    }
    Ok(frames)
}

#[inline(always)]
fn send(sink: &mut dyn Sink, stream: &Stream) -> Result<usize, Failure> {
    let room = sink.room().min(BURST);
    if room > 0 {
        let (batch, which) = stream.again(room);
        sink.accept(batch, which).map_err(|why| (Side::ToGuest, why))?;
    }
    Ok(room)
}

/// Addresses as testpmd's `mac` writes them: to a station of the sender's net, from this end.
const TO: [u8; 6] = [0x02, 0, 0, 0, 0, 0];
const FROM: [u8; 6] = [0x02, 0, 0, 0, 0, 0x02];

#[inline(always)]
fn reflect(source: &mut dyn Source, sink: &mut dyn Sink) -> Result<usize, Failure> {
    const WHICH: [u16; BURST] = {
        let mut which = [0; BURST];
        let mut i = 0;
        while i < BURST {
            which[i] = i as u16;
            i += 1;
        }
        which
    };
    let frames = source.rx_burst(BURST).map_err(|why| (Side::FromGuest, why))?.len();
    let mut accepted = Ok(());
    if let Some(batch) = source.batch_mut() {
        for i in 0..frames {
            let head = batch.snapshot_mut(i);
            head[..6].copy_from_slice(&TO);
            head[6..12].copy_from_slice(&FROM);
        }
        accepted = sink.accept(batch, &WHICH[..frames]);
    }
    if source.needs_release() {
        source.release();
    }
    accepted.map_err(|why| (Side::ToGuest, why))?;
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::in_memory::InMemory;

    /// A responder at one end of a pair of ports in memory, and the frames that return at the other end.
    fn answers(responder: &Responder, sent: usize) -> (usize, Vec<[u8; 12]>) {
        let (one, other) = InMemory::pair(1, Default::default()).unwrap();
        let (mut rig, mut peer) = (TestRig::new(), TestRig::new());
        rig.attach("responder", Box::new(one)).unwrap();
        peer.attach("peer", Box::new(other)).unwrap();
        let mut stream = Stream::new(Fields::default(), &SizeMix::fixed(FrameSize::MIN), 0..1).unwrap();
        let (source, sink) = peer.end(0).pair(0).unwrap();
        let (batch, which) = stream.burst(sent, |_| 0);
        sink.accept(batch, which).unwrap();
        let moved = responder.turn(&mut rig).unwrap();
        let batch = source.rx_burst(64).unwrap();
        let heads = batch.frames().map(|frame| *frame.snapshot().first_chunk().unwrap()).collect();
        (moved, heads)
    }

    #[test]
    fn it_drops_or_sends() {
        assert_eq!(answers(&Responder::Drop, 5), (5, Vec::new()));
        let (moved, heads) = answers(&Responder::sender(FrameSize::MIN).unwrap(), 0);
        assert_eq!((moved, heads.len()), (BURST, BURST));
    }
}
