//! Driver half against device half: any interleaving, any features, any queue size; nothing is lost,
//! duplicated, or reordered against the rules.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;
use virtqueue::mock::{Arena, DATA};
use virtqueue::{Burst, Piece, Position, Request, RingFeatures, RingLayout, Used};

fn any_features() -> impl Strategy<Value = RingFeatures> {
    any::<(bool, bool, bool, bool, bool)>().prop_map(|(packed, event_idx, indirect, in_order, platform)| {
        RingFeatures {
            event_idx,
            indirect,
            in_order,
            order_platform: platform,
            ..RingFeatures::plain(if packed { RingLayout::Packed } else { RingLayout::Split })
        }
    })
}

fn any_queue() -> impl Strategy<Value = (RingFeatures, u32)> {
    any_features().prop_flat_map(|features| {
        let size = match features.layout {
            RingLayout::Split => prop_oneof![4 => (0u32..6).prop_map(|n| 1 << n), 1 => Just(256)].boxed(),
            RingLayout::Packed => prop_oneof![4 => 1u32..40, 1 => Just(256)].boxed(),
        };
        (Just(features), size)
    })
}

#[derive(Clone, Debug)]
enum Step {
    /// Add requests: readable and writable pieces of each.
    Add(Vec<(usize, usize)>),
    /// The device takes up to so many, each burst of its own.
    Take(usize),
    /// The device puts back the tail of its latest burst.
    PutBack(usize),
    /// The device completes part of a burst; chooses burst, and by how much to fall short of full.
    Complete(usize, usize, u32),
    /// The driver reclaims up to so many.
    Reclaim(usize),
    /// Both sides save and restore where they can: the device half is replaced by a successor.
    Handover,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec((0usize..4, 0usize..4), 1..8).prop_map(Step::Add),
        4 => (1usize..40).prop_map(Step::Take),
        1 => (0usize..4).prop_map(Step::PutBack),
        4 => (any::<usize>(), 1usize..40, prop_oneof![Just(0u32), 1u32..50]).prop_map(|(b, n, s)| Step::Complete(b, n, s)),
        4 => (1usize..40).prop_map(Step::Reclaim),
        1 => Just(Step::Handover),
    ]
}

/// What the device must find and the driver must get back, by cookie.
struct Expected {
    readable: Vec<u8>,
    writable: u32,
}

fn run(features: RingFeatures, size: u32, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let arena = Arena::new(features, size, 1 << 16);
    let mut driver = arena.driver();
    let mut device = arena.device();
    let mut expected: HashMap<u32, Expected> = HashMap::new();
    let mut available: VecDeque<u32> = VecDeque::new();
    let mut bursts: Vec<(Burst, Vec<u32>)> = Vec::new();
    let mut completed: VecDeque<(u32, u32)> = VecDeque::new();
    let mut used: Vec<Used> = Vec::new();
    let mut cookie = 0u32;
    for step in steps {
        match step {
            Step::Add(shapes) => {
                for (readable, writable) in shapes {
                    // Each piece 10 bytes, at an offset that the cookie chooses; some lie across the two
                    // data regions.
                    let base = u64::from(cookie) * 16 % (arena.data_bytes() - 200);
                    let piece = |i: usize| Piece { address: DATA + base + 10 * i as u64, len: 10 };
                    let from: Vec<Piece> = (0..readable).map(piece).collect();
                    let into: Vec<Piece> = (readable..readable + writable).map(piece).collect();
                    let request = Request { readable: &from, writable: &into, cookie };
                    let before = driver.free_descriptors();
                    let added = driver.add_requests(&[request]);
                    let pieces = readable + writable;
                    if pieces == 0 || pieces > before.into() && (!features.indirect || before == 0) {
                        prop_assert_eq!(added, 0);
                    } else {
                        prop_assert_eq!(added, 1);
                    }
                    if added == 1 {
                        let bytes = arena.read_data(base, 10 * readable);
                        expected.insert(cookie, Expected { readable: bytes, writable: 10 * writable as u32 });
                        available.push_back(cookie);
                        cookie += 1;
                    }
                }
            }
            Step::Take(max) => {
                let mut burst = Burst::new(40);
                let taken = device.pop(&mut burst, max).unwrap();
                prop_assert_eq!(taken, max.min(available.len()));
                let mut cookies = Vec::new();
                for chain in burst.chains() {
                    let cookie = available.pop_front().unwrap();
                    let want = &expected[&cookie];
                    prop_assert_eq!(chain.writable_bytes(), want.writable);
                    let mut bytes = vec![0; 100];
                    let n = chain.read(0, &mut bytes);
                    prop_assert_eq!(&bytes[..n], &want.readable[..]);
                    cookies.push(cookie);
                }
                if taken > 0 {
                    bursts.push((burst, cookies));
                }
            }
            Step::PutBack(keep) => {
                if let Some((burst, cookies)) = bursts.last_mut()
                    && burst.open() == burst.len()
                {
                    let latest = cookies.last().unwrap() + 1 == *available.front().unwrap_or(&cookie);
                    let back = device.rewind(burst, keep);
                    prop_assert_eq!(back, if latest { cookies.len().saturating_sub(keep) } else { 0 });
                    if back == 0 {
                        continue;
                    }
                    for cookie in cookies.drain(keep.min(cookies.len())..).rev() {
                        available.push_front(cookie);
                    }
                    if cookies.is_empty() {
                        bursts.pop();
                    }
                }
            }
            Step::Complete(which, count, short) => {
                if bursts.is_empty() {
                    continue;
                }
                // In order: the oldest burst from its front. Otherwise any burst, from its back.
                let which = if features.in_order { 0 } else { which % bursts.len() };
                let (burst, cookies) = &mut bursts[which];
                let open: Vec<usize> = (0..burst.len()).filter(|&i| !burst.chain(i).is_done()).collect();
                let count = count.min(open.len());
                let range = if features.in_order {
                    open[0]..open[0] + count
                } else {
                    let end = open[open.len() - 1] + 1;
                    end - count..end
                };
                for i in range.clone() {
                    let written = burst.chain(i).writable_bytes().saturating_sub(short * (i as u32 % 2));
                    burst.set_written(i, written);
                    completed.push_back((cookies[i], written));
                }
                device.add_used(burst, range);
                if burst.open() == 0 {
                    bursts.remove(which);
                }
            }
            Step::Reclaim(max) => {
                used.clear();
                let n = driver.reclaim(&mut used, max).unwrap();
                // One entry of an in-order batch can bring more than was asked for.
                prop_assert!(n >= max.min(completed.len()) && n <= completed.len());
                for Used { cookie, written } in used.drain(..) {
                    prop_assert_eq!(completed.pop_front(), Some((cookie, written)));
                    expected.remove(&cookie);
                }
            }
            Step::Handover => {
                if bursts.is_empty() {
                    let position = device.position();
                    let wire = position.to_vring_base();
                    prop_assert_eq!(Position::from_vring_base(features.layout, wire), position);
                    let mut config = arena.config.clone();
                    config.position = position;
                    device = config.activate_device(&arena.space, Default::default()).unwrap();
                }
            }
        }
    }
    // Whatever is still under way ends, too.
    for (mut burst, cookies) in bursts {
        for (i, &cookie) in cookies.iter().enumerate() {
            if !burst.chain(i).is_done() {
                completed.push_back((cookie, 0));
                burst.set_written(i, 0);
            }
        }
        device.add_used_all(&mut burst);
        prop_assert_eq!(burst.open(), 0);
    }
    used.clear();
    driver.reclaim(&mut used, usize::MAX).unwrap();
    let got: Vec<(u32, u32)> = used.iter().map(|used| (used.cookie, used.written)).collect();
    prop_assert_eq!(got, Vec::from(completed));
    let mut left = driver.reset();
    left.sort_unstable();
    prop_assert_eq!(left, Vec::from(available), "what the device never took comes back on reset");
    prop_assert_eq!(driver.free_descriptors(), size as u16);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 20000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_duplicated_or_reordered(
        (features, size) in any_queue(),
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        run(features, size, steps)?;
    }
}
