//! SCTP associations: their states and their verification tags.
use super::common::{Ends, sctp};
use super::{EST, LIMITS, NEW, RPL, TRK, commit, ends, invalid, track, tracker};
use conntrack::{State, Tracker};

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const HEARTBEAT: u8 = 4;
const HEARTBEAT_ACK: u8 = 5;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;

/// A chunk of 20 bytes. `tag` is the initiate tag of an INIT and of its answer.
fn chunk(kind: u8, tag: u32) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 20];
    bytes.extend(tag.to_be_bytes());
    bytes.resize(20, 0);
    bytes
}

fn ask(tracker: &mut Tracker, tag: u32, chunks: &[u8], ends: Ends) -> State {
    track(tracker, &sctp(ends, tag, chunks), &commit()).state
}

#[test]
fn associations_open_and_close() {
    let mut tracker = tracker(LIMITS);
    let mut ask = |tag, bytes: &[u8], ends| ask(&mut tracker, tag, bytes, ends);
    assert_eq!(ask(9, &chunk(INIT, 5), ends()), invalid(), "an INIT has the tag 0");
    assert_eq!(ask(0, &[chunk(INIT, 5), chunk(0, 0)].concat(), ends()), invalid(), "an INIT is alone");
    assert_eq!(ask(0, &chunk(INIT, 5), ends()), TRK | NEW);
    assert_eq!(ask(6, &chunk(INIT_ACK, 8), ends().back()), invalid(), "another tag");
    assert_eq!(ask(5, &chunk(INIT_ACK, 8), ends().back()), TRK | EST | RPL);
    assert_eq!(ask(8, &chunk(COOKIE_ECHO, 0), ends()), TRK | EST);
    assert_eq!(ask(5, &chunk(COOKIE_ACK, 0), ends().back()), TRK | EST | RPL);
    assert_eq!(ask(8, &chunk(0, 0), ends()), TRK | EST);
    assert_eq!(ask(7, &chunk(0, 0), ends()), invalid());
    assert_eq!(ask(5, &chunk(INIT_ACK, 9), ends().back()), invalid(), "the handshake is over");
    assert_eq!(ask(5, &chunk(INIT_ACK, 8), ends().back()), TRK | EST | RPL, "sent again");
}

#[test]
fn a_heartbeat_announces_a_tag_until_its_answer() {
    let mut tracker = tracker(LIMITS);
    let mut ask = |tag, bytes: &[u8], ends| ask(&mut tracker, tag, bytes, ends);
    assert_eq!(ask(5, &chunk(HEARTBEAT, 0), ends()), TRK | NEW);
    assert_eq!(ask(6, &chunk(HEARTBEAT, 0), ends()), TRK | NEW);
    assert_eq!(ask(8, &chunk(HEARTBEAT_ACK, 0), ends().back()), TRK | EST | RPL, "the first tag");
    assert_eq!(ask(9, &chunk(HEARTBEAT_ACK, 0), ends().back()), TRK | EST | RPL, "the answer");
    assert_eq!(ask(8, &chunk(HEARTBEAT_ACK, 0), ends().back()), invalid(), "answered already");
}

#[test]
fn after_two_inits_no_tag_is_learned_from_their_answers() {
    let mut tracker = tracker(LIMITS);
    let mut ask = |tag, bytes: &[u8], ends| ask(&mut tracker, tag, bytes, ends);
    assert_eq!(ask(0, &chunk(INIT, 5), ends()), TRK | NEW);
    assert_eq!(ask(0, &chunk(INIT, 8), ends().back()), TRK | EST | RPL);
    assert_eq!(ask(9, &chunk(HEARTBEAT, 0), ends()), TRK | EST);
    // The answer makes the tag of the other direction unknown.
    assert_eq!(ask(6, &chunk(HEARTBEAT_ACK, 0), ends().back()), TRK | EST | RPL);
    assert_eq!(ask(6, &chunk(INIT_ACK, 9), ends().back()), invalid());
}
