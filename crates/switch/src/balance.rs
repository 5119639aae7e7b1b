//! Load that is moved between the ports of a bond (ovs-vswitchd.conf.db(5), `bond-rebalance-interval`).
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pipeline::{BOND_BUCKETS, BondLoad, Buckets};

use crate::PortId;

/// The least difference in bytes between two ports for which a bucket is moved, as in Open vSwitch.
const LEAST_BYTES: u64 = 100_000;
/// The least difference as a part of the smaller load, as in Open vSwitch: a 32nd.
const LEAST_PART: u64 = 32;
/// A bucket is moved if that makes the difference smaller by at least a tenth.
const GAIN: u64 = 10;

/// The load of a bond's buckets, and the buckets that were moved.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    counted: Arc<BondLoad>,
    /// Bytes by bucket: those of the last interval, half of those before it, and so on.
    load: Box<[u64; BOND_BUCKETS]>,
    moved: BTreeMap<u8, PortId>,
    /// The second in which the load was last looked at.
    looked: Option<u32>,
}

impl Default for Balance {
    fn default() -> Self {
        let load = Box::new([0; BOND_BUCKETS]);
        Balance { counted: Arc::default(), load, moved: BTreeMap::new(), looked: None }
    }
}

impl Balance {
    /// The buckets of these ports; `None` if there is no port.
    pub fn buckets(&self, ports: &[PortId]) -> Option<Buckets> {
        Buckets::new(ports, &self.moved, Arc::clone(&self.counted))
    }

    /// Forgets buckets that were moved to other ports than these.
    pub fn keep(&mut self, ports: &[PortId]) {
        self.moved.retain(|_, port| ports.contains(port));
    }

    /// The buckets of a port that have a load, with their bytes.
    pub fn of_port(&self, port: PortId, buckets: &Buckets) -> BTreeMap<u8, u64> {
        let all = (0..=u8::MAX).zip(buckets.ports()).zip(self.load.iter());
        all.filter(|((_, own), load)| **own == port && **load > 0)
            .map(|((bucket, _), load)| (bucket, *load))
            .collect()
    }

    /// Looks at the load once in an interval, and moves buckets between these ports. Returns whether any was moved.
    pub fn look(&mut self, second: u32, interval: Duration, ports: &[PortId]) -> bool {
        let looked = *self.looked.get_or_insert(second);
        if Duration::from_secs(second.wrapping_sub(looked).into()) < interval {
            return false;
        }
        self.looked = Some(second);
        let counted = self.counted.take();
        for (load, counted) in self.load.iter_mut().zip(counted) {
            *load = *load / 2 + counted;
        }
        let Some(buckets) = self.buckets(ports) else { return false };
        let moves = moves(&self.load, *buckets.ports(), ports.to_vec());
        let any = !moves.is_empty();
        self.moved.extend(moves);
        any
    }
}

/// The buckets to move, each with its new port. Each move goes from the port with the most load to the port with the
/// least.
fn moves(
    load: &[u64; BOND_BUCKETS],
    mut of: [PortId; BOND_BUCKETS],
    mut ports: Vec<PortId>,
) -> BTreeMap<u8, PortId> {
    let mut moves = BTreeMap::new();
    // Each move makes a difference smaller, so this ends; a switch does not wait for the last of them.
    for _ in 0..BOND_BUCKETS {
        let sum = |port: &PortId| -> u64 {
            of.iter().zip(load).filter(|(own, _)| *own == port).map(|(_, load)| *load).sum()
        };
        let most = ports.iter().copied().max_by_key(sum);
        let least = ports.iter().copied().min_by_key(sum);
        let (Some(most), Some(least)) = (most, least) else { break };
        let (least_bytes, difference) = (sum(&least), sum(&most) - sum(&least));
        if difference < LEAST_BYTES || difference < least_bytes / LEAST_PART {
            break;
        }
        let gains = difference / GAIN / 2..=difference - difference / GAIN / 2;
        let own = (0..=u8::MAX).zip(&of).zip(load).filter(|((_, own), _)| **own == most);
        let loads = own.map(|((bucket, _), load)| (bucket, *load)).filter(|(_, load)| gains.contains(load));
        let best = loads.min_by_key(|(_, load)| difference.abs_diff(2 * load));
        match best {
            Some((bucket, _)) => {
                of[usize::from(bucket)] = least;
                moves.insert(bucket, least);
            }
            // No bucket of this port makes the difference smaller by enough, so the port stays as it is.
            None => ports.retain(|port| *port != most),
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PortId = PortId(1);
    const B: PortId = PortId(2);
    const C: PortId = PortId(3);

    fn load(of: &[(u8, u64)]) -> [u64; BOND_BUCKETS] {
        let mut load = [0; BOND_BUCKETS];
        of.iter().for_each(|(bucket, bytes)| load[usize::from(*bucket)] = *bytes);
        load
    }

    fn of(load: &[u64; BOND_BUCKETS], ports: &[PortId]) -> Vec<(u8, PortId)> {
        moves(load, [A; BOND_BUCKETS], ports.to_vec()).into_iter().collect()
    }

    #[test]
    fn a_load_is_shared_evenly() {
        let four = load(&[(0, 400_000), (1, 300_000), (2, 200_000), (3, 100_000)]);
        let moved = of(&four, &[A, B]);
        let sum: u64 = moved.iter().map(|(bucket, _)| four[usize::from(*bucket)]).sum();
        assert!(moved.iter().all(|(_, port)| *port == B) && sum == 500_000, "{moved:?}");
        assert_eq!(of(&load(&[(0, 300_000), (1, 300_000), (2, 300_000)]), &[A, B, C]).len(), 2);
    }

    #[test]
    fn what_cannot_be_better_stays() {
        // One bucket carries all: after a move, another port would carry all.
        assert!(of(&load(&[(0, 1 << 40)]), &[A, B]).is_empty());
        // The load is small, and so is the difference.
        assert!(of(&load(&[(0, 40_000), (1, 40_000)]), &[A, B]).is_empty());
        let mut ports = [A; BOND_BUCKETS];
        ports[1] = B;
        assert_eq!(moves(&load(&[(0, 10_300_000), (1, 10_000_000)]), ports, vec![A, B]).len(), 0);
        assert_eq!(moves(&load(&[(0, 1 << 40)]), ports, Vec::new()).len(), 0);
        // The port with the one large bucket does not prevent that the other buckets are shared.
        ports[0] = C;
        ports[1] = A;
        let loads = load(&[(0, 1 << 40), (1, 300_000), (2, 300_000)]);
        assert_eq!(moves(&loads, ports, vec![A, B, C]).len(), 1);
    }

    #[test]
    fn a_look_comes_once_in_an_interval_and_old_load_fades() {
        let (mut balance, interval) = (Balance::default(), Duration::from_secs(10));
        balance.load[7] = 800;
        assert!(!balance.look(5, interval, &[A, B]) && !balance.look(14, interval, &[A, B]));
        assert_eq!(balance.load[7], 800);
        assert!(!balance.look(15, interval, &[A, B]));
        assert_eq!(balance.load[7], 400);
        let buckets = balance.buckets(&[A]).unwrap();
        assert_eq!(balance.of_port(A, &buckets), [(7, 400)].into());
        assert!(balance.of_port(B, &buckets).is_empty());
        balance.moved = [(7, A), (8, B)].into();
        balance.keep(&[B]);
        assert_eq!(balance.moved, [(8, B)].into());
    }
}
