//! Linux as the judge: random frames pass a router whose conntrack and NAT say what they think of each, and so does this
//! crate. States and bytes must be the same.
//!
//! The router is a network namespace of its own; the frames come from another one, because in the same namespace the
//! kernel would track the frames that leave once more. nftables writes the state of a frame into its DSCP.
#[path = "../common/mod.rs"]
mod common;
mod fragments;
mod helpers;
mod ours;
mod router;
mod talk;

use std::collections::BTreeMap;

use common::Random;
use ours::Ours;
use router::Router;
use talk::Talk;

/// Whether connections may be found after their beginning, the seed, and the number of frames. Seed 43 holds SCTP ends
/// that begin again, which Linux judges so since April 2026 (6.12.117 does).
const RUNS: [(bool, u64, usize); 6] = [
    (true, 40, 12_000),
    (false, 40, 12_000),
    (true, 41, 12_000),
    (false, 41, 12_000),
    (true, 43, 12_000),
    (false, 43, 12_000),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(48).map(|byte| format!("{byte:02x}")).collect()
}

/// Frames, one after another, through Linux and through this crate. Returns how many were translated. The error names the first
/// frames that differ.
fn compare(router: &mut Router, loose: bool, frames: usize, seed: u64) -> Result<usize, String> {
    let (mut random, mut talk) = (Random(seed), Talk::default());
    let mut ours = Ours::new(loose);
    let mut seen = BTreeMap::new();
    let mut histories = BTreeMap::new();
    let mut wrong = Vec::new();
    let (mut frame, mut translated) = (0, 0);
    while frame < frames {
        let talk::Sent { side, datagram, needs_connection, number } = talk.next(&mut random);
        if needs_connection && !ours.knows(&datagram) {
            continue;
        }
        frame += 1;
        let theirs = router.pass(side, &datagram);
        let here = ours.pass(side, &datagram);
        translated += usize::from(here.datagram != datagram);
        *seen.entry((datagram_protocol(&datagram), here.state)).or_insert(0) += 1;
        let history = histories.entry(number).or_insert_with(Vec::new);
        history.push(format!("{side:?} {} {}", talk::described(&datagram), here.state));
        match &theirs {
            Some(theirs) if theirs.state == here.state && theirs.datagram == here.datagram => {}
            theirs => {
                let theirs =
                    theirs.as_ref().map(|theirs| format!("{} {}", theirs.state, hex(&theirs.datagram)));
                wrong.push(format!(
                    "frame {frame}\n   {}\n   in {}\n here {} {}\nLinux {theirs:?}",
                    history[history.len().saturating_sub(25)..].join("\n   "),
                    hex(&datagram),
                    here.state,
                    hex(&here.datagram)
                ));
            }
        }
        if wrong.len() >= 5 {
            break;
        }
        let (to, left) =
            theirs.map_or((side.other(), here.datagram), |theirs| (theirs.side, theirs.datagram));
        talk.arrived(to, left);
    }
    println!("loose {loose}, seed {seed}: {seen:?}");
    if wrong.is_empty() { Ok(translated) } else { Err(wrong.join("\n\n")) }
}

fn datagram_protocol(datagram: &[u8]) -> u8 {
    if datagram[0] >> 4 == 4 { datagram[9] } else { datagram[6] }
}

#[test]
fn states_and_translations_are_those_of_linux() {
    let mut translated = 0;
    for (loose, seed, frames) in RUNS {
        let Some(mut router) = Router::start(loose) else { return };
        translated += compare(&mut router, loose, frames, seed)
            .unwrap_or_else(|wrong| panic!("seed {seed}, loose: {loose}\n{wrong}"));
    }
    println!("{translated} frames were translated");
    assert!(translated >= 20_000, "{translated}");
}

#[test]
fn control_channels_announce_what_they_announce_to_linux() {
    let Some(mut router) = Router::start(false) else { return };
    let seen = helpers::compare(&mut router, 250, 44).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{seen:?}");
    assert!(seen.related > 300 && seen.replaced > 300 && seen.shifted > 500, "{seen:?}");
}

#[test]
fn fragments_are_reassembled_and_translated_as_by_linux() {
    let Some(mut router) = Router::start(true) else { return };
    match fragments::compare(&mut router, 1500, 42) {
        Ok(complete) => assert!(complete > 900, "{complete} datagrams were complete"),
        Err(wrong) => panic!("{wrong}"),
    }
}
