//! Random tables and random frames, with labels of MPLS too: the flow of each table is that of a search through all flows.
#[path = "../../flow/tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "openvswitch/flows.rs"]
mod flows;
#[path = "openvswitch/frames.rs"]
mod frames;
#[path = "openvswitch/labelled.rs"]
mod labelled;

use common::Random;
use flow::{Field, Flow, Key};
use flow_tables::{Change, Limits, Tables};
use frames::below;

/// The flow of the highest priority that matches; no two that match have one priority.
fn searched<'a>(flows: &'a [Flow], table: u8, key: &Key) -> Option<&'a Flow> {
    let matching = flows.iter().filter(|flow| flow.table == table && flow.wanted.matches(key));
    matching.max_by_key(|flow| flow.priority)
}

fn all(random: &mut Random) -> Vec<Flow> {
    let mut all: Vec<Flow> = Vec::new();
    for text in flows::flows(random).into_iter().chain(labelled::flows(random)) {
        let flow = Flow::parse(&text).unwrap();
        let is_ambiguous = |other: &Flow| {
            (other.table, other.priority) == (flow.table, flow.priority)
                && other.wanted.overlaps(&flow.wanted)
        };
        if !all.iter().any(is_ambiguous) {
            all.push(flow);
        }
    }
    all
}

#[test]
fn frames_find_the_flow_of_a_search_through_all() {
    let mut random = Random(17);
    let (mut found, mut with_labels, mut cases) = (0, 0, 0);
    for _ in 0..100 {
        let mut flows = all(&mut random);
        let mut tables = Tables::new(2, 5, Limits::default());
        flows.iter().for_each(|flow| tables.change(Change::Add(flow.clone()), 0).unwrap());
        for step in 0..100 {
            if step % 20 == 19 {
                let Flow { table, priority, wanted, .. } = flows.swap_remove(below(&mut random, flows.len()));
                let change = Change::Delete { table: Some(table), priority, wanted, strict: true };
                tables.change(change, 0).unwrap();
            }
            let frame = if step % 2 == 0 { frames::frame(&mut random) } else { labelled::frame(&mut random) };
            let (mut key, _) = flow::extract(&frame, frame.len(), 2);
            key.set(Field::InPortOxm, 1 + u128::from(random.next() % 4));
            key.set(Field::Reg0, u128::from(random.next() % 4));
            let table = (random.next() % 6) as u8;
            let wanted = searched(&flows, table, &key);
            let shown = || format!("table {table}, {frame:02x?}\n{flows:#?}");
            let entry = tables.lookup(table, &key);
            assert_eq!(entry.as_ref().map(|entry| &entry.flow), wanted, "{}", shown());
            cases += 1;
            found += usize::from(wanted.is_some());
            with_labels += usize::from(wanted.is_some_and(|flow| flow.wanted.to_string().contains("mpls")));
        }
    }
    let counts = format!("{found} found of {cases}, {with_labels} by labels");
    println!("{counts}");
    assert!(found > 4000 && with_labels > 1000, "{counts}");
}
