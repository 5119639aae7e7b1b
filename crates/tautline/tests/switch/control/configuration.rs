//! The configuration file, read at the start and again on SIGHUP, and what systemd hears.
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::ctl;
use crate::common::signal;
use crate::switch_process::bystanders::Bystanders;
use crate::switch_process::guest::{Guest, frame, layouts};
use crate::switch_process::{Sockets, SwitchProcess, drops, wait_for};

fn port(sockets: &Sockets, name: &str, more: &str) -> String {
    let target = sockets.path(name);
    format!("[ports.{name}]\nkind = \"vhost-user\"\ntarget = \"{}\"\n{more}\n", target.display())
}

#[test]
fn only_what_is_different_changes_and_the_others_go_on() {
    let sockets = Sockets::new();
    let file = sockets.path("switch.toml");
    let control = sockets.path("control");
    let base = |wired: &str| {
        format!("control = \"{}\"\nwire = [\"a=b\"]\n{wired}", control.display())
            + &port(&sockets, "a", "")
            + &port(&sockets, "b", "")
    };
    let write = |text: String| fs::write(&file, text).unwrap();
    write(base("") + &port(&sockets, "one", "") + &port(&sockets, "two", ""));
    let switch = SwitchProcess::start(&["--config".to_owned(), file.display().to_string()]);
    let bystanders = Bystanders::start([sockets.path("a"), sockets.path("b")]);
    let reload = |expected: &str| {
        signal(switch.id(), Signal::HUP);
        wait_for(expected, || switch.logged().iter().any(|line| line.contains(expected)).then_some(()));
    };
    let mut one = Guest::running(&sockets.path("one"), layouts()[0]);
    let mut two = Guest::running(&sockets.path("two"), layouts()[0]);
    two.post(2);
    one.send(&frame(1, 100));
    assert_eq!(two.receive(), frame(1, 100));

    // `two` goes, `three` comes, `one` may send from one address alone and stays connected.
    let allow = "allow = [\"02:00:00:00:00:77\"]";
    write(base("") + &port(&sockets, "one", allow) + &port(&sockets, "three", "packed = true"));
    reload("three: added");
    let said = switch.logged();
    for line in ["two: removed", "one: given other limits"] {
        assert!(said.iter().any(|said| said.contains(line)), "{line}: {said:#?}");
    }
    two.wait_until_closed();
    let mut three = Guest::running(&sockets.path("three"), layouts()[1]);
    three.post(2);
    one.send(&frame(2, 100));
    wait_for("the spoofed frame's end", || {
        (drops(&switch.snapshot(), "one", "spoofed source address") == 1).then_some(())
    });
    three.send(&frame(3, 100));

    // A file that is wrong changes nothing; what needs a new start is said.
    write("spin = 3".to_owned());
    reload("nothing is changed");
    write(
        base("mac-table-size = 17\n")
            + &port(&sockets, "one", allow)
            + &port(&sockets, "three", "packed = true"),
    );
    reload("start the switch again");
    let ports = ctl(&control, &["ports"]);
    assert!(ports.stdout.contains("three: ") && !ports.stdout.contains("two: "), "{ports}");
    bystanders.all_is_well();
    switch.end();
}

/// What cannot be done is tried again with the next reading, and a port that was to be another stays if it cannot be.
#[test]
fn a_change_that_fails_costs_no_port_and_is_tried_again() {
    let sockets = Sockets::new();
    let file = sockets.path("switch.toml");
    let write = |text: String| fs::write(&file, text).unwrap();
    let folder = sockets.path("later");
    let inside =
        format!("[ports.two]\nkind = \"vhost-user\"\ntarget = \"{}\"\n", folder.join("two").display());
    let control = sockets.path("control");
    let control = format!("control = \"{}\"\n", control.display());
    let write = |text: String| write(control.clone() + &text);
    write(port(&sockets, "one", "") + &port(&sockets, "two", ""));
    let switch = SwitchProcess::start(&["--config".to_owned(), file.display().to_string()]);
    let mut seen = 0;
    let mut reload = |expected: &[&str]| {
        signal(switch.id(), Signal::HUP);
        for line in expected {
            wait_for(line, || {
                switch.logged().iter().skip(seen).any(|said| said.contains(line)).then_some(())
            });
        }
        seen = switch.logged().len();
    };
    // A path that no socket can have: seen before anything is touched.
    let long = format!("[ports.two]\nkind = \"vhost-user\"\ntarget = \"/tmp/{}\"\n", "x".repeat(200));
    write(port(&sockets, "one", "") + &long);
    reload(&["nothing is changed"]);
    assert!(sockets.path("two").exists());
    // Another folder, which is not there yet.
    write(port(&sockets, "one", "") + &inside);
    reload(&["two: removed", "two: not added", "two: brought back as it was"]);
    let mut two = Guest::running(&sockets.path("two"), layouts()[0]);
    fs::create_dir(&folder).unwrap();
    reload(&["two: removed", "two: added"]);
    two.wait_until_closed();
    Guest::running(&folder.join("two"), layouts()[0]);
    // The same for one that is new.
    fs::remove_dir_all(&folder).unwrap();
    let three = inside.replace("ports.two", "ports.three");
    write(port(&sockets, "one", "") + &three);
    reload(&["two: removed", "three: not added"]);
    reload(&["three: not added"]);
    fs::create_dir(&folder).unwrap();
    reload(&["three: added"]);
    reload(&["nothing is different"]);
    // What holds for all of the switch is named, each time.
    write("metrics = \"127.0.0.1:1\"\n".to_owned() + &port(&sockets, "one", "") + &three);
    reload(&["metrics is not as it was at the start"]);
    reload(&["metrics is not as it was at the start"]);
    // What was removed by hand comes back with the next reading, other limits or not.
    let ctl = |arguments: &[&str]| assert_eq!(ctl(&sockets.path("control"), arguments).code, Some(0));
    ctl(&["remove", "three"]);
    write(port(&sockets, "one", "") + &three + "flood-limit = 9\n");
    reload(&["three: added"]);
    // Another one in its place is not the file's.
    ctl(&["remove", "three"]);
    let other = sockets.path("other");
    ctl(&["add", &format!("three=vhost-user:{}", other.display())]);
    reload(&["three: not added"]);
    write(port(&sockets, "one", ""));
    reload(&["nothing is different"]);
    Guest::running(&other, layouts()[0]);
    switch.end();
}

/// A pipe without a writer, a file without an end, and a file that is longer than any configuration.
#[test]
fn what_is_no_configuration_file_keeps_nobody_waiting() {
    let sockets = Sockets::new();
    let file = sockets.path("switch.toml");
    let control = sockets.path("control");
    let text = format!("control = \"{}\"\nwire = [\"a=b\"]\n", control.display())
        + &["a", "b", "one"].map(|name| port(&sockets, name, "")).concat();
    fs::write(&file, &text).unwrap();
    let switch = SwitchProcess::start(&["--config".to_owned(), file.display().to_string()]);
    let bystanders = Bystanders::start([sockets.path("a"), sockets.path("b")]);
    let pipe = |path: &Path| {
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    let endless = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    let long = |path: &Path| fs::File::create(path).unwrap().set_len(1 << 30).unwrap();
    let makes: [fn(&Path); 3] = [pipe, endless, long];
    for (make, said) in makes.into_iter().zip(["no regular file", "no regular file", "longer than"]) {
        let seen = switch.logged().len();
        fs::remove_file(&file).unwrap();
        make(&file);
        signal(switch.id(), Signal::HUP);
        // While it is read others are served, and afterwards.
        assert_eq!(ctl(&control, &["ports"]).code, Some(0));
        Guest::running(&sockets.path("one"), layouts()[0]);
        wait_for(said, || {
            let is_it = |line: &String| line.contains(said) && line.contains("nothing is changed");
            switch.logged().iter().skip(seen).any(is_it).then_some(())
        });
        bystanders.assert_undisturbed(said);
    }
    fs::remove_file(&file).unwrap();
    fs::write(&file, &text).unwrap();
    signal(switch.id(), Signal::HUP);
    let is_same = |line: &String| line.contains("nothing is different");
    wait_for("the file as it was", || switch.logged().iter().any(is_same).then_some(()));
    bystanders.all_is_well();
    switch.end();
}

#[test]
fn systemd_hears_of_the_start_of_a_new_reading_and_of_the_end() {
    let sockets = Sockets::new();
    let file = sockets.path("switch.toml");
    fs::write(&file, port(&sockets, "one", "")).unwrap();
    let notify = UnixDatagram::bind(sockets.path("notify")).unwrap();
    notify.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let heard = || {
        let mut bytes = [0; 200];
        let length = notify.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let mut run = crate::common::Run::new(&["switch", "--config"])
        .arg(&file)
        .env("NOTIFY_SOCKET", sockets.path("notify"))
        .env("JOURNAL_STREAM", "8:1")
        .spawn();
    assert_eq!(heard(), "READY=1");
    assert!(sockets.path("one").exists(), "ready when its ports are");
    signal(run.pid(), Signal::HUP);
    assert!(heard().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(heard(), "READY=1");
    signal(run.pid(), Signal::TERM);
    assert_eq!(heard(), "STOPPING=1");
    let ended = run.finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.stderr.lines().all(|line| line.starts_with("<5>")), "{ended}");
    assert!(ended.stderr.contains("nothing is different"), "{ended}");
}
