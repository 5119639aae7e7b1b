"""FD.io's MLRsearch against simulated devices: searches as JSON on stdin, what it found as JSON on stdout.

The devices are those of simulated.rs, frame by frame: the test runs every trial of this side through its own.
"""

import json
import sys

from MLRsearch import (
    AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal,
)

SECOND_NS = 1_000_000_000
MASK = (1 << 64) - 1


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        word = self.state
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
        return word ^ (word >> 31)

    def one_in(self, count):
        return self.next() % count == 0


def frames(rate, duration_ns):
    return rate * duration_ns // SECOND_NS


class Device(AbstractMeasurer):
    """A device of known behaviour, and every trial that was run on it."""

    def __init__(self, behaviour, seed):
        self.behaviour = dict(behaviour)
        self.forward = getattr(self, self.behaviour.pop("kind"))
        self.random = Random(seed)
        self.trials = []
        self.traffic_ns = 0

    def measure(self, intended_duration, intended_load):
        rate, duration_ns = int(intended_load), round(intended_duration * SECOND_NS)
        offered = max(frames(rate, duration_ns), 1)
        self.rate, self.duration_ns, self.offered = rate, duration_ns, offered
        received = max(self.forward(**self.behaviour), 0)
        self.traffic_ns += duration_ns
        self.trials.append((rate, duration_ns, received))
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=offered,
            forwarding_count=received,
        )

    def sharp(self, limit):
        return min(frames(limit, self.duration_ns), self.offered)

    def lossy(self, limit, steepness):
        excess = max(self.rate - limit, 0)
        return self.offered + (-self.offered * excess * steepness) // (limit * 100)

    def occasional(self, limit, one_in):
        lost = 1 + self.random.next() % 9 if self.random.one_in(one_in) else 0
        return self.sharp(limit) - lost

    def drifting(self, limit, per_second):
        fallen = per_second * (self.traffic_ns // SECOND_NS)
        return self.sharp(max(limit - fallen, limit // 10))

    def noisy(self, limit, ppm):
        around = limit * ppm // 1_000_000
        more = 2 * around * (self.random.next() >> 32) >> 32
        return self.sharp(limit - around + more)

    def two_modes(self, limit, slower, one_in):
        return self.sharp(slower if self.random.one_in(one_in) else limit)

    def pausing(self, limit, one_in, **where):
        seconds = -(-self.duration_ns // SECOND_NS)
        pauses = sum(self.random.one_in(one_in) for _ in range(seconds))
        return self.sharp(limit) - (100 * pauses if self.rate > where["from"] else 0)

    def no_loss(self):
        return self.offered

    def total_loss(self):
        return 0


def searched(job):
    device = Device(job["device"], job["seed"])
    goals = [SearchGoal(**goal, fail_fast=False) for goal in job["goals"]]
    config = Config(
        goals=goals,
        min_load=job["min_load"],
        max_load=job["max_load"],
        search_duration_max=3600.0,  # of the computer's time, not of the traffic's
        warmup_duration=0.0,
    )
    found = MultipleLossRatioSearch(config).search(device, debug=lambda text: None)
    bound = lambda load: None if load is None else float(load)
    results = [found[goal] for goal in goals]
    return {
        "bounds": [
            (bound(result.relevant_lower_bound), bound(result.relevant_upper_bound)) for result in results
        ],
        "trials": device.trials,
    }


json.dump([searched(job) for job in json.load(sys.stdin)], sys.stdout)
