//! The commands of docs/ovs-vsctl.md.
use super::Scene;

#[test]
fn every_command_of_the_page_works() {
    let page = include_str!("../../../../../docs/ovs-vsctl.md");
    let scene = Scene::new();
    // As the page has it, there is no bridge yet.
    scene.vsctl("del-br br0");
    let path = scene.sockets.path("vm2").display().to_string();
    let mut said = Vec::new();
    let blocks =
        page.split("<!-- test: run by crates/tautline/tests/switch/ovsdb/page.rs -->\n```sh\n").skip(1);
    for line in blocks.flat_map(|block| block.split("```").next().unwrap().lines()) {
        let line = line.replace("/tmp/vm2.sock", &path);
        let (program, words) = line.split_once(' ').unwrap();
        let answer = match program {
            "ovs-vsctl" => scene.vsctl(words),
            "ovs-appctl" => scene.appctl(words),
            "ovs-ofctl" => scene.ofctl(words),
            other => panic!("{other}"),
        };
        said.push((line, answer));
    }
    let answer = |command: &str| {
        let found = said.iter().find(|(line, _)| line.starts_with(command));
        &found.unwrap_or_else(|| panic!("the page has no '{command}'")).1
    };
    assert_eq!(answer("ovs-vsctl get Interface vm1 ofport error"), "1\n[]\n");
    let shown = answer("ovs-appctl dpctl/show -s");
    assert!(shown.contains("port 1: vm1 (dpdkvhostuser)") && shown.contains("port 2: vm2 "), "{shown}");
    assert!(answer("ovs-ofctl dump-flows br0").contains("in_port=1 actions=output:2"));
    let traced = answer("ovs-appctl ofproto/trace");
    assert!(
        traced.contains("bridge(\"br0\")\n") && traced.contains("Datapath actions: NORMAL\n"),
        "{traced}"
    );
    let dumped = answer("ovs-appctl bridge/dump-flows");
    assert!(dumped.starts_with("duration=") && dumped.contains("priority=0,actions=NORMAL\n"), "{dumped}");
    assert!(answer("ovs-appctl list-commands").contains("fdb/stats-show"));
    assert!(scene.listens(&scene.database.socket().with_file_name("vm1")));
    assert_eq!(scene.columns("vm1", "error"), "[]\n");
    scene.switch.end();
}
