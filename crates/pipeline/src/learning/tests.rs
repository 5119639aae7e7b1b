use super::*;
use crate::testing::{Recorder, Said, burst, mac, network, run, run_with};
use crate::{Policer, Policing};

const A: PortId = PortId(0);
const B: PortId = PortId(1);
const C: PortId = PortId(2);

#[test]
fn frames_go_where_their_receiver_was_heard_and_to_all_others_before() {
    let ports = network(&[A, B, C]);
    let unknown = burst(&[(mac(2), mac(1), 60), (mac(2), mac(1), 60)]);
    let (said, flooded, asked) = run_with(&ports[0], &unknown, Recorder::default());
    assert_eq!(said, [Said::Send(B, 0..2), Said::Send(C, 0..2)]);
    assert_eq!((flooded, asked), (Flooded { frames: 2, copies: 4 }, 0), "nothing is limited by time here");
    let back = burst(&[(mac(1), mac(2), 60)]);
    assert_eq!(run(&ports[1], &back), [Said::Send(A, 0..1)]);
    assert_eq!(run(&ports[0], &unknown), [Said::Send(B, 0..2)]);
    // What would go back where it came from goes nowhere.
    assert_eq!(run(&ports[0], &burst(&[(mac(1), mac(1), 60)])), [Said::Drop(DropReason::NowhereToGo, 1)]);
}

#[test]
fn networks_know_nothing_of_each_other() {
    let (one, other) = (network(&[A, B]), network(&[C, PortId(3)]));
    run(&one[0], &burst(&[(mac(9), mac(1), 60)]));
    let to_it = burst(&[(mac(1), mac(1), 60)]);
    // Both networks have heard the address, each behind a port of its own.
    assert_eq!(run(&other[0], &to_it), [Said::Drop(DropReason::NowhereToGo, 1)]);
    assert_eq!((one[0].table.lookup(mac(1)), other[0].table.lookup(mac(1))), (Some(A), Some(C)));
}

#[test]
fn a_flood_that_no_port_takes_is_a_drop_with_its_reason() {
    let broadcast = burst(&[(MacAddress::BROADCAST, mac(1), 60)]);
    let alone = network(&[A]);
    assert_eq!(run(&alone[0], &broadcast), [Said::Drop(DropReason::NowhereToGo, 1)]);
    let ports = network(&[A, B, C]);
    let down = |down: &[PortId]| Recorder { down: down.to_vec(), ..Recorder::default() };
    let (said, flooded, _) = run_with(&ports[0], &broadcast, down(&[B, C]));
    assert_eq!((said, flooded), (vec![Said::Drop(DropReason::NotConnected, 1)], Flooded::default()));
    let (said, flooded, _) = run_with(&ports[0], &broadcast, down(&[B]));
    assert_eq!((said, flooded), (vec![Said::Send(C, 0..1)], Flooded { frames: 1, copies: 1 }));
}

#[test]
fn frames_to_several_stop_at_their_limit_and_the_others_pass() {
    let mut ports = network(&[A, B, C]);
    ports[0].floods = Some(RateLimit::new(1, 3));
    run(&ports[1], &burst(&[(mac(9), mac(2), 60)]));
    let frames: Vec<_> = (0..5).map(|_| (MacAddress::BROADCAST, mac(1), 60)).collect();
    let (said, flooded, asked) = run_with(&ports[0], &burst(&frames), Recorder::default());
    assert_eq!(said, [Said::Drop(DropReason::FloodLimit, 2), Said::Send(B, 0..3), Said::Send(C, 0..3)]);
    assert_eq!((flooded, asked), (Flooded { frames: 3, copies: 6 }, 1));
    assert_eq!(run(&ports[0], &burst(&[(mac(2), mac(1), 60)])), [Said::Send(B, 0..1)]);
}

#[test]
fn what_belongs_to_a_link_is_forwarded_where_that_is_asked_for() {
    let mut ports = network(&[A, B]);
    let lldp = burst(&[(MacAddress([1, 0x80, 0xc2, 0, 0, 0xe]), mac(1), 60)]);
    assert_eq!(run(&ports[0], &lldp), [Said::Drop(DropReason::NowhereToGo, 1)]);
    ports[0].link_local = true;
    assert_eq!(run(&ports[0], &lldp), [Said::Send(B, 0..1)]);
}

#[test]
fn a_run_of_one_pair_of_addresses_is_one_decision_and_a_long_frame_in_it_is_found() {
    let mut ports = network(&[A, B]);
    run(&ports[1], &burst(&[(mac(9), mac(2), 60)]));
    let mixed = burst(&[(mac(2), mac(1), 60), (mac(2), mac(1), 1000), (mac(2), mac(1), 60)]);
    assert_eq!(run(&ports[0], &mixed), [Said::Send(B, 0..3)]);
    ports[0].admission = Admission::new(None, Some(500), None);
    let each = [Said::Send(B, 0..1), Said::Drop(DropReason::TooLong, 1), Said::Send(B, 2..3)];
    assert_eq!(run(&ports[0], &mixed), each);
}

#[test]
fn senders_with_addresses_that_they_may_not_have_are_not_learned() {
    let mut ports = network(&[A, B]);
    ports[0].admission = Admission::new(Some(vec![mac(7), mac(1)]), None, None);
    let spoofed = burst(&[(MacAddress::BROADCAST, mac(3), 60), (MacAddress::BROADCAST, mac(7), 60)]);
    assert_eq!(run(&ports[0], &spoofed), [Said::Drop(DropReason::Spoofed, 1), Said::Send(B, 1..2)]);
    assert_eq!((ports[0].table.lookup(mac(3)), ports[0].table.lookup(mac(7))), (None, Some(A)));
    let group = burst(&[(mac(7), MacAddress::BROADCAST, 60)]);
    assert_eq!(run(&ports[1], &group), [Said::Drop(DropReason::Spoofed, 1)]);
}

#[test]
fn what_is_over_the_ports_rate_is_the_end_of_the_burst() {
    let mut ports = network(&[A, B]);
    let policing = Policing { packets_per_second: Some(1), ..Policing::default() };
    ports[0].admission = Admission::new(None, None, Policer::new(policing));
    let frames: Vec<_> = (0..100).map(|_| (mac(2), mac(1), 60)).collect();
    let (said, _, asked) = run_with(&ports[0], &burst(&frames), Recorder::default());
    let passed = RateLimit::LEAST_FRAMES as u16;
    let dropped = Said::Drop(DropReason::Policed, 100 - u64::from(passed));
    assert_eq!((said, asked), (vec![dropped, Said::Send(B, 0..passed)], 1));
}

#[test]
fn an_announced_station_is_where_it_says_unless_the_port_may_not_have_it() {
    let mut ports = network(&[A, B]);
    assert_eq!(ports[0].announce(mac(1)), Announced::Accepted);
    assert_eq!(ports[0].table.lookup(mac(1)), Some(A));
    assert_eq!(ports[0].announce(MacAddress::BROADCAST), Announced::NotAllowed);
    ports[1].admission = Admission::new(Some(vec![mac(2)]), None, None);
    assert_eq!(ports[1].announce(mac(1)), Announced::NotAllowed);
    ports[1].table.set_own([(mac(2), B)]);
    assert_eq!(ports[0].announce(mac(2)), Announced::Refused(Refused::Owned));
}
