use super::*;
use crate::vring::{PackedPosition, RingLayout, VringBase};

fn kick(index: u8, has_fd: bool) -> Request {
    Request::SetVringKick(VringFd { index, has_fd })
}

#[test]
fn a_ring_starts_when_its_kick_descriptor_comes() {
    let mut session = with_memory();
    configure(&mut session, 1);
    pass(&mut session, Request::SetVringCall(VringFd { index: 1, has_fd: true }), vec![fd()]);
    let Event::VringStarted { index, config, kick, call, err, enabled, done } =
        event(&mut session, kick(1, true), vec![fd()])
    else {
        panic!()
    };
    assert_eq!((index.get(), config.size.get(), enabled), (1, 256, false));
    assert_eq!((config.addresses.driver, config.addresses.device), (0x2000, 0x3000));
    assert_eq!(config.base, VringBase::Split { next_available: 7 });
    assert!(matches!(kick, Kick::Event(_)) && call.is_some() && err.is_none());
    assert!(!session.rings[1].is_started(), "not before the embedder has started it");
    let _ = session.answer(done, Ok(())).unwrap();
    assert!(session.rings[1].is_started());
}

#[test]
fn a_ring_that_the_embedder_refuses_stays_stopped() {
    let mut session = with_memory();
    configure(&mut session, 0);
    let started = event(&mut session, kick(0, true), vec![fd()]);
    let _ = session.answer(done(started), Err(Refusal::new("outside of memory"))).unwrap();
    assert!(!session.rings[0].is_started());
    pass(&mut session, kick(0, true), vec![fd()]);
}

#[test]
fn bit_8_means_polling() {
    let mut session = with_memory();
    configure(&mut session, 0);
    let Event::VringStarted { kick: Kick::Poll, done, .. } = event(&mut session, kick(0, false), vec![])
    else {
        panic!()
    };
    let _ = session.answer(done, Ok(())).unwrap();
}

#[test]
fn bit_8_and_the_descriptor_must_agree() {
    let mut session = with_memory();
    configure(&mut session, 0);
    for request in
        [Request::SetVringKick as fn(VringFd) -> Request, Request::SetVringCall, Request::SetVringErr]
    {
        let with = request(VringFd { index: 0, has_fd: true });
        reject(&mut session, with, vec![], "file descriptors");
        let without = request(VringFd { index: 0, has_fd: false });
        reject(&mut session, without, vec![fd()], "file descriptors");
        let surplus = request(VringFd { index: 0, has_fd: true });
        reject(&mut session, surplus, vec![fd(), fd()], "file descriptors");
    }
}

#[test]
fn a_ring_starts_with_all_it_needs_or_not_at_all() {
    let mut session = agreed_without(Features::RING_PACKED);
    configure(&mut session, 0);
    reject(&mut session, kick(0, true), vec![fd()], "queue"); // no memory
    pass(&mut session, table(&[region(0)]), vec![fd()]);
    reject(&mut session, kick(1, true), vec![fd()], "queue"); // no size
    pass(&mut session, Request::SetVringNum(VringState { index: 1, num: 3 }), vec![]);
    reject(&mut session, kick(1, true), vec![fd()], "queue"); // no addresses
    pass(&mut session, address(1, 0x1000), vec![]);
    reject(&mut session, kick(1, true), vec![fd()], "num"); // 3 is no power of two
    pass(&mut session, Request::SetVringNum(VringState { index: 1, num: 4 }), vec![]);
    pass(&mut session, address(1, 0x1008), vec![]);
    reject(&mut session, kick(1, true), vec![fd()], "descriptor address");
    pass(&mut session, address(1, 0x1000), vec![]);
    pass(&mut session, Request::SetVringBase(VringState { index: 1, num: 0x1_0000 }), vec![]);
    reject(&mut session, kick(1, true), vec![fd()], "num"); // a split base has sixteen bits
    pass(&mut session, Request::SetVringBase(VringState { index: 1, num: 0 }), vec![]);
    pass(&mut session, kick(1, true), vec![fd()]);
}

#[test]
fn features_come_before_a_start() {
    let mut session = BackendSession::new(offer());
    pass(&mut session, Request::SetOwner, vec![]);
    pass(&mut session, table(&[region(0)]), vec![fd()]);
    configure(&mut session, 0);
    reject(&mut session, kick(0, true), vec![fd()], "queue");
}

#[test]
fn packed_bases_carry_wrap_counters_both_ways() {
    let mut session = configured();
    pass(&mut session, Request::SetVringNum(VringState { index: 0, num: 3 }), vec![]);
    pass(&mut session, Request::SetVringBase(VringState { index: 0, num: 0x8001_0002 }), vec![]);
    let Event::VringStarted { config, done, .. } = event(&mut session, kick(0, true), vec![fd()]) else {
        panic!()
    };
    let available = PackedPosition { slot: 2, wrap: false };
    let used = PackedPosition { slot: 1, wrap: true };
    assert_eq!(config.base, VringBase::Packed { available, used });
    assert_eq!((config.layout, config.size.get()), (RingLayout::Packed, 3));
    let _ = session.answer(done, Ok(())).unwrap();

    let asked = Request::GetVringBase(VringState { index: 0, num: 0 });
    let Event::VringStopped { answer, .. } = event(&mut session, asked, vec![]) else { panic!() };
    let end = PackedPosition { slot: 1, wrap: true };
    let sent = session.answer(answer, VringBase::Packed { available: end, used: end }).unwrap();
    let state = &sent.reply.unwrap().payload[4..];
    assert_eq!(state, 0x8001_8001u32.to_ne_bytes());
}

#[test]
fn a_packed_base_lies_within_the_ring() {
    let mut session = configured();
    pass(&mut session, Request::SetVringBase(VringState { index: 0, num: 0x8100_8100 }), vec![]);
    reject(&mut session, kick(0, true), vec![fd()], "num"); // 256 of 256
}

#[test]
fn get_vring_base_stops_the_ring_and_remembers_where() {
    let mut session = running();
    let asked = || Request::GetVringBase(VringState { index: 0, num: 0 });
    let Event::VringStopped { index, answer } = event(&mut session, asked(), vec![]) else { panic!() };
    assert_eq!(index.get(), 0);
    let sent = session.answer(answer, VringBase::Split { next_available: 300 }).unwrap();
    assert_eq!(sent.reply.unwrap().payload[4..], 300u32.to_ne_bytes());
    assert!(!session.rings[0].is_started());
    // Asked again, the stopped ring answers by itself, and it continues there.
    let Received::Reply(reply) = send(&mut session, asked(), vec![]) else { panic!() };
    assert_eq!(reply.payload[4..], 300u32.to_ne_bytes());
    let Event::VringStarted { config, done, .. } = event(&mut session, kick(0, true), vec![fd()]) else {
        panic!()
    };
    assert_eq!(config.base, VringBase::Split { next_available: 300 });
    let _ = session.answer(done, Ok(())).unwrap();
}

#[test]
fn a_queue_that_never_ran_has_a_base() {
    let mut session = with_memory();
    let asked = Request::GetVringBase(VringState { index: 3, num: 0 });
    let Received::Reply(reply) = send(&mut session, asked, vec![]) else { panic!() };
    assert_eq!(reply.payload, [3u32.to_ne_bytes(), 0u32.to_ne_bytes()].concat());
}

#[test]
fn enabling_counts_from_the_start_of_the_ring() {
    let mut session = with_memory();
    let enable = |index, num| Request::SetVringEnable(VringState { index, num });
    pass(&mut session, enable(0, 1), vec![]);
    configure(&mut session, 0);
    let Event::VringStarted { enabled: true, done, .. } = event(&mut session, kick(0, true), vec![fd()])
    else {
        panic!()
    };
    let _ = session.answer(done, Ok(())).unwrap();
    let Event::VringEnabled { enabled: false, done, .. } = event(&mut session, enable(0, 0), vec![]) else {
        panic!()
    };
    let _ = session.answer(done, Ok(())).unwrap();
    assert!(!session.rings[0].enabled);
    reject(&mut session, enable(0, 2), vec![], "num");
}

#[test]
fn without_protocol_features_rings_are_enabled_at_once() {
    let mut session = agreed_without(Features::RING_PACKED | Features::VHOST_PROTOCOL_FEATURES);
    pass(&mut session, table(&[region(0)]), vec![fd()]);
    configure(&mut session, 0);
    let Event::VringStarted { enabled: true, done, .. } = event(&mut session, kick(0, true), vec![fd()])
    else {
        panic!()
    };
    let _ = session.answer(done, Ok(())).unwrap();
    reject(&mut session, Request::SetVringEnable(VringState { index: 0, num: 0 }), vec![], "feature bit");
}

#[test]
fn enabling_before_set_features_is_accepted() {
    let mut session = BackendSession::new(offer());
    pass(&mut session, Request::SetOwner, vec![]);
    pass(&mut session, Request::SetVringEnable(VringState { index: 0, num: 1 }), vec![]);
}

#[test]
fn a_running_ring_keeps_size_base_and_addresses() {
    let mut session = running();
    reject(&mut session, Request::SetVringNum(VringState { index: 0, num: 512 }), vec![], "queue");
    reject(&mut session, Request::SetVringBase(VringState { index: 0, num: 0 }), vec![], "queue");
    reject(&mut session, address(0, 0x8000), vec![], "queue");
    pass(&mut session, address(0, 0x1000), vec![]);
}

#[test]
fn a_running_ring_may_change_descriptors_and_log() {
    let mut session = running();
    let vring = VringFd { index: 0, has_fd: true };
    let none = VringFd { index: 0, has_fd: false };
    let changed = event(&mut session, Request::SetVringCall(vring), vec![fd()]);
    assert!(matches!(changed, Event::VringCallChanged { call: Some(_), .. }));
    let _ = session.answer(done(changed), Ok(())).unwrap();
    let changed = event(&mut session, Request::SetVringErr(none), vec![]);
    assert!(matches!(changed, Event::VringErrChanged { err: None, .. }));
    let _ = session.answer(done(changed), Ok(())).unwrap();
    let changed = event(&mut session, Request::SetVringKick(none), vec![]);
    assert!(matches!(changed, Event::VringKickChanged { kick: Kick::Poll, .. }));
    let _ = session.answer(done(changed), Ok(())).unwrap();
    let Request::SetVringAddr(mut logged) = address(0, 0x1000) else { unreachable!() };
    (logged.log_used, logged.log) = (true, 0x7000);
    let changed = event(&mut session, Request::SetVringAddr(logged), vec![]);
    assert!(matches!(changed, Event::VringLogChanged { log: Some(0x7000), .. }));
    let _ = session.answer(done(changed), Ok(())).unwrap();
    pass(&mut session, Request::SetVringAddr(logged), vec![]);
}

#[test]
fn in_band_kicks_start_and_notify() {
    let mut session = with_memory();
    configure(&mut session, 0);
    let kick = |num| Request::VringKick(VringState { index: 0, num });
    reject(&mut session, kick(1), vec![], "num");
    let Event::VringStarted { kick: Kick::InBand, done, .. } = event(&mut session, kick(0), vec![]) else {
        panic!()
    };
    let _ = session.answer(done, Ok(())).unwrap();
    let Event::VringKicked { index, done } = event(&mut session, kick(0), vec![]) else { panic!() };
    assert_eq!(index.get(), 0);
    let _ = session.answer(done, Ok(())).unwrap();
}

#[test]
fn indices_and_sizes_are_checked() {
    let mut session = with_memory();
    let state = VringState { index: 4, num: 0 };
    for request in [
        Request::SetVringNum(state),
        Request::SetVringBase(state),
        Request::SetVringEnable(state),
        Request::VringKick(state),
        address(4, 0x1000),
    ] {
        reject(&mut session, request, vec![], "index");
    }
    reject(&mut session, kick(4, true), vec![fd()], "index");
    for num in [0, 32769, u32::MAX] {
        reject(&mut session, Request::SetVringNum(VringState { index: 0, num }), vec![], "num");
    }
    // GET_VRING_BASE has no room for an error.
    let error = session.receive(Request::GetVringBase(state).to_message(vec![])).unwrap_err();
    assert!(matches!(error, SessionError::Violation(violation) if violation.field == "index"));
}

/// DPDK's virtio-user sends no SET_OWNER to a back-end that was started again, and first of all stops what ran at the
/// last one.
#[test]
fn a_front_end_that_connects_again_need_not_say_that_it_is_the_owner() {
    let mut session = BackendSession::new(offer());
    pass(&mut session, Request::SetVringEnable(VringState { index: 0, num: 0 }), vec![]);
    let base = send(&mut session, Request::GetVringBase(VringState { index: 0, num: 0 }), vec![]);
    assert!(matches!(base, Received::Reply(_)), "{base:?}");
    pass(&mut session, Request::SetFeatures(Features::VERSION_1), vec![]);
    pass(&mut session, table(&[region(0)]), vec![fd()]);
    configure(&mut session, 0);
    pass(&mut session, kick(0, true), vec![fd()]);
    assert!(session.rings[0].is_started());
}
