//! The messages of a front-end bring another session to the state of the first one.
use super::*;
use crate::codec::payload::{Inflight, LogArea, SingleRegion};
use crate::vring::VringBase;

/// Messages by their contents, with how many descriptors each has.
fn contents(messages: &[Message]) -> Vec<(u32, Vec<u8>, usize)> {
    messages.iter().map(|message| (message.header.id, message.payload.clone(), message.fds.len())).collect()
}

/// Says all of it to a new session, and gives what that one would say.
fn repeated(messages: Vec<Message>, bases: &[(usize, VringBase)]) -> (BackendSession, Vec<Message>) {
    let mut session = BackendSession::new(offer());
    for message in messages {
        let id = message.header.id;
        match session.receive(message).unwrap() {
            Received::Event(event) => _ = session.answer(done(event), Ok(())).unwrap(),
            Received::Rejected(_, violation) => panic!("{id}: {violation}"),
            Received::Nothing | Received::Reply(_) => {}
        }
    }
    let said = session.messages(bases.iter().copied());
    (session, said)
}

#[test]
fn another_session_comes_to_where_this_one_stands() {
    let mut session = running();
    let ring = VringFd { index: 0, has_fd: true };
    pass(&mut session, Request::SetVringCall(ring), vec![fd()]);
    pass(&mut session, Request::SetVringErr(ring), vec![fd()]);
    pass(&mut session, Request::SetVringEnable(VringState { index: 0, num: 1 }), vec![]);
    pass(&mut session, Request::NetSetMtu(9000), vec![]);
    pass(&mut session, Request::SetStatus(15), vec![]);
    pass(&mut session, Request::SetBackendReqFd, vec![fd()]);
    pass(&mut session, Request::AddMemReg(SingleRegion(region(1))), vec![fd()]);
    pass(&mut session, Request::AddMemReg(SingleRegion(region(2))), vec![fd()]);
    pass(&mut session, Request::RemMemReg(SingleRegion(region(1))), vec![]);
    pass(&mut session, Request::RemMemReg(SingleRegion(region(0))), vec![]);
    let area = LogArea { size_bytes: 4096, offset: 0 };
    let log = event(&mut session, Request::SetLogBase(area), vec![fd()]);
    let _ = session.answer(done(log), Ok(())).unwrap();
    configure(&mut session, 1);
    let bases = [(0, VringBase::Split { next_available: 77 })];
    let said = session.messages(bases);
    let ids: Vec<u32> = said.iter().map(|message| message.header.id).collect();
    // Owner, protocol features, features, MTU, memory (a table, a region more, one less), log, channel; a ring with base,
    // size, addresses, call, err, enable and kick; one that does not run; status.
    assert_eq!(ids[..3], [3, 16, 2]);
    assert_eq!(ids.iter().filter(|id| **id == 12).count(), 1, "one ring runs: {ids:?}");
    let expected = contents(&said);
    let (other, again) = repeated(said, &bases);
    assert_eq!(contents(&again), expected);
    assert_eq!(other.agreed(), session.agreed());
    let State::Started(config) = &other.rings[0].state else { panic!() };
    assert_eq!(config.base, VringBase::Split { next_available: 77 });
    assert!(other.rings[0].enabled && other.rings[0].call.is_some() && other.rings[0].err.is_some());
    assert_eq!(other.memory.len(), session.memory.len());
}

#[test]
fn what_does_not_hold_any_more_is_not_said() {
    let mut session = with_memory();
    let inflight = Inflight { size_bytes: 1 << 20, offset: 0, queue_count: 2, queue_size: 64 };
    pass(&mut session, Request::SetInflightFd(inflight), vec![fd()]);
    configure(&mut session, 0);
    pass(&mut session, Request::SetVringKick(VringFd { index: 0, has_fd: true }), vec![fd()]);
    let Event::VringStopped { answer, .. } =
        event(&mut session, Request::GetVringBase(VringState { index: 0, num: 0 }), vec![])
    else {
        panic!()
    };
    let _ = session.answer(answer, VringBase::Split { next_available: 9 }).unwrap();
    let ids = |session: &BackendSession| -> Vec<u32> {
        session.messages([]).iter().map(|message| message.header.id).collect()
    };
    assert!(ids(&session).contains(&32) && !ids(&session).contains(&12), "{:?}", ids(&session));
    let base = session.messages([]).into_iter().find(|message| message.header.id == 10).unwrap();
    assert_eq!(base.payload, [0u32.to_ne_bytes(), 9u32.to_ne_bytes()].concat(), "where it stopped");
    pass(&mut session, Request::ResetDevice, vec![]);
    assert!(ids(&session).iter().all(|id| [3, 16, 5].contains(id)), "{:?}", ids(&session));
}

#[test]
fn a_region_that_is_added_again_and_again_costs_one_descriptor() {
    let mut session = agreed_without(Features::empty());
    for _ in 0..1000 {
        pass(&mut session, Request::AddMemReg(SingleRegion(region(3))), vec![fd()]);
    }
    let said = session.messages([]);
    assert_eq!(said.len(), 3 + 1, "its message is said once, and how often it counts beside it");
    let (mut other, _) = repeated(said, &[]);
    other.set_region_counts(session.region_counts());
    assert_eq!(other.region_counts().collect::<Vec<_>>(), [(region(3), 1000)]);
    for session in [&mut session, &mut other] {
        for _ in 0..999 {
            pass(session, Request::RemMemReg(SingleRegion(region(3))), vec![]);
        }
        assert_eq!((session.messages([]).len(), session.memory.len()), (4, 1));
        let Event::MemoryRegionRemoved { .. } =
            event(session, Request::RemMemReg(SingleRegion(region(3))), vec![])
        else {
            panic!()
        };
    }
}
