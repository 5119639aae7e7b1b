//! The classifier finds the same flow as a search through all flows, and its cost is bounded by the flows.
use flow::{Action, Field, Flow, Key, Match};
use flow_tables::{COLLISIONS, Change, Cost, Limits, Tables};
use proptest::prelude::*;

/// The first of the highest priority that matches; conjunctions by their definition (ovs-fields(7)). Which of several
/// conjunctions of one priority counts is not defined: each of their flows may be found.
fn model<'a>(flows: &'a [Flow], key: &Key) -> Vec<Option<&'a Flow>> {
    let best = |key: &Key| {
        let plain = flows.iter().filter(|flow| parts(flow).is_empty() && flow.wanted.matches(key));
        plain.min_by_key(|flow| std::cmp::Reverse(flow.priority))
    };
    let plain = best(key);
    let mut priorities: Vec<_> = flows.iter().map(|flow| flow.priority).collect();
    priorities.sort_by_key(|priority| std::cmp::Reverse(*priority));
    priorities.dedup();
    for priority in
        priorities.into_iter().filter(|priority| plain.is_none_or(|plain| *priority > plain.priority))
    {
        let of = flows.iter().filter(|flow| flow.priority == priority && flow.wanted.matches(key));
        let met: Vec<_> = of.flat_map(parts).collect();
        let complete = (0..4).filter(|id| (0..2).all(|clause| met.contains(&(*id, clause))));
        let found = complete.filter_map(|id| {
            let mut key = *key;
            key.set(Field::ConjId, id.into());
            best(&key)
        });
        let found: Vec<_> = found.map(Some).collect();
        if !found.is_empty() {
            return found;
        }
    }
    vec![plain]
}

fn parts(flow: &Flow) -> Vec<(u32, u8)> {
    let parts = flow.actions.iter().filter_map(|action| match action {
        Action::Conjunction { id, clause, .. } => Some((*id, *clause)),
        _ => None,
    });
    parts.collect()
}

const FIELDS: [Field; 7] =
    [Field::Metadata, Field::Reg0, Field::EthType, Field::IpSrc, Field::IpDst, Field::TcpDst, Field::Ipv6Dst];

/// Values of few bits, so that flows meet, under masks of many forms.
fn wanted() -> impl Strategy<Value = Match> {
    let field = (0..FIELDS.len(), 0..4_u128, 0..6_u32, any::<u128>());
    prop::collection::vec(field, 0..4).prop_map(|fields| {
        let mut wanted = Match::ANY;
        for (at, value, form, random) in fields {
            let field = FIELDS[at];
            let spread = value | value << (field.bits() - 3);
            let mask = match form {
                0 | 1 => field.all_bits(),
                2 => field.all_bits() & !3,
                3 => field.all_bits() & !(field.all_bits() >> 2),
                4 => 1,
                _ => random & field.all_bits(),
            };
            wanted.set_masked(field, spread, mask);
        }
        wanted
    })
}

fn flow() -> impl Strategy<Value = Flow> {
    (wanted(), 0..4_u16, 0..8_u32, 0..4_u32, 0..2_u8).prop_map(|(mut wanted, priority, kind, id, clause)| {
        let actions = match kind {
            0 | 1 => vec![Action::Conjunction { id, clause, of: 2 }],
            _ => vec![Action::Output(kind as u16)],
        };
        if kind == 2 {
            wanted.set(Field::ConjId, id.into());
        }
        Flow { wanted, priority, actions, ..Flow::default() }
    })
}

fn key() -> impl Strategy<Value = Key> {
    prop::collection::vec((0..4_u128, any::<bool>()), FIELDS.len()).prop_map(|values| {
        let mut key = Key::ZERO;
        for (field, (value, spread)) in FIELDS.iter().zip(values) {
            key.set(*field, if spread { value | value << (field.bits() - 3) } else { value });
        }
        key
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Flows are added, changed and deleted; older clones keep what they had.
    #[test]
    fn the_flow_that_counts_is_that_of_a_search_through_all(
        changes in prop::collection::vec((flow(), 0..8_u8), 0..120), keys in prop::collection::vec(key(), 60)
    ) {
        let (mut tables, mut flows) = (Tables::new(1, 3, Limits::default()), Vec::<Flow>::new());
        let mut older = None;
        for (at, (flow, kind)) in changes.into_iter().enumerate() {
            let same = |other: &Flow| other.priority == flow.priority && other.wanted == flow.wanted;
            match kind {
                0 if !flows.is_empty() => {
                    let gone = flows.remove(at % flows.len());
                    let (priority, wanted) = (gone.priority, gone.wanted);
                    tables.change(Change::Delete { table: Some(0), priority, wanted, strict: true }, 0).unwrap();
                }
                1 => {
                    flows.retain(|other| !flow.wanted.covers(&other.wanted));
                    let change = Change::Delete { table: None, priority: 0, wanted: flow.wanted, strict: false };
                    tables.change(change, 0).unwrap();
                }
                // Which of several flows of one priority counts is not defined.
                _ if flows.iter().any(|other| {
                    other.priority == flow.priority && !same(other) && parts(other).is_empty() && parts(&flow).is_empty()
                        && other.wanted.overlaps(&flow.wanted)
                }) => {}
                _ => {
                    match flows.iter().position(same) {
                        Some(place) => flows[place] = flow.clone(),
                        None => flows.push(flow.clone()),
                    }
                    tables.change(Change::Add(flow), 0).unwrap();
                }
            }
            if at == 50 {
                older = Some((tables.clone(), flows.clone()));
            }
        }
        for (tables, flows) in std::iter::once((tables, flows)).chain(older) {
            prop_assert_eq!(tables.entries(0).len(), flows.len());
            for key in &keys {
                let mut cost = Cost::default();
                let found = tables.lookup_costing(0, key, &mut cost).map(|entry| entry.flow.clone());
                let may_be = model(&flows, key);
                prop_assert!(may_be.contains(&found.as_ref()), "{found:?} is none of {may_be:?}");
            }
        }
    }
}

/// Distinct masks of flows, and the cost of looking up anything.
#[test]
fn cost_is_bounded_by_flows_and_not_by_frames() {
    let text = include_str!("../../flow/tests/data/ovn-flows.txt").replace("/0x3f->ip_dscp", "->ip_dscp");
    let mut tables = Tables::new(1, 5, Limits::default());
    let mut masks = std::collections::BTreeSet::new();
    for line in text.lines() {
        let flow = Flow::parse(line).unwrap();
        masks.insert((flow.table, *flow.wanted.mask().words()));
        tables.change(Change::Add(flow), 0).unwrap();
    }
    let mut most = 0;
    for table in 0..=u8::MAX {
        let own = masks.iter().filter(|(number, _)| *number == table).count();
        assert!(
            tables.tuples(table) <= 2 * own,
            "table {table}: {} tuples, {own} masks",
            tables.tuples(table)
        );
        most = most.max(tables.tuples(table));
        for entry in tables.entries(table) {
            let mut cost = Cost::default();
            tables.lookup_costing(table, entry.flow.wanted.value(), &mut cost);
            assert!(
                cost.tuples <= 2 * tables.tuples(table) && cost.compared <= cost.tuples * COLLISIONS,
                "{cost:?}"
            );
        }
    }
    assert!(most <= 8, "{most}");
}

/// Prefixes of many lengths, as an attacker's or a tenant's rules may be: few tuples, and each rule is found.
#[test]
fn prefixes_of_all_lengths_share_tuples() {
    let mut tables = Tables::new(1, 5, Limits::default());
    for length in 0..=32_u32 {
        for host in 0..40_u32 {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            let mut wanted = Match::ANY;
            wanted.set(Field::EthType, 0x800);
            wanted.set_masked(Field::IpDst, host.wrapping_mul(0x9e37_79b9).into(), mask.into());
            let flow = Flow { wanted, priority: length as u16, ..Flow::default() };
            tables.change(Change::Add(flow), 0).unwrap();
        }
    }
    assert!(tables.tuples(0) <= 12, "{}", tables.tuples(0));
    let mut key = Key::ZERO;
    key.set(Field::EthType, 0x800);
    key.set(Field::IpDst, 7_u32.wrapping_mul(0x9e37_79b9).into());
    let mut cost = Cost::default();
    assert_eq!(tables.lookup_costing(0, &key, &mut cost).map(|entry| entry.flow.priority), Some(32));
    assert!(cost.compared <= cost.tuples * COLLISIONS, "{cost:?}");
}

/// Three rules, and 512 frames that differ from them in one bit of the address and in one of the port: they make 512 masks
/// in the cache of Open vSwitch (CVE-2019-25076), each of which a look-up may visit.
#[test]
fn frames_that_differ_from_flows_in_single_bits_make_no_look_up_longer() {
    let mut tables = Tables::new(1, 5, Limits::default());
    for text in [
        "priority=30,tcp,tp_dst=80 actions=output:2",
        "priority=20,tcp,nw_src=10.0.0.1 actions=output:2",
        "priority=1 actions=drop",
    ] {
        tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
    }
    let cost_of = |address: u32, port: u16| {
        let mut key = Key::ZERO;
        key.set(Field::EthType, 0x800);
        key.set(Field::NwProto, 6);
        key.set(Field::IpSrc, address.into());
        key.set(Field::TcpDst, port.into());
        let mut cost = Cost::default();
        let found = tables.lookup_costing(0, &key, &mut cost).unwrap();
        (found.flow.priority, cost)
    };
    let bits =
        (0..32).flat_map(|address| (0..16).map(move |port| (0x0a00_0001 ^ 1 << address, 80 ^ 1 << port)));
    let costs: Vec<_> = bits.map(|(address, port)| cost_of(address, port)).collect();
    assert_eq!(costs.len(), 512);
    assert!(
        costs.iter().all(|(priority, cost)| *priority == 1 && cost.tuples <= 3 && cost.compared <= 3),
        "{costs:?}"
    );
    // The best flow is found first, and nothing is looked at behind it.
    assert_eq!(cost_of(0x0a00_0001, 80), (30, Cost { tuples: 1, compared: 1 }));
}
