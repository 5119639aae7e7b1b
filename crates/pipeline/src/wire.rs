//! Programs that read no address.
use frame::{DropReason, FrameBatch};
use virtio::net::MacAddress;

use crate::{Admission, Announced, Flooded, Now, Output, PortId, Program, Reach};

/// All frames go to one port, whatever their addresses, and no address is learned.
#[derive(Debug)]
pub struct Wire {
    to: PortId,
    admission: Admission,
}

impl Wire {
    /// A wire to this port.
    pub fn new(to: PortId, admission: Admission) -> Self {
        Wire { to, admission }
    }

    fn each(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) {
        let open = self.admission.is_open();
        let passing = self.admission.police(batch, now, output);
        for frames in self.admission.runs(batch, passing) {
            let count = frames.len() as u64;
            // A wire without limits carries every frame, as a cable does.
            let admitted =
                if open { Ok(()) } else { self.admission.admit(&batch.frame(frames.start.into())) };
            let sent = admitted.and_then(|()| match output.send(self.to, frames) {
                true => Ok(()),
                false => Err(DropReason::NotConnected),
            });
            if let Err(reason) = sent {
                output.drop(reason, count);
            }
        }
    }
}

impl Program for Wire {
    fn run(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded {
        if !(self.admission.is_open() && output.send_all(self.to)) {
            self.each(batch, now, output);
        }
        Flooded::default()
    }

    fn reach(&self) -> Reach<'_> {
        Reach::Port(self.to)
    }

    fn announce(&self, address: MacAddress) -> Announced {
        // No address is learned, but the frame that tells of it is carried.
        if self.admission.allows(address) { Announced::Accepted } else { Announced::NotAllowed }
    }
}

/// Drops all frames, and allows no station behind the port.
#[derive(Debug)]
pub struct Nowhere;

impl Program for Nowhere {
    fn run(&self, batch: &FrameBatch, _now: Now<'_>, output: &mut dyn Output) -> Flooded {
        output.drop(DropReason::NowhereToGo, batch.len() as u64);
        Flooded::default()
    }

    fn reach(&self) -> Reach<'_> {
        Reach::Nowhere
    }

    fn announce(&self, _address: MacAddress) -> Announced {
        Announced::NotAllowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Recorder, Said, burst, mac, run, run_with};

    const TO: PortId = PortId(3);

    #[test]
    fn a_wire_carries_all_it_is_given_and_looks_at_none_of_it() {
        let wire = Wire::new(TO, Admission::default());
        let group = MacAddress::BROADCAST;
        let batch = burst(&[(group, group, 60), (mac(1), group, 60)]);
        assert_eq!(run(&wire, &batch), [Said::All(TO)]);
        // To several queues, each frame by its flow.
        let several = Recorder { several_queues: true, ..Recorder::default() };
        assert_eq!(run_with(&wire, &batch, several).0, [Said::Send(TO, 0..1), Said::Send(TO, 1..2)]);
        let down = Recorder { down: vec![TO], ..Recorder::default() };
        let dropped = Said::Drop(DropReason::NotConnected, 1);
        assert_eq!(run_with(&wire, &batch, down).0, [dropped.clone(), dropped]);
    }

    #[test]
    fn a_wire_with_limits_looks_at_each_frame() {
        let wire = Wire::new(TO, Admission::new(Some(vec![mac(1)]), None, None));
        let batch = burst(&[(mac(2), mac(1), 60), (mac(2), mac(3), 60)]);
        assert_eq!(run(&wire, &batch), [Said::Send(TO, 0..1), Said::Drop(DropReason::Spoofed, 1)]);
        assert_eq!(
            (wire.announce(mac(1)), wire.announce(mac(3))),
            (Announced::Accepted, Announced::NotAllowed)
        );
    }

    #[test]
    fn nowhere_counts_all_frames() {
        let batch = burst(&[(mac(2), mac(1), 60), (mac(3), mac(1), 60)]);
        assert_eq!(run(&Nowhere, &batch), [Said::Drop(DropReason::NowhereToGo, 2)]);
        assert_eq!(Nowhere.announce(mac(1)), Announced::NotAllowed);
    }
}
