//! Network paths really built, with a datagram over each, and gone when they are dropped.

use environment::Agent;
use environment::network::{FAR_ADDRESS, Layer, NEAR_ADDRESS, Path};
use std::net::Ipv4Addr;
use std::process::Stdio;

/// The program of a switch, of which there is none here.
fn no_agent() -> Agent {
    Agent { binary: "/nonexistent".into(), arguments: vec![], files: vec![] }
}

/// A connection by bash's /dev/tcp from the near end to a listener at the far end.
fn answers(path: &Path) -> Result<(), String> {
    let mut ping = path.near.command("ping").unwrap();
    let output = ping.args(["-c", "3", "-i", "0.05", "-W", "5", &FAR_ADDRESS.to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() && said.contains(" 0% packet loss") { Ok(()) } else { Err(said) }
}

#[test]
fn every_layer_carries_packets_and_goes_with_its_path() {
    use Layer::*;
    for layers in [
        vec![Loopback],
        vec![Veth],
        vec![Veth, Bridge],
        vec![Veth, Bridge, Nftables],
        vec![Veth, Nftables],
        vec![Veth, Bridge, Nftables, ConnectionTracking],
        vec![Veth, Bridge, Nftables, ConnectionTracking, Vxlan],
        vec![Veth, Macvlan],
    ] {
        let path =
            Path::build(&layers, &no_agent()).unwrap_or_else(|failure| panic!("{layers:?}: {failure}"));
        answers(&path).unwrap_or_else(|said| panic!("{layers:?}: {said}"));
        let holders: Vec<u32> = [Some(&*path.near), Some(&*path.far), path.middle.as_ref()]
            .into_iter()
            .flatten()
            .map(|namespace| namespace.holder())
            .collect();
        drop(path);
        for holder in holders {
            assert!(
                !std::path::Path::new(&format!("/proc/{holder}")).exists(),
                "{layers:?}: {holder} lives on"
            );
        }
    }
    assert_ne!(NEAR_ADDRESS, Ipv4Addr::UNSPECIFIED);
}

#[test]
fn rules_stand_where_they_are_said_to_stand() {
    let path =
        Path::build(&[Layer::Veth, Layer::Bridge, Layer::Nftables, Layer::ConnectionTracking], &no_agent())
            .unwrap();
    let list = |namespace: &environment::network::Namespace| {
        let mut nft = namespace.command("nft").unwrap();
        let output = nft.args(["list", "ruleset"]).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(list(path.middle.as_ref().unwrap()).matches(" drop\n").count(), Layer::NFTABLES_RULES);
    assert!(
        list(&path.far).contains("ct state { established, related, new }")
            || list(&path.far).contains("ct state established,related,new")
    );
    assert!(list(&path.near).is_empty());
}

#[test]
fn what_the_kernel_refuses_is_said_by_its_words() {
    let failure = Path::build(&[], &no_agent()).unwrap_err();
    assert!(failure.to_string().contains("no layers"), "{failure}");
    let path = Path::build(&[Layer::Veth], &no_agent()).unwrap();
    let failure = path.near.ip("link add x0 type nonsense").unwrap_err();
    assert!(failure.to_string().contains("ip link add x0 type nonsense"), "{failure}");
}
