//! The files in which ports note what they deliver, truncated while workers write to them.
use std::fs::OpenOptions;

use crate::switch_process::bystanders::Bystanders;
use crate::switch_process::guest::{Guest, frame, layouts};
use crate::switch_process::{Sockets, SwitchProcess, connect, wait_for};

/// The ports themselves lose nothing either: without the notes frames may come twice after a crash, and that is said.
#[test]
fn a_truncated_file_of_deliveries() {
    for features in layouts() {
        let sockets = Sockets::in_memory();
        let ports = ["one", "two", "a", "b"].map(|name| sockets.port(name, "vhost-user", ""));
        let wires = [connect("one", "two"), connect("a", "b")];
        let switch = SwitchProcess::start(&[ports.concat(), wires.concat()].concat());
        let bystanders = Bystanders::start([sockets.path("a"), sockets.path("b")]);
        let [mut one, mut two] = ["one", "two"].map(|name| Guest::running(&sockets.path(name), features));
        for round in 0..5 {
            for name in ["one", "two"] {
                let file = sockets.path(&format!("{name}.deliveries"));
                OpenOptions::new().write(true).open(file).unwrap().set_len(0).unwrap();
            }
            for number in 0..8 {
                let sent = frame(8 * round + number, 200);
                two.post(1);
                one.send(&sent);
                assert_eq!(two.receive(), sent);
            }
        }
        for name in ["one", "two"] {
            let said = format!("{name}.deliveries was truncated by another program");
            let of_file = |line: &&String| line.contains(&said);
            wait_for(&said, || (switch.logged().iter().filter(of_file).count() == 1).then_some(()));
        }
        bystanders.go_on();
        bystanders.all_is_well();
        switch.end();
    }
}
