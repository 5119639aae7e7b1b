//! Random flows and frames with labels of MPLS.
use flow::Flow;

use super::common::Random;
use super::flows::of;
use super::frames::{below, frame as plain};

const MATCHES: [&str; 8] = [
    "mpls",
    "mpls,mpls_label=V",
    "mpls,mpls_label=V,mpls_bos=1",
    "mpls,mpls_tc=V",
    "mplsm,mpls_label=V",
    "mpls,mpls_ttl=1",
    "ip,nw_src=10.0.0.V",
    "dl_vlan=5,ip",
];

const ACTIONS: [&str; 13] = [
    "pop_mpls:0x0800",
    "pop_mpls:0x0800",
    "pop_mpls:0x8847",
    "push_mpls:0x8847",
    "push_mpls:0x8848",
    "set_mpls_label(V)",
    "set_mpls_tc(V)",
    "set_mpls_ttl(V)",
    "dec_mpls_ttl",
    "push_vlan:0x8100",
    "pop_vlan",
    "clone(pop_mpls:0x0800,resubmit(,T),output:P)",
    "output:P",
];

fn filled(random: &mut Random, pattern: &str, table: usize) -> String {
    let pattern = pattern.replace("=V", &format!("={}", 1 + below(random, 3)));
    let pattern = pattern.replace("10.0.0.V", &format!("10.0.0.{}", 1 + below(random, 3)));
    let pattern = pattern.replace("(V)", &format!("({})", 1 + below(random, 3)));
    let pattern = pattern.replace(":P", &format!(":{}", 1 + below(random, 4)));
    pattern.replace(",T)", &format!(",{})", (table + 1).min(5)))
}

/// Flows of six tables, for frames with labels and for some without. Each has a priority of its own.
pub fn flows(random: &mut Random) -> Vec<String> {
    let mut all = Vec::new();
    for table in 0..6 {
        for number in 0..6 {
            let wanted = of(random, &MATCHES);
            let wanted = filled(random, wanted, table);
            let mut actions = Vec::new();
            for _ in 0..=below(random, 3) {
                let action = of(random, &ACTIONS);
                actions.push(filled(random, action, table));
            }
            actions.push(format!("resubmit(,{})", table + 1));
            let priority = 5000 + 10 * below(random, 100) + number;
            let text = format!("table={table},priority={priority},{wanted} actions={}", actions.join(","));
            // Actions that do not fit what the flow matches are left out.
            all.extend(Some(text).filter(|text| Flow::parse(text).is_ok()));
        }
    }
    all
}

/// A frame with up to three labels.
pub fn frame(random: &mut Random) -> Vec<u8> {
    let frame = plain(random);
    let mut labelled = frame[..12].to_vec();
    let mut behind = 14;
    if frame[12..14] == [0x81, 0] && below(random, 2) == 0 {
        labelled.extend(&frame[12..16]);
        behind = 18;
    }
    labelled.extend([0x88, of(random, &[0x47, 0x47, 0x48])]);
    let labels = 1 + below(random, 3);
    for number in 1..=labels {
        let bottom = u8::from(number == labels);
        let label = 1 + below(random, 3) as u8;
        labelled.extend([0, 0, label << 4 | (below(random, 4) as u8) << 1 | bottom]);
        labelled.push(of(random, &[1, 2, 64]));
    }
    labelled.extend(&frame[behind..]);
    labelled
}
