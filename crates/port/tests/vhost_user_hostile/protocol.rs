//! Messages and control commands that break the rules.
use super::*;
use virtio::NetFeatures;

#[test]
fn messages_that_break_the_protocol_end_the_connection_only() {
    let _alone = alone();
    attacked(plain(), |host, mut guest, others| {
        guest.share_memory(host);
        guest.start_ring(host, 0);
        guest.start_ring(host, 1);
        // Memory without a descriptor, and no wish for a reply.
        let table = Request::SetMemTable(MemoryTable { regions: vec![region(0, 4096)] });
        guest.connection.try_send(table.to_message(vec![])).unwrap();
        assert!(guest.is_closed(host));
        let logged = host.context.logged.last().unwrap();
        assert!(logged.contains("SET_MEM_TABLE") && logged.contains("disconnected"), "{logged}");
        others.pass();
    });
}

/// Control commands that are too long, have no room for an answer, or come on a malformed ring.
#[test]
fn control_commands_that_nobody_can_obey() {
    let _alone = alone();
    for features in layouts() {
        attacked(features.union(NetFeatures::CTRL_VQ), |host, mut guest, others| {
            guest.share_memory(host);
            guest.start_ring(host, 2);
            let piece = |address, len| Piece { address, len };
            let answer = DATA + DATA_BYTES - 1;
            guest.write(answer, &[0xff]);
            guest.add_chain(2, &[piece(DATA, 64 * 1024 + 1)], &[piece(answer, 1)]);
            guest.add_chain(2, &[piece(DATA, 2)], &[]);
            guest.add_chain(2, &[], &[piece(answer, 1)]);
            let mut written = Vec::new();
            host.until("three answers", |_| {
                written.extend(guest.used(2).iter().map(|used| used.written));
                written.len() == 3
            });
            assert_eq!(written, [1, 0, 1]);
            assert_eq!(guest.read(answer, 1), [1]);
            // Bytes that no command has, many at once.
            for at in 0..30 {
                guest.write(DATA + at, &[at as u8]);
                guest.add_chain(2, &[piece(DATA, at as u32)], &[piece(answer, 1)]);
            }
            host.until("thirty answers", |_| {
                written.extend(guest.used(2).iter().map(|used| used.written));
                written.len() == 33
            });
            others.pass();
            guest.add_chain(2, &[piece(1 << 50, 2)], &[piece(answer, 1)]);
            host.until("stopped", |host| host.context.logged.last().unwrap().contains("reset the device"));
            host.turn();
            others.pass();
        });
    }
}
