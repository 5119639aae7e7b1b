//! Controllers over TLS: stock `ovs-ofctl` at a target `pssl:`, and OpenSSL's server at a target `ssl:`.
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::remote::make_keys;
use super::{BRIDGE, Scene};
use crate::switch_process::wait_for;

/// The hello of OpenFlow 1.0, and a request for the switch's features.
const REQUESTS: [u8; 16] = [1, 0, 0, 8, 0, 0, 0, 1, 1, 5, 0, 8, 0, 0, 0, 2];
/// The beginning of the reply: version, type, and length without ports.
const FEATURES_REPLY: u8 = 6;

/// Connects ten times: six connections say nothing, four what is no TLS.
const STRANGERS: &str = "import os, socket, sys, time
all = [socket.create_connection(('127.0.0.1', 6653)) for _ in range(6)]
for _ in range(4):
    all.append(socket.create_connection(('127.0.0.1', 6653)))
    all[-1].sendall(b'no TLS')
    all[-1].recv(1000)
open(os.path.join(os.path.dirname(sys.argv[0]), 'connected'), 'w')
time.sleep(600)";

/// A server of OpenSSL that sends [`REQUESTS`] and keeps what it receives; killed when this value is dropped.
struct Server {
    process: Child,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    /// With a key of this authority, and the authority of clients.
    fn start(scene: &Scene, keys: &Path, authority: &str, port: u16) -> Self {
        let words = format!(
            "s_server -quiet -accept 127.0.0.1:{port} -key {authority}-server.key -cert {authority}-server.pem \
             -CAfile ca.pem -Verify 1 -verify_return_error"
        );
        let mut command = scene.network.command("openssl");
        command.args(words.split(' ')).current_dir(keys).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).spawn().unwrap();
        process.stdin.as_mut().unwrap().write_all(&REQUESTS).unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (mut output, sink) = (process.stdout.take().unwrap(), Arc::clone(&received));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                sink.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Server { process, received }
    }

    /// Whether the switch has replied with its features: behind its hello of 8 or 16 bytes.
    fn has_features(&self) -> bool {
        let received = self.received.lock().unwrap();
        received.windows(8).any(|header| header[1] == FEATURES_REPLY && header[4..8] == [0, 0, 0, 2])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs `ovs-ofctl` in the switch's network with the key of this authority: whether it succeeds, and what it says.
fn ofctl(scene: &Scene, keys: &Path, authority: &str, words: &str) -> (bool, String) {
    let programs = peers::ovs::programs().unwrap();
    let files = format!("-p {authority}-server.key -c {authority}-server.pem -C ca.pem {words}");
    let files: Vec<_> = files.split(' ').collect();
    let own: Command = programs.instance(scene.database.socket().parent().unwrap()).ofctl(&files);
    let mut command = scene.network.command(own.get_program());
    command.args(own.get_args()).current_dir(keys);
    own.get_envs().for_each(|(name, value)| _ = command.env(name, value.unwrap_or_default()));
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn controllers_prove_their_keys_and_the_switch_proves_its_own() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path();
    ["ca", "other"].iter().for_each(|authority| make_keys(keys, authority));
    let status = || scene.vsctl("--no-wait --columns=is_connected,status list Controller");
    let says = |text: &str| wait_for(text, || status().contains(text).then_some(()));

    // Targets without keys say what is missing.
    scene.vsctl(&format!("set-controller {BRIDGE} pssl:6653:127.0.0.1"));
    says("ovs-vsctl set-ssl");
    let file = |name: &str| keys.join(name).display().to_string();
    let own = |authority: &str| {
        [format!("{authority}-switch.key"), format!("{authority}-switch.pem")]
            .map(|name| file(&name))
            .join(" ")
    };
    scene.vsctl(&format!("set-ssl {} {}", own("ca"), file("ca.pem")));

    // More than the buffers of TLS hold, in both directions.
    let target = "ssl:127.0.0.1:6653";
    let flows: String = (0..2000).map(|port| format!("udp,tp_dst={port},actions=drop\n")).collect();
    std::fs::write(keys.join("flows"), flows).unwrap();
    wait_for("the bridge to listen", || ofctl(&scene, keys, "ca", &format!("show {target}")).0.then_some(()));
    let added = ofctl(&scene, keys, "ca", &format!("--bundle -O OpenFlow14 add-flows {target} flows"));
    assert!(added.0, "{}", added.1);
    let (dumped, said) = ofctl(&scene, keys, "ca", &format!("--no-stats dump-flows {target}"));
    assert!(
        dumped && said.lines().filter(|line| line.contains("actions=drop")).count() == 2000,
        "{said:.500}"
    );
    // A controller of another authority is not let in, and the status says so.
    let (connected, said) = ofctl(&scene, keys, "other", &format!("show {target}"));
    assert!(!connected, "{said}");
    says("invalid peer certificate");
    // Bytes that are no TLS, and peers that say nothing, delay no other.
    let strangers = keys.join("strangers.py");
    std::fs::write(&strangers, STRANGERS).unwrap();
    let _strangers = scene.network.start(&format!("python3 {}", strangers.display())).unwrap();
    wait_for("the strangers", || keys.join("connected").exists().then_some(()));
    let (connected, said) = ofctl(&scene, keys, "ca", &format!("show {target}"));
    assert!(connected, "{said}");

    // The switch connects by itself.
    let server = Server::start(&scene, keys, "ca", 6654);
    scene.vsctl(&format!("set-controller {BRIDGE} ssl:127.0.0.1:6654"));
    wait_for("the features", || server.has_features().then_some(()));
    says("true");
    drop(server);
    says("false");
    let server = Server::start(&scene, keys, "other", 6654);
    says("invalid peer certificate");
    assert!(!server.has_features());
    drop(server);
    // A switch of another authority is not let in.
    scene.vsctl(&format!("set-ssl {} {}", own("other"), file("ca.pem")));
    let _server = Server::start(&scene, keys, "ca", 6654);
    says("UnknownCA");
    scene.vsctl(&format!("set-ssl {0} {0} {0}", file("none.pem")));
    says("none.pem: No such file");
    scene.switch.end();
}
