//! Rings in wrong places, of wrong sizes, and malformed.
use super::*;

#[test]
fn rings_outside_the_memory() {
    let _alone = alone();
    // A guest address where the front-end's is meant, the first byte behind the region, the last of all.
    for at in [RINGS, USER + RINGS + RINGS_BYTES, u64::MAX - 15] {
        for field in 0..3 {
            refused_start(|guest, host, index| {
                let mut address = ring_addresses(index);
                let part = [&mut address.descriptor, &mut address.available, &mut address.used]
                    .into_iter()
                    .nth(field);
                *part.unwrap() = at;
                guest.ask(host, Request::SetVringAddr(address), vec![]);
            });
        }
    }
}

#[test]
fn rings_that_reach_out_of_their_region() {
    let _alone = alone();
    refused_start(|guest, host, index| {
        let descriptor = USER + RINGS + RINGS_BYTES - 512;
        let address = VringAddress { descriptor, ..ring_addresses(index) };
        guest.ask(host, Request::SetVringAddr(address), vec![]);
    });
}

/// Sizes that no queue has.
#[test]
fn ring_sizes_of_nothing_and_of_too_much() {
    let _alone = alone();
    for num in [0, 32769, 65536, u32::MAX] {
        attacked(plain(), |host, mut guest, others| {
            guest.share_memory(host);
            guest.prepare_ring(host, 1);
            let answer = guest.try_ask(host, Request::SetVringNum(VringState { index: 1, num }), vec![]);
            assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
            others.pass();
        });
    }
    // Not a power of two, and larger than the memory of the ring.
    for num in [3, 32768] {
        attacked(plain(), |host, mut guest, _| {
            guest.share_memory(host);
            guest.prepare_ring(host, 1);
            guest.ask(host, Request::SetVringNum(VringState { index: 1, num }), vec![]);
            if num == 32768 {
                let at = USER + RINGS + RINGS_BYTES - 0x1000;
                let address = VringAddress { available: at, ..ring_addresses(1) };
                guest.ask(host, Request::SetVringAddr(address), vec![]);
            }
            let answer = guest.kick_off(host, 1);
            assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
        });
    }
}

/// A malformed ring stops by itself; its driver is told in every way there is.
#[test]
fn malformed_rings() {
    let _alone = alone();
    for (features, index) in layouts().into_iter().flat_map(|features| [(features, 0), (features, 1)]) {
        attacked(features, |host, mut guest, others| {
            guest.share_memory(host);
            let err = event_fd();
            let fd = VringFd { index, has_fd: true };
            guest.ask(host, Request::SetVringErr(fd), vec![err.try_clone().unwrap()]);
            guest.start_ring(host, index);
            let (descriptors, driver, _) = ring_at(index);
            if features.contains(Features::RING_PACKED) {
                // A buffer id far beyond the queue, available (A set, U clear), as device and driver agree.
                let write = if index == 0 { 2 } else { 0 };
                let mut descriptor = [0; 16];
                descriptor[..8].copy_from_slice(&DATA.to_le_bytes());
                descriptor[8..12].copy_from_slice(&100u32.to_le_bytes());
                descriptor[12..14].copy_from_slice(&0x7fffu16.to_le_bytes());
                descriptor[14..].copy_from_slice(&(0x80u16 | write).to_le_bytes());
                guest.write(descriptors, &descriptor);
            } else {
                // More available than the queue holds.
                guest.write(driver + 2, &1000u16.to_le_bytes());
            }
            match index {
                0 => {
                    others.alice.send(1, &frame(1, 60));
                    others.left.forward(0, host, 0);
                    others.alice.used(1);
                    assert_eq!(host.drops(0, Side::ToGuest, DropReason::MalformedRing), 1);
                }
                _ => assert_eq!(host.forward(0, &mut others.right, 0), 0),
            }
            assert!(host.context.sources.is_empty() && host.context.sinks.is_empty());
            let logged = host.context.logged.last().unwrap();
            assert!(logged.contains("VIRTIO 1.3 §") && logged.contains("reset"), "{logged}");
            assert!(is_readable(&err), "the driver was not told");
            let status = guest.ask(host, Request::GetStatus, vec![]);
            assert!(matches!(status, Some(Answer::Number { value: 0x40, .. })), "{status:?}");
            assert!(host.port.describe().contains("1 malformed"), "{}", host.port.describe());
            others.pass();
            // Stopped, set right, and started again.
            guest.stop_ring(host, index);
            guest.write(descriptors, &[0; 0x1000]);
            guest.start_ring(host, index);
            assert_eq!(host.context.sources.len() + host.context.sinks.len(), 1);
        });
    }
}
