//! A pass of the scheduler, which decides how many bytes each user may send in this tick. It is proportionally fair:
//! the user whose channel is best in comparison with its average comes first (Kelly, 1997, as used since in LTE's
//! schedulers).

/// Bytes of one resource block at the best channel quality.
const BLOCK_BYTES: u32 = 64;
/// Channel quality indicators are 1 to 15 (3GPP TS 38.214 §5.2.2.1).
const BEST_QUALITY: u32 = 15;
/// Ticks over which the average goes.
const AVERAGE_TICKS: f32 = 100.0;

/// The scheduler's state of one user.
#[derive(Clone, Copy, Debug)]
struct User {
    quality: u32,
    average: f32,
}

/// The scheduler of one cell.
#[derive(Clone, Debug)]
pub struct Scheduler {
    users: Vec<User>,
    order: Vec<u32>,
    /// The bytes that the cell can send in a tick.
    capacity: u32,
    random: u32,
}

impl Scheduler {
    /// The scheduler of a cell that carries `capacity` bytes in each tick.
    pub fn new(users: usize, capacity: u32, seed: u32) -> Self {
        Scheduler {
            users: vec![User { quality: BEST_QUALITY, average: 1.0 }; users],
            order: (0..users as u32).collect(),
            capacity,
            random: seed | 1,
        }
    }

    /// One pass of the scheduler: writes into `grants` how many of its waiting bytes each user may send. Users with
    /// waiting bytes get blocks in the order of the metric until the cell's capacity is used up.
    pub fn pass(&mut self, waiting: &[u32], grants: &mut [u32]) {
        for user in &mut self.users {
            // Marsaglia's xorshift: the channel goes up or down one step, or stays.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 17;
            self.random ^= self.random << 5;
            let step = self.random % 3;
            user.quality = (user.quality + step).saturating_sub(1).clamp(1, BEST_QUALITY);
        }
        let users = &self.users;
        let metric = |&user: &u32| {
            let user = &users[user as usize];
            user.quality as f32 / user.average
        };
        self.order.sort_unstable_by(|one, other| metric(other).total_cmp(&metric(one)));
        let mut left = self.capacity;
        for &number in &self.order {
            let user = &mut self.users[number as usize];
            let block = (BLOCK_BYTES * user.quality / BEST_QUALITY).max(1);
            let wanted = waiting[number as usize].div_ceil(block) * block;
            let granted = wanted.min(left / block * block);
            left -= granted;
            grants[number as usize] = granted;
            user.average += (granted as f32 - user.average) / AVERAGE_TICKS;
            user.average = user.average.max(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_more_than_the_cell_has_nor_than_is_wanted(
            waiting in prop::collection::vec(0..5000u32, 1..50), capacity in 0..50_000u32, seed: u32,
        ) {
            let mut scheduler = Scheduler::new(waiting.len(), capacity, seed);
            let mut grants = vec![0; waiting.len()];
            for _ in 0..20 {
                scheduler.pass(&waiting, &mut grants);
                prop_assert!(grants.iter().sum::<u32>() <= capacity);
                for (grant, waiting) in grants.iter().zip(&waiting) {
                    prop_assert!(*grant < waiting + BLOCK_BYTES);
                }
            }
        }
    }

    #[test]
    fn in_the_long_run_all_get_the_same() {
        let mut scheduler = Scheduler::new(10, 1000, 42);
        let (mut grants, mut total) = ([0; 10], [0u64; 10]);
        for _ in 0..20_000 {
            scheduler.pass(&[1000; 10], &mut grants);
            total.iter_mut().zip(grants).for_each(|(total, grant)| *total += u64::from(grant));
        }
        let (least, most) = (total.iter().min().unwrap(), total.iter().max().unwrap());
        assert!(*most as f64 / (*least as f64) < 1.2, "{total:?}");
    }
}
