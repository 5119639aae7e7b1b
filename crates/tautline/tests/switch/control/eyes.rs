//! What `tautline ctl` shows and changes.
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapNGReader};
use serde_json::Value;

use super::Scene;
use crate::common::{Run, Started, tautline};
use crate::switch_process::guest::{Guest, TRANSMIT, frame, layouts};
use crate::switch_process::wait_for;

/// The ring of a port in one direction.
fn ring(rings: &Value, port: &str, from_guest: bool) -> Value {
    let all = rings["rings"].as_array().unwrap().iter();
    let mut found = all.filter(|ring| ring["port"] == port && ring["from_guest"] == from_guest);
    found.next().unwrap_or_else(|| panic!("no ring of {port}: {rings:#}")).clone()
}

/// Frames of a capture: their bytes, their length, and whether they came in.
fn frames(file: &Path) -> Vec<(Vec<u8>, u32, bool)> {
    let bytes = fs::read(file).unwrap();
    let mut reader = PcapNGReader::new(1 << 20, &bytes[..]).unwrap();
    let mut frames = Vec::new();
    loop {
        match reader.next() {
            Ok((size, block)) => {
                if let PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = block {
                    let flags = packet.options.iter().find(|option| option.code.0 == 2).unwrap();
                    let inbound = flags.value[0] & 3 == 1;
                    frames.push((packet.data[..packet.caplen as usize].to_vec(), packet.origlen, inbound));
                }
                reader.consume(size);
            }
            Err(PcapError::Eof) => return frames,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn rings_say_who_waits_for_whom() {
    for wanted in layouts() {
        let scene = Scene::new();
        let idle = ring(&scene.json(&["rings"]), "one", false);
        assert!(idle["words"].as_str().unwrap().contains("waits for a front-end"), "{idle}");
        let mut one = Guest::running(&scene.sockets.path("one"), wanted);
        let mut two = Guest::running(&scene.sockets.path("two"), wanted);
        // No receive buffer is posted, and frames come.
        let starved = wait_for("the switch's word on a starved guest", || {
            one.send(&frame(1, 100));
            one.reclaim(TRANSMIT);
            let rings = scene.json(&["rings"]);
            let starved = ring(&rings, "two", false);
            let words = starved["words"].as_str().unwrap();
            words.starts_with("guest has posted no receive buffers for").then_some(starved)
        });
        assert_eq!(starved["ring"]["available"], 0, "{starved}");
        assert!(starved["words"].as_str().unwrap().contains("were dropped meanwhile"), "{starved}");
        let layout = if wanted == layouts()[0] { "split" } else { "packed" };
        assert_eq!(
            (starved["ring"]["layout"].as_str(), starved["ring"]["size"].as_u64()),
            (Some(layout), Some(64))
        );
        let drops = scene.json(&["drops"]);
        let worst = &drops["drops"][0];
        assert_eq!((worst["port"].as_str(), worst["reason"].as_str()), (Some("two"), Some("receiver full")));
        let text = scene.ctl(&["rings"]);
        assert!(text.stdout.contains("guest has posted no receive buffers"), "{text}");

        two.post(5);
        one.send(&frame(2, 100));
        assert_eq!(two.receive(), frame(2, 100));
        let served = ring(&scene.json(&["rings"]), "two", false);
        assert_eq!(served["ring"]["available"], 4, "{served}");
        let ports = scene.json(&["ports"]);
        let of_one = ports["ports"].as_array().unwrap().iter().find(|port| port["name"] == "one").unwrap();
        let features: Vec<&str> =
            of_one["features"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(features.contains(&"RING_PACKED"), layout == "packed", "{features:?}");
        assert!(features.contains(&"VERSION_1"), "{features:?}");
        for command in ["ports", "stats", "drops", "rings"] {
            let run = scene.ctl(&[command]);
            assert!(run.code == Some(0) && run.stdout.contains("two"), "{command}: {run}");
        }
        let watched = scene.ctl(&["watch", "--count", "2", "--interval", "100ms"]);
        assert!(watched.code == Some(0) && watched.stdout.matches("frames/s").count() == 2, "{watched}");
        scene.end();
    }
}

#[test]
fn who_watches_ends_when_nobody_reads_any_more() {
    let scene = Scene::new();
    let mut watch = Command::new(tautline());
    let control = scene.sockets.path("control");
    watch.arg("ctl").arg(control).args(["watch", "--interval", "100ms"]).stdout(Stdio::piped());
    let mut watch = linux::Child::spawn(&mut watch).unwrap();
    let mut line = [0; 10];
    watch.take_stdout().unwrap().read_exact(&mut line).unwrap();
    // The reading end is closed now.
    let ended = watch.wait_within(Duration::from_secs(60)).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    scene.end();
}

#[test]
fn a_port_that_is_added_later_is_one_like_the_others() {
    let scene = Scene::new();
    let mut one = Guest::running(&scene.sockets.path("one"), layouts()[0]);
    let added = format!("late=vhost-user:{}", scene.sockets.path("late").display());
    assert_eq!(scene.ctl(&["add", &added]).code, Some(0));
    let mut late = Guest::running(&scene.sockets.path("late"), layouts()[1]);
    late.post(10);
    one.post(10);
    one.send(&frame(1, 200));
    assert_eq!(late.receive(), frame(1, 200));
    let twice = scene.ctl(&["add", &added]);
    assert!(twice.code == Some(1) && twice.stderr.contains("'late'"), "{twice}");
    let wrong = scene.ctl(&["add", "x=tape:y"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("tape"), "{wrong}");
    assert_eq!(scene.ctl(&["remove", "late"]).code, Some(0));
    late.wait_until_closed();
    assert!(!scene.sockets.path("late").exists(), "its socket goes with it");
    let missing = scene.ctl(&["remove", "late"]);
    assert!(missing.code == Some(1) && missing.stderr.contains("one, two"), "{missing}");
    // The name and the place are free again.
    assert_eq!(scene.ctl(&["add", &added]).code, Some(0));
    let mut late = Guest::running(&scene.sockets.path("late"), layouts()[0]);
    late.post(1);
    one.send(&frame(2, 200));
    assert_eq!(late.receive(), frame(2, 200));
    let wired = scene.ctl(&["remove", "a"]);
    assert!(wired.code == Some(1) && wired.stderr.contains("wire"), "{wired}");
    scene.end();
}

#[test]
fn a_capture_keeps_what_its_filter_asks_for() {
    let scene = Scene::new();
    let mut one = Guest::running(&scene.sockets.path("one"), layouts()[0]);
    let mut two = Guest::running(&scene.sockets.path("two"), layouts()[1]);
    let file = scene.sockets.path("small.pcapng");
    let capture = |filter: &str| {
        Run::new(&["ctl"])
            .arg(scene.sockets.path("control"))
            .args(&["capture", "one", "--count", "2", "--filter", filter, "--output"])
            .arg(&file)
    };
    let wrong = capture("port http").finish();
    assert!(wrong.code == Some(2) && wrong.stderr.contains("'http' is not a port's number"), "{wrong}");
    assert!(!file.exists(), "nothing is made for what is not understood");
    let mut running = capture("not greater 100").spawn();
    wait_for("the capture's beginning", || {
        fs::metadata(&file).is_ok_and(|file| file.len() > 100).then_some(())
    });
    two.post(4);
    let mut expected = Vec::new();
    for (number, bytes) in [(0, 60), (1, 1400), (2, 64), (3, 900)] {
        let sent = frame(number, bytes);
        one.send(&sent);
        assert_eq!(two.receive(), sent);
        if bytes < 100 {
            expected.push((sent, bytes as u32, true));
        }
    }
    let ended = running.finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    let found = frames(&file);
    assert_eq!(found, expected);
    scene.end();
}

/// A capture of more than comes, that has begun.
fn endless_capture(scene: &Scene, file: &Path) -> Started {
    let capture = Run::new(&["ctl"])
        .arg(scene.sockets.path("control"))
        .args(&["capture", "one", "--count", "100000000", "--output"])
        .arg(file)
        .spawn();
    wait_for("the capture's beginning", || {
        fs::metadata(file).is_ok_and(|file| file.len() > 100).then_some(())
    });
    capture
}

#[test]
fn a_capture_ends_with_its_port() {
    let scene = Scene::new();
    let mut one = Guest::running(&scene.sockets.path("one"), layouts()[0]);
    let file = scene.sockets.path("one.pcapng");
    let mut capture = endless_capture(&scene, &file);
    one.send(&frame(1, 60));
    wait_for("the frame", || (frames(&file).len() == 1).then_some(()));
    assert_eq!(scene.ctl(&["remove", "one"]).code, Some(0));
    let ended = capture.finish();
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains("the port was removed"), "{ended}");
    assert!(ended.stdout.contains("1 frames captured"), "{ended}");
    scene.end();
}

#[test]
fn a_capture_is_written_to_its_last_frame_when_the_switch_ends() {
    let scene = Scene::new();
    let mut one = Guest::running(&scene.sockets.path("one"), layouts()[0]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.pcapng");
    let mut capture = endless_capture(&scene, &file);
    // Frames come as long as they are received.
    let sending = std::thread::spawn(move || {
        let mut on_the_way = 0;
        while !one.is_closed() {
            while on_the_way < 16 {
                one.send(&frame(1, 1400));
                on_the_way += 1;
            }
            on_the_way -= one.reclaim(TRANSMIT);
        }
    });
    wait_for("many frames", || fs::metadata(&file).is_ok_and(|file| file.len() > 1 << 20).then_some(()));
    scene.end();
    let ended = capture.finish();
    sending.join().unwrap();
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains("the switch has ended"), "{ended}");
    let told = ended.stdout.split(' ').next().unwrap().parse::<usize>().unwrap();
    assert_eq!(frames(&file).len(), told, "{ended}");
}

#[test]
fn a_capture_holds_what_passed_in_both_directions() {
    let scene = Scene::new();
    let mut one = Guest::running(&scene.sockets.path("one"), layouts()[0]);
    let mut two = Guest::running(&scene.sockets.path("two"), layouts()[1]);
    let file = scene.sockets.path("one.pcapng");
    let mut capture = Run::new(&["ctl"])
        .arg(scene.sockets.path("control"))
        .args(&["capture", "one", "--count", "4", "--snaplen", "80", "--format", "json", "--output"])
        .arg(&file)
        .spawn();
    // The file's beginning is there as soon as frames are copied.
    wait_for("the capture's beginning", || {
        fs::metadata(&file).is_ok_and(|file| file.len() > 100).then_some(())
    });
    one.post(4);
    two.post(4);
    let mut expected = Vec::new();
    for number in 0..2 {
        let (there, back) = (frame(number, 60), frame(100 + number, 1400));
        one.send(&there);
        assert_eq!(two.receive(), there);
        two.send(&back);
        assert_eq!(one.receive(), back);
        expected.push((there, 60, true));
        expected.push((back[..80].to_vec(), 1400, false));
    }
    let ended = capture.finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    peers::schema::fits(&told);
    assert_eq!((told["captured"].as_u64(), told["dropped"].as_u64()), (Some(4), Some(0)));
    let mut found = frames(&file);
    // Two queues, so two streams: each is in order.
    found.sort_by_key(|(_, _, inbound)| *inbound);
    expected.sort_by_key(|(_, _, inbound)| *inbound);
    assert_eq!(found, expected);

    let full = scene.ctl(&["capture", "nobody", "--output", file.to_str().unwrap()]);
    assert!(full.code == Some(1) && full.stderr.contains("'nobody'"), "{full}");
    scene.end();
}
