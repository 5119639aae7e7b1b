//! Flows of a running switch change: by `tautline ctl flows`, and by `ovs-ofctl` over OpenFlow.
use std::fs;
use std::path::Path;

use super::{MARK, Scene, sorted};
use crate::common::{Ended, Run};
use crate::switch_process::{Sockets, wait_for};

/// A frame of 74 bytes for UDP port 53 of a host, and its length.
const FRAME_BYTES: u64 = 74;

fn datagram(host: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, host, 2, 0, 0, 0, 0, 99, 8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17];
    frame.extend([0, 0, 10, 0, 0, 99, 10, 0, 0, host, 0, 53, 0, 53, 0, 40, 0, 0]);
    frame.resize(FRAME_BYTES as usize, 7);
    frame
}

/// A switch of three ports, without flows of its own, with a control socket and an OpenFlow socket.
pub(super) struct Running {
    pub(super) scene: Scene,
    control: String,
    pub(super) openflow: String,
    folder: tempfile::TempDir,
}

impl Running {
    pub(super) fn start(workers: &str) -> Self {
        let sockets = Sockets::new();
        let [control, openflow] =
            ["control", "switch.mgmt"].map(|name| sockets.path(name).display().to_string());
        let names = ["one", "two", "three"];
        let mut arguments: Vec<_> =
            names.iter().flat_map(|name| sockets.port(name, "vhost-user", "")).collect();
        let options = ["--control", &control, "--openflow", &openflow, "--cpus", workers];
        arguments.extend(options.map(str::to_owned));
        let scene = Scene::of(sockets, &arguments, &names);
        Running { scene, control, openflow, folder: tempfile::tempdir().unwrap() }
    }

    #[track_caller]
    fn try_flows(&self, words: &[&str]) -> Ended {
        Run::new(&["ctl", &self.control, "flows"]).args(words).finish()
    }

    #[track_caller]
    pub(super) fn flows(&self, words: &[&str]) -> String {
        let ended = self.try_flows(words);
        assert!(ended.code == Some(0), "{ended}");
        ended.stdout
    }

    /// Runs `ovs-ofctl COMMAND unix:SOCKET WORDS`.
    #[track_caller]
    pub(super) fn ofctl(&self, command: &str, words: &[&str]) -> String {
        let target = format!("unix:{}", self.openflow);
        let all: Vec<&str> =
            command.split(' ').chain([target.as_str()]).chain(words.iter().copied()).collect();
        let programs = peers::ovs::programs().unwrap();
        let output = programs.instance(self.folder.path()).ofctl(&all).output().unwrap();
        let [said, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{all:?}: {said}{error}");
        said.into_owned()
    }

    /// The memory of the switch.
    pub(super) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.scene.switch.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Which guests get a datagram for this host from port 1.
    #[track_caller]
    pub(super) fn reached(&mut self, host: u8) -> Vec<u16> {
        let sent = self.scene.send(1, &[datagram(host)]);
        let got = (1..).zip(&sent).filter(|(_, frames)| **frames == [datagram(host)]);
        let got: Vec<u16> = got.map(|(port, _)| port).collect();
        assert_eq!(sent.iter().flatten().count(), got.len(), "other frames came");
        got
    }
}

/// The number of frames and bytes that a dump shows of the flow with these words.
fn counted(dump: &str, words: &str) -> (u64, u64) {
    let line = dump.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {dump}"));
    let of = |name: &str| {
        let (_, rest) = line.split_once(name).unwrap();
        rest.split([',', ' ']).next().unwrap().parse().unwrap()
    };
    (of("n_packets="), of("n_bytes="))
}

/// A switch without `--flows` learns until it gets flows, and again when they are gone.
#[test]
fn flows_are_added_replaced_and_deleted_while_frames_pass() {
    for workers in ["0", "0,1"] {
        let mut running = Running::start(workers);
        assert!(
            running
                .flows(&["dump"])
                .ends_with("table=0, n_packets=0, n_bytes=0, priority=0 actions=NORMAL\n")
        );
        assert_eq!(running.flows(&["add", MARK]), "2 flows\n");
        assert_eq!(running.reached(2), [2, 3], "a flood");
        running.flows(&["add", "cookie=0x5,priority=9,udp,nw_dst=10.0.0.2 actions=output:3"]);
        for _ in 0..10 {
            assert_eq!(running.reached(2), [3]);
        }
        let dump = running.flows(&["dump", "udp"]);
        assert_eq!(counted(&dump, "cookie=0x5"), (10, 10 * FRAME_BYTES), "{dump}");
        assert_eq!(dump.lines().count(), 1, "{dump}");
        // A replacement keeps the counts of what stays, and is long enough to come in a file.
        let mut file = format!("{MARK}\npriority=1 actions=drop\n");
        (0..3000_u32).for_each(|n| {
            file +=
                &format!("table=1,priority={n},ip,nw_src=10.1.{}.{} actions=output:1\n", n / 250, n % 250);
        });
        file += "cookie=0x5,priority=9,udp,nw_dst=10.0.0.2 actions=output:3\n";
        let path = running.folder.path().join("flows");
        fs::write(&path, file).unwrap();
        assert_eq!(running.flows(&["replace", path.to_str().unwrap()]), "3003 flows\n");
        assert_eq!((running.reached(2), running.reached(3)), (vec![3], vec![]));
        assert_eq!(counted(&running.flows(&["dump"]), "cookie=0x5").0, 11);
        running.flows(&["del", "--strict", "priority=9,udp,nw_dst=10.0.0.2"]);
        assert_eq!(running.reached(2), Vec::<u16>::new());
        assert_eq!(running.flows(&["del", "table=1"]), "2 flows\n");
        let traced = running.flows(&["trace", "in_port=1,udp,nw_dst=10.0.0.2"]);
        assert!(traced.contains(" 0. priority 1\n") && traced.contains("Sent: nothing"), "{traced}");
        let json = running.flows(&["dump", "--format", "json"]);
        assert!(json.contains("\"schema\": \"tautline-ctl/1\"") && json.contains("\"packets\": 2"), "{json}");
        running.scene.switch.end();
    }
}

/// Later frames of a connection go another way than its first frame, until a controller ends the connection.
#[test]
fn controllers_end_connections_by_zone() {
    let mut running = Running::start("0");
    running.flows(&["add", MARK]);
    running.flows(&["add", "priority=1,udp actions=ct(table=1,zone=5)"]);
    let first = "ct(commit,zone=5,exec(set_field:7->ct_mark)),output:3";
    running.flows(&["add", &format!("table=1,priority=1,udp,ct_state=+trk actions={first}")]);
    running.flows(&["add", "table=1,priority=2,udp,ct_mark=7 actions=output:2"]);
    for _ in 0..2 {
        assert_eq!([running.reached(2), running.reached(2), running.reached(2)], [[3], [2], [2]]);
        running.ofctl("ct-flush", &["zone=4"]);
        assert_eq!(running.reached(2), [2], "another zone");
        running.ofctl("ct-flush", &["zone=5"]);
    }
    assert_eq!(running.reached(2), [3]);
    running.scene.switch.end();
}

/// A station's address leads to its port once it has sent a frame, and there is one flow for it however many frames it
/// sends.
#[test]
fn frames_learn_flows_that_forward_the_next_ones() {
    for workers in ["0", "0,1"] {
        let mut running = Running::start(workers);
        running.flows(&["add", MARK]);
        let learn =
            "learn(table=1,idle_timeout=600,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])";
        running.flows(&["add", &format!("priority=1 actions={learn},resubmit(,1)")]);
        running.flows(&["add", "table=1,priority=0 actions=flood"]);
        let of =
            |to: u8, from: u8| [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5][..], &[7; 46]].concat();
        let none = Vec::<Vec<u8>>::new;
        let (there, back) = (of(1, 2), of(2, 1));
        let flood = [vec![there.clone()], none(), vec![there.clone()]];
        assert_eq!(running.scene.send(2, std::slice::from_ref(&there)), flood);
        // The bridge has a learned flow at once, its workers within 10 ms.
        wait_for("the flow's effect", || {
            (running.scene.send(1, std::slice::from_ref(&back)) == [none(), vec![back.clone()], none()])
                .then_some(())
        });
        wait_for("the other flow's effect", || {
            (running.scene.send(2, std::slice::from_ref(&there)) == [vec![there.clone()], none(), none()])
                .then_some(())
        });
        let traced = running.flows(&["trace", "in_port=3,dl_src=02:00:00:00:00:03,dl_dst=02:00:00:00:00:02"]);
        assert!(traced.contains("Sent: 2") && traced.contains("each frame makes a flow"), "{traced}");
        let dump = running.flows(&["dump", "table=1"]);
        assert_eq!(dump.lines().count(), 3, "{dump}");
        for flow in ["dl_dst=02:00:00:00:00:02 actions=output:2", "dl_dst=02:00:00:00:00:01 actions=output:1"]
        {
            assert!(dump.contains(flow), "{dump}");
        }
        assert!(dump.contains("idle_timeout=600"), "{dump}");
        running.scene.switch.end();
    }
}

#[test]
fn flows_that_are_refused_change_nothing_and_say_why() {
    let running = Running::start("0");
    for (words, said) in [
        (&["add", "actions=LOCAL"][..], "line 1: action 'LOCAL': the switch has no port of its own"),
        (&["add", "nonsense"], "actions are missing"),
        (&["add", "table=254 actions=drop"], "not permitted"),
        (&["add", "priority=0,check_overlap,ip actions=drop"], "overlaps"),
        (&["del", "colour=blue"], "colour"),
        (&["dump", "--bridge", "br0"], "there is no bridge br0; there are: switch"),
        (&["trace", "in_port=1", "0g"], "hexadecimal"),
    ] {
        let ended = running.try_flows(words);
        assert!(ended.code == Some(1) && ended.to_string().contains(said), "{words:?}: {ended}");
    }
    let tagged = format!("late=vhost-user:{},tag=5", running.folder.path().join("late").display());
    let added = Run::new(&["ctl", &running.control, "add", &tagged]).finish();
    assert!(added.code == Some(0), "{added}");
    let ended = running.try_flows(&["add", "ip actions=drop"]);
    assert!(ended.code == Some(1) && ended.to_string().contains("a port has VLANs"), "{ended}");
    assert_eq!(running.flows(&["dump"]).lines().count(), 1);
    running.scene.switch.end();
}

#[test]
fn ovs_ofctl_drives_a_running_switch() {
    let mut running = Running::start("0");
    let shown = running.ofctl("show", &[]);
    for said in ["n_tables:254", " 1(one): addr:02:", " 3(three): addr:02:"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    running.ofctl("add-flow", &[MARK]);
    for version in ["OpenFlow10", "OpenFlow13", "OpenFlow14", "OpenFlow15"] {
        let on = |command: &str| format!("-O {version} {command}");
        running.ofctl(&on("add-flow"), &["priority=9,udp,nw_dst=10.0.0.2,actions=output:3"]);
        assert_eq!(running.reached(2), [3], "{version}");
        assert_eq!(running.reached(2), [3], "{version}");
        let dump = running.ofctl(&on("dump-flows"), &["udp"]);
        assert_eq!(counted(&dump, "priority=9"), (2, 2 * FRAME_BYTES), "{version}");
        running.ofctl(&on("mod-flows"), &["udp,actions=output:2"]);
        assert_eq!(running.reached(2), [2], "{version}");
        running.ofctl(&on("del-flows"), &["udp"]);
        assert_eq!(running.reached(2), [2, 3], "{version}");
    }
    let path = running.folder.path().join("flows");
    fs::write(&path, format!("{MARK}\npriority=9,udp,nw_dst=10.0.0.2 actions=output:3\n")).unwrap();
    for (command, file) in [("-O OpenFlow14 --bundle replace-flows", true), ("--bundle add-flows", true)] {
        running.ofctl("del-flows", &["udp"]);
        running.ofctl(command, &[path.to_str().filter(|_| file).unwrap()]);
        assert_eq!(running.reached(2), [3], "{command}");
    }
    assert!(running.ofctl("-O OpenFlow13 dump-groups", &[]).starts_with("OFPST_GROUP_DESC reply"));
    assert!(running.ofctl("-O OpenFlow13 dump-meters", &[]).starts_with("OFPST_METER_CONFIG reply"));
    let ports = running.ofctl("dump-ports", &["one"]);
    // Each datagram is followed by a mark.
    let frames = 2 * (4 * 4 + 2);
    assert!(ports.contains(&format!("rx pkts={frames}, ")), "{ports}");
    assert_eq!(sorted(running.scene.send(2, &[]))[1], Vec::<Vec<u8>>::new());
    assert!(!Path::new(&running.openflow).with_extension("new").exists());
    running.scene.switch.end();
}

/// A frame of a controller is edited and sent as its actions say, on a switch that learned until then too.
#[test]
fn frames_of_controllers_are_sent() {
    let mut running = Running::start("0,1");
    let hex: String = datagram(2).iter().map(|byte| format!("{byte:02x}")).collect();
    let edit = "set_field:02:00:00:00:00:63->eth_dst";
    running.ofctl(
        "packet-out",
        &[&format!("in_port=1,packet={hex},actions={edit},output:2,output:1,resubmit(,5)")],
    );
    let mut edited = datagram(2);
    edited[5] = 0x63;
    running.ofctl("add-flow", &[MARK]);
    let sent = running.scene.send(3, &[]);
    assert_eq!(sent, [vec![], vec![edited], vec![]], "a frame does not leave by its input port");
    running.ofctl("add-flow", &["table=5,udp,actions=output:3"]);
    for input in ["controller", "2"] {
        running.ofctl("packet-out", &[&format!("in_port={input},packet={hex},actions=resubmit(,5)")]);
        assert_eq!(running.scene.send(1, &[]), [vec![], vec![], vec![datagram(2)]], "{input}");
    }
    running.ofctl("packet-out", &[&format!("in_port=controller,packet={hex},actions=normal")]);
    assert_eq!(running.scene.send(1, &[]), [vec![datagram(2)], vec![datagram(2)], vec![datagram(2)]]);
    assert!(running.ofctl("dump-flows", &["table=5"]).contains("n_packets=2,"));
    running.scene.switch.end();
}

/// Splits a line of the page into words; single quotes hold a word together.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn the_commands_of_the_page_for_a_running_switch_work() {
    let page = include_str!("../../../../../docs/flows.md");
    let running = Running::start("0");
    let flows = page.split_once("<<'END'\n").unwrap().1.split_once("\nEND\n").unwrap().0;
    let path = running.folder.path().join("flows").display().to_string();
    fs::write(&path, flows).unwrap();
    let marker = "<!-- test: run by crates/tautline/tests/switch/flow_tables/changes.rs -->\n```sh\n";
    let mut said = Vec::new();
    for line in page.split(marker).skip(1).flat_map(|block| block.split("```").next().unwrap().lines()) {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = match words[..] {
            ["tautline", "ctl", "/tmp/switch.sock", "flows", ref rest @ ..] => {
                let rest: Vec<&str> =
                    rest.iter().map(|word| if *word == "/tmp/flows" { &path[..] } else { *word }).collect();
                running.flows(&rest)
            }
            ["ovs-ofctl", ref options @ .., "unix:/tmp/switch.mgmt"] => {
                running.ofctl(&options.join(" "), &[])
            }
            ["ovs-ofctl", ref options @ .., "unix:/tmp/switch.mgmt", "/tmp/flows"] => {
                running.ofctl(&options.join(" "), &[&path])
            }
            _ => panic!("{line}"),
        };
        said.push((line, answer));
    }
    let answer = |start: &str| {
        let found = said.iter().find(|(line, _)| line.contains(start));
        &found.unwrap_or_else(|| panic!("the page has no '{start}'")).1
    };
    assert!(answer("flows trace").contains("priority 20\n"), "{}", answer("flows trace"));
    assert_eq!((answer("flows del").as_str(), answer("flows replace").as_str()), ("1 flows\n", "5 flows\n"));
    assert!(answer("ovs-ofctl dump-flows").lines().count() >= 5);
    running.scene.switch.end();
}
