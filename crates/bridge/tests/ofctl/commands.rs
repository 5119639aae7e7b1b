//! The commands of `ovs-ofctl`.

pub const VERSIONS: [&str; 4] = ["OpenFlow10", "OpenFlow13", "OpenFlow14", "OpenFlow15"];

/// Flows for a file.
pub const FLOWS: &str = "\
table=0,priority=1,in_port=1,dl_vlan=5,dl_vlan_pcp=3 actions=strip_vlan,output:2
table=0,priority=2,dl_vlan=0xffff actions=mod_vlan_vid:7,mod_vlan_pcp:2,output:2
table=0,priority=3,vlan_tci=0x1000/0x1000 actions=NORMAL
table=0,priority=4,ip,nw_src=10.0.0.0/8,nw_tos=32 actions=mod_nw_src:1.2.3.4,output:1
table=0,priority=5,tcp,tp_dst=80,tcp_flags=+syn-ack actions=mod_tp_src:1,mod_tp_dst:2,output:1
table=0,priority=6,udp,tp_src=0x10/0xf0 actions=controller(max_len=128,id=3,reason=no_match)
table=0,priority=8,arp,arp_op=1,arp_spa=10.0.0.1 actions=IN_PORT
table=0,priority=12,tun_id=5,tun_src=1.1.1.1 actions=set_tunnel:5,output:1
table=0,priority=14,reg0=1,reg1=2/3,metadata=5 actions=load:5->NXM_NX_REG0[0..7],output:NXM_NX_REG0[0..15]
table=0,priority=16,ip,ct_state=+trk+est-rpl,ct_zone=5 actions=ct(commit,zone=5,exec(set_field:1->ct_mark)),ct(table=5,nat)
table=0,priority=23,conj_id=5 actions=note:01.02.03,exit
table=0,priority=24,in_port=2 actions=conjunction(5,1/2),conjunction(6,2/3)
table=3,priority=26,cookie=0x55 actions=resubmit:1,resubmit(1,2),resubmit(,3)
table=7,priority=29,sctp,tp_src=5 actions=drop
";

/// Questions that have an answer without flows.
const QUESTIONS: &[&str] = &[
    "show BRIDGE",
    "dump-desc BRIDGE",
    "dump-tables BRIDGE",
    "dump-table-desc BRIDGE",
    "dump-ports BRIDGE",
    "dump-ports BRIDGE 1",
    "dump-ports BRIDGE 77",
    "dump-ports-desc BRIDGE",
    "dump-ports-desc BRIDGE 2",
    "queue-stats BRIDGE",
    "get-frags BRIDGE",
    "dump-tlv-map BRIDGE",
    "dump-flows BRIDGE",
    "dump-aggregate BRIDGE",
];

/// Changes of flows, and what is there behind each.
const CHANGES: &[&str] = &[
    "add-flows BRIDGE FLOWS",
    "dump-flows BRIDGE",
    "dump-flows BRIDGE table=0,in_port=1",
    "dump-flows BRIDGE cookie=0x55/-1",
    "dump-flows BRIDGE out_port=1",
    "dump-flows BRIDGE ip",
    "dump-aggregate BRIDGE table=0",
    "mod-flows BRIDGE ip,actions=drop",
    "--strict mod-flows BRIDGE table=0,priority=3,vlan_tci=0x1000/0x1000,actions=output:1",
    "mod-flows BRIDGE cookie=0x55/-1,actions=output:2",
    "mod-flows BRIDGE table=9,in_port=1,actions=output:2",
    "dump-flows BRIDGE",
    "--strict del-flows BRIDGE table=0,priority=2,dl_vlan=0xffff",
    "--strict del-flows BRIDGE table=0,priority=99,dl_vlan=0xffff",
    "del-flows BRIDGE cookie=0x55/-1",
    "del-flows BRIDGE out_port=2",
    "dump-flows BRIDGE",
    "add-flow BRIDGE priority=50,check_overlap,ip,actions=drop",
    "add-flow BRIDGE priority=50,check_overlap,in_port=1,actions=drop",
    "add-flow BRIDGE priority=51,idle_timeout=900,hard_timeout=1000,send_flow_rem,udp,actions=output:1",
    "add-flow BRIDGE priority=52,actions=output:77",
    "add-flow BRIDGE table=254,actions=drop",
    "dump-flows BRIDGE",
    "dump-tables BRIDGE",
    "replace-flows BRIDGE FLOWS",
    "diff-flows BRIDGE FLOWS",
    "dump-flows BRIDGE",
    "mod-port BRIDGE p1 down",
    "dump-ports-desc BRIDGE",
    "mod-port BRIDGE p1 up",
    "mod-port BRIDGE p1 no-forward",
    "mod-port BRIDGE p1 forward",
    "set-frags BRIDGE drop",
    "get-frags BRIDGE",
    "set-frags BRIDGE normal",
    "packet-out BRIDGE in_port=1,packet=ffffffffffff000000000001080045000014,actions=drop",
    "add-tlv-map BRIDGE {class=0x102,type=0x80,len=4}->tun_metadata0",
    "add-tlv-map BRIDGE {class=0x102,type=0x81,len=4}->tun_metadata0",
    "add-tlv-map BRIDGE {class=0x102,type=0x80,len=4}->tun_metadata1",
    "dump-tlv-map BRIDGE",
    "del-tlv-map BRIDGE",
    "ct-flush BRIDGE zone=5",
    "del-flows BRIDGE",
];

/// Groups, meters and bundles, which OpenFlow 1.0 does not have.
const LATER: &[&str] = &[
    "dump-group-features BRIDGE",
    "dump-groups BRIDGE",
    "add-group BRIDGE group_id=2,type=select,bucket=weight:1,actions=output:1",
    "add-group BRIDGE group_id=2,type=select,bucket=weight:1,actions=output:1",
    "add-group BRIDGE group_id=3,type=ff,bucket=watch_port:1,actions=output:1",
    "add-group BRIDGE group_id=4,type=all,bucket=actions=output:2,bucket=actions=output:1",
    "add-group BRIDGE group_id=5,type=indirect,bucket=actions=output:2",
    "add-group BRIDGE group_id=6,type=indirect,bucket=actions=output:2,bucket=actions=output:1",
    "dump-groups BRIDGE",
    "dump-group-stats BRIDGE",
    "dump-group-stats BRIDGE 4",
    "mod-group BRIDGE group_id=4,type=all,bucket=actions=output:1",
    "mod-group BRIDGE group_id=44,type=all,bucket=actions=output:1",
    "--may-create mod-group BRIDGE group_id=44,type=all,bucket=actions=output:1",
    "add-flow BRIDGE priority=3,actions=group:4",
    "add-flow BRIDGE priority=4,actions=group:99",
    "dump-group-stats BRIDGE 4",
    "dump-flows BRIDGE out_group=4",
    "del-groups BRIDGE group_id=4",
    "del-groups BRIDGE group_id=99",
    "dump-flows BRIDGE",
    "dump-groups BRIDGE",
    "del-groups BRIDGE",
    "meter-features BRIDGE",
    "add-meter BRIDGE meter=1,kbps,burst,stats,band=type=drop,rate=1000,burst_size=800",
    "add-meter BRIDGE meter=1,kbps,band=type=drop,rate=1000",
    "add-meter BRIDGE meter=2,pktps,band=type=drop,rate=10",
    "mod-meter BRIDGE meter=2,pktps,stats,band=type=drop,rate=5",
    "mod-meter BRIDGE meter=3,pktps,band=type=drop,rate=5",
    "add-flow BRIDGE priority=40,actions=meter:1,output:1",
    "add-flow BRIDGE priority=41,actions=meter:9,output:1",
    "dump-meters BRIDGE",
    "dump-meter BRIDGE meter=2",
    "dump-meter BRIDGE meter=7",
    "meter-stats BRIDGE",
    "del-meter BRIDGE meter=1",
    "del-meter BRIDGE meter=77",
    "dump-flows BRIDGE",
    "del-meters BRIDGE",
    "add-flow BRIDGE priority=41,ip,actions=clear_actions,write_actions(output:1),write_metadata:5,goto_table:3",
    "add-flow BRIDGE table=3,priority=41,ip,actions=goto_table:2",
    "--bundle add-flows BRIDGE FLOWS",
    "dump-flows BRIDGE",
    "--bundle replace-flows BRIDGE FLOWS",
    "dump-flows BRIDGE",
    "--bundle del-flows BRIDGE table=0",
    "dump-flows BRIDGE",
    "del-flows BRIDGE",
];

/// Commands on buckets, which OpenFlow 1.5 has.
const BUCKETS: &[&str] = &[
    "add-group BRIDGE group_id=1,type=select,selection_method=dp_hash,bucket=bucket_id:0,weight:100,actions=output:1,bucket=bucket_id:1,weight:50,actions=output:2",
    "insert-buckets BRIDGE group_id=1,command_bucket_id=last,bucket=bucket_id:7,weight:5,actions=output:1",
    "insert-buckets BRIDGE group_id=1,command_bucket_id=0,bucket=bucket_id:9,weight:5,actions=output:1",
    "insert-buckets BRIDGE group_id=1,command_bucket_id=first,bucket=bucket_id:9,weight:5,actions=output:1",
    "insert-buckets BRIDGE group_id=77,command_bucket_id=first,bucket=bucket_id:9,weight:5,actions=output:1",
    "dump-groups BRIDGE 1",
    "remove-buckets BRIDGE group_id=1,command_bucket_id=7",
    "remove-buckets BRIDGE group_id=1,command_bucket_id=7",
    "remove-buckets BRIDGE group_id=1,command_bucket_id=first",
    "dump-groups BRIDGE",
    "remove-buckets BRIDGE group_id=1,command_bucket_id=all",
    "dump-groups BRIDGE",
    "del-groups BRIDGE",
];

/// All commands of a version, as words. A blank separates words; a comma separates a flow's match from its actions.
pub fn all(version: &str) -> Vec<Vec<&'static str>> {
    let later = if version == "OpenFlow10" { &[][..] } else { LATER };
    let buckets = if version == "OpenFlow15" { BUCKETS } else { &[] };
    let all = [QUESTIONS, CHANGES, later, buckets].concat();
    all.into_iter().map(|command| command.split(' ').collect()).collect()
}
