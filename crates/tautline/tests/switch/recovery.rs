//! `kill -9` of the switch under load, and a new one in its place, again and again. The drivers keep their rings and
//! in-flight regions, as QEMU does, and go on where they stand.
//!
//! What was completed was delivered, and no frame comes twice: the killed switch has noted what it was about to publish.
//! `TAUTLINE_RECOVERY_ROUNDS` rounds of each layout (`make recovery`), or a few.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::switch_process::guest::{Guest, InFlight, layouts};
use crate::switch_process::load::Load;
use crate::switch_process::{SOON, Sockets, SwitchProcess, wait_for};

/// Time under load before each kill.
const LOAD: Duration = Duration::from_millis(30);

#[test]
fn a_killed_switch_loses_nothing_that_was_completed() {
    let rounds = std::env::var("TAUTLINE_RECOVERY_ROUNDS").map_or(12, |rounds| rounds.parse().unwrap());
    for wanted in layouts() {
        let sockets = Sockets::in_memory();
        let arguments: Vec<String> =
            ["one", "two"].iter().flat_map(|name| sockets.port(name, "vhost-user", "")).collect();
        let mut switch = SwitchProcess::start(&arguments);
        let paths = ["one", "two"].map(|name| sockets.path(name));
        let (sender, of_sender): (Guest, InFlight) = Guest::running_with_in_flight(&paths[0], wanted);
        let (receiver, of_receiver) = Guest::running_with_in_flight(&paths[1], wanted);
        let mut load = Load::new(sender, receiver);
        let (mut blackouts, mut at_a_kill) = (Vec::new(), BTreeSet::new());
        for round in 0..rounds {
            let until = Instant::now() + LOAD;
            let before = load.received.len();
            wait_for("frames under load", || {
                load.step(true);
                (Instant::now() > until && load.received.len() > before).then_some(())
            });
            switch.kill();
            load.take();
            at_a_kill.extend(load.in_flight());
            let since = Instant::now();
            // Front-ends wait for nothing but a socket that is listened on.
            switch = SwitchProcess::begin(&arguments);
            // The receiver first: what is sent again finds it.
            load.receiver.reconnect(&paths[1], &of_receiver, round % 2 == 0);
            load.sender.reconnect(&paths[0], &of_sender, round % 2 == 0);
            // Without a pause in between, so that the time is exact.
            let before = load.received.len();
            while load.received.len() == before {
                load.step(true);
                assert!(since.elapsed() < SOON, "no frame after the restart: {:#?}", switch.logged());
                std::thread::yield_now();
            }
            blackouts.push(since.elapsed());
        }
        wait_for("the completion of all frames", || {
            load.step(false);
            (load.completed.len() == load.sent as usize).then_some(())
        });
        let (lost, doubled) = (load.lost(), load.doubled());
        blackouts.sort_unstable();
        println!(
            "{wanted}: {rounds} kills, {} frames completed, {} lost of them, {} doubled of {} in flight at a kill; without \
             traffic {:.1?} (median), {:.1?} (longest)",
            load.completed.len(),
            lost.len(),
            doubled.len(),
            at_a_kill.len(),
            blackouts[blackouts.len() / 2],
            blackouts.last().unwrap(),
        );
        assert!(lost.is_empty(), "completed and not received: {lost:?}");
        assert!(doubled.is_empty(), "received more often than once: {doubled:?}");
        switch.end();
    }
}
