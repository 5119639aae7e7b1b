//! The driver's commands on the control queue.
use frame::{DropReason, Side};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use virtio::{Features, NetFeatures};
use virtqueue::Piece;

use crate::common::frame;
use crate::common::guest::{DATA, DATA_BYTES, Guest, Host};
use crate::plain;

/// Sends a command over the control queue, waits for its answer and gives it.
fn command(guest: &mut Guest, host: &mut Host, index: u8, bytes: &[u8]) -> u8 {
    let at = DATA + DATA_BYTES / 2;
    guest.write(at, bytes);
    guest.write(at + 0x20_0000 - 1, &[0xff]);
    let piece = |address, len| Piece { address, len };
    // As Linux does it: class and command, data, answer.
    let data = [piece(at, 2), piece(at + 2, bytes.len() as u32 - 2)];
    guest.add_chain(index, &data, &[piece(at + 0x20_0000 - 1, 1)]);
    let mut used = Vec::new();
    host.until("an answer", |_| {
        used.extend(guest.used(index));
        !used.is_empty()
    });
    assert_eq!(used[0].written, 1);
    guest.read(at + 0x20_0000 - 1, 1)[0]
}

#[test]
fn commands_on_the_control_queue_are_obeyed() {
    let mac = virtio::net::MacAddress([0x52, 0x54, 0, 0, 0, 1]);
    for layout in [plain(), plain().union(Features::RING_PACKED)] {
        let mut left = Host::new(|_| {});
        let mut host = Host::new(|options| (options.net.queue_pairs, options.net.mac) = (2, Some(mac)));
        let wanted = [
            NetFeatures::MQ,
            NetFeatures::CTRL_VQ,
            NetFeatures::CTRL_RX,
            NetFeatures::CTRL_MAC_ADDR,
            NetFeatures::CTRL_GUEST_OFFLOADS,
            NetFeatures::GUEST_CSUM,
            Features::RING_EVENT_IDX,
        ];
        let mut alice = Guest::running(&mut left, plain().union(NetFeatures::CSUM));
        let mut guest = Guest::connect(&mut host, wanted.into_iter().fold(layout, Features::union));
        guest.share_memory(&mut host);
        (0..4).for_each(|index| guest.start_ring(&mut host, index));
        assert_eq!(host.context.sinks.len(), 2);
        guest.start_ring(&mut host, 4);
        assert_eq!(host.context.sinks.len(), 1, "one pair until the driver asks for more");

        assert_eq!(command(&mut guest, &mut host, 4, &[4, 0, 2, 0]), 0);
        assert_eq!(host.context.sinks.len(), 2);
        assert_eq!(command(&mut guest, &mut host, 4, &[4, 0, 3, 0]), 1);
        assert!(host.context.logged.last().unwrap().contains("3 queue pairs"), "{:?}", host.context.logged);
        assert_eq!(command(&mut guest, &mut host, 4, &[77, 0, 3, 0]), 1);
        assert_eq!(command(&mut guest, &mut host, 4, &[4, 0, 1, 0]), 0);
        assert_eq!(host.context.sinks.len(), 1);

        guest.post(0, 20, 1600);
        let mut pass = |guest: &mut Guest, host: &mut Host, header: &[u8; 12], frame: &[u8]| {
            alice.send_with(1, header, frame);
            assert_eq!(left.forward(0, host, 0), 1);
            alice.used(1);
            guest.received(0)
        };
        let (own, mut other) = (frame(1, 64), frame(2, 64));
        other[5] = 9;
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &other).len(), 1, "promiscuous at first");
        assert_eq!(command(&mut guest, &mut host, 4, &[0, 0, 0]), 0);
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &other).len(), 0);
        assert_eq!(host.drops(0, Side::ToGuest, DropReason::Filtered), 1);
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &own).len(), 1);
        assert_eq!(command(&mut guest, &mut host, 4, &[1, 1, 0x52, 0x54, 0, 0, 0, 9]), 0);
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &own).len(), 0);
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &other).len(), 1);
        // A ring that starts later has the same filter.
        let base = guest.stop_ring(&mut host, 0);
        guest.announce_ring(&mut host, 0, base.to_wire());
        guest.kick_off(&mut host, 0);
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &own).len(), 0);

        let partial = [1, 0, 0, 0, 0, 0, 14, 0, 16, 0, 0, 0];
        assert_eq!(pass(&mut guest, &mut host, &partial, &other)[0].0[0], 1, "the guest sums by itself");
        assert_eq!(command(&mut guest, &mut host, 4, &[5, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 0);
        assert_eq!(pass(&mut guest, &mut host, &partial, &other)[0].0[0] & 1, 0);

        // Status 0 is a reset: everything as at first.
        guest.ask(&mut host, Request::SetStatus(0), vec![]);
        assert_eq!(pass(&mut guest, &mut host, &partial, &own)[0].0[0], 1);
        // Memory is exchanged, and commands still come through.
        guest.share_memory(&mut host);
        assert_eq!(command(&mut guest, &mut host, 4, &[4, 0, 2, 0]), 0);
        guest.stop_ring(&mut host, 4);
        assert_eq!(host.context.watched(), 2, "the socket, and memory that may be lost");
    }
}
