//! A database server that is reached by TCP, with and without keys, in a network namespace of the test.
use std::path::Path;
use std::process::Command;

use peers::{Netns, OvsDatabase};

use super::{arguments, network};
use crate::common::Run;
use crate::switch_process::{Sockets, SwitchProcess, wait_for};

const PORT: u16 = 6640;

/// A switch that follows the database at this server, and adds a port that it is asked for.
fn follows(network: &Netns, database: &OvsDatabase, server: &str, more: &[String]) {
    let sockets = Sockets::new();
    let mut words = arguments(server, &sockets);
    words.extend_from_slice(more);
    let switch = SwitchProcess::start_in(network, &words);
    let path = sockets.path("c").display().to_string();
    let vsctl = |words: &str| database.vsctl(&words.split(' ').collect::<Vec<_>>()).unwrap();
    vsctl("add-br br0 -- set Bridge br0 datapath_type=netdev");
    vsctl(&format!(
        "add-port br0 c -- set Interface c type=dpdkvhostuserclient options:vhost-server-path={path}"
    ));
    assert_eq!(vsctl("get Interface c ofport error"), "1\n[]\n");
    vsctl("del-br br0");
    switch.end();
}

/// Keys of an authority in this folder: `ca.pem`, and a key and certificate for each of both ends.
pub(super) fn make_keys(folder: &Path, authority: &str) {
    let openssl = |words: &str| {
        let output = Command::new("openssl").args(words.split(' ')).current_dir(folder).output();
        let output = output.expect("scripts/setup.sh test installs openssl");
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    };
    std::fs::write(folder.join("v3"), "basicConstraints=CA:FALSE\n").unwrap();
    let key = "req -newkey rsa:2048 -nodes";
    openssl(&format!(
        "{key} -x509 -days 2 -keyout {authority}.key -out {authority}.pem -subj /CN={authority}"
    ));
    for end in ["server", "switch"] {
        let name = format!("{authority}-{end}");
        openssl(&format!("{key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        openssl(&format!(
            "x509 -req -days 2 -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -extfile v3 \
             -out {name}.pem"
        ));
    }
}

#[test]
fn a_database_is_followed_by_tcp_and_with_keys() {
    let network = network();
    let database = OvsDatabase::in_network(&network).unwrap();
    let vsctl = |words: &str| database.vsctl(&words.split(' ').collect::<Vec<_>>()).unwrap();
    vsctl(&format!("--no-wait set-manager ptcp:{PORT}:127.0.0.1"));
    follows(&network, &database, &format!("tcp:127.0.0.1:{PORT}"), &[]);

    let keys = tempfile::tempdir().unwrap();
    ["ca", "other"].iter().for_each(|authority| make_keys(keys.path(), authority));
    let file = |name: &str| keys.path().join(name).display().to_string();
    let server = ["ca-server.key", "ca-server.pem", "ca.pem"].map(file).join(" ");
    vsctl(&format!("--no-wait set-ssl {server} -- set-manager pssl:{PORT}:127.0.0.1"));
    let own = |authority: &str, own: &str| -> Vec<String> {
        let names = [format!("{own}-switch.key"), format!("{own}-switch.pem"), format!("{authority}.pem")];
        let flags = ["--private-key", "--certificate", "--ca-cert"].map(str::to_owned);
        flags.into_iter().zip(names.map(|name| file(&name))).flat_map(|(flag, file)| [flag, file]).collect()
    };
    let place = format!("ssl:127.0.0.1:{PORT}");
    follows(&network, &database, &place, &own("ca", "ca"));
    // A server of another authority is not believed, and a switch of another authority is not let in.
    for (own, said) in
        [(own("other", "other"), "invalid peer certificate"), (own("ca", "other"), "UnknownCA")]
    {
        let sockets = Sockets::new();
        let mut words = arguments(&place, &sockets);
        words.extend(own);
        let switch = SwitchProcess::start_in(&network, &words);
        wait_for(said, || switch.logged().iter().any(|line| line.contains(said)).then_some(()));
        switch.end();
    }
    for (words, said) in [
        (vec!["--ovsdb", &place], "give --private-key"),
        (vec!["--ovsdb", "tcp:localhost"], "getent hosts localhost"),
        (
            vec!["--ovsdb", &place, "--private-key", "/none", "--certificate", "/none", "--ca-cert", "/none"],
            "name a file in PEM",
        ),
    ] {
        let refused = Run::new(&["switch", "--control", "/none/control"]).args(&words).finish();
        assert!(refused.code == Some(2) && refused.stderr.contains(said), "{said}: {refused}");
    }
}
