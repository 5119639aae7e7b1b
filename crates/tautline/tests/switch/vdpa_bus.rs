//! A guest whose kernel has a vDPA bus, for the tests of `tautline vdpa`.

use std::time::Duration;

use peers::Guest;
use peers::guest::{LIMIT, Settings};

use crate::common::tautline;

/// What the tests use in the guest's shell, besides `failed` and functions of their own.
const FUNCTIONS: &str = r#"
    until_true() { # until_true COMMAND…: within 20 s
        n=0; until "$@" >/dev/null 2>&1; do n=$((n + 1)); [ $n -lt 200 ] || return 1; sleep 0.1; done
    }
    interface() { ls /sys/bus/vdpa/devices/$1/virtio*/net; }
    is_process() { grep -q '^State:.[^Z]' /proc/$1/status 2>/dev/null; }
    refused() { # refused WORDS COMMAND…: the command fails and says the words
        words=$1; shift
        ! timeout 20 "$@" >/run/refused 2>&1 </dev/null || failed "$* runs"
        grep -q "$words" /run/refused || failed "$*: $(cat /run/refused)"
    }
    there() { ip netns exec there "$@"; }
"#;

/// The guest, and the shell functions of a kind of test.
pub struct Machine {
    guest: Guest,
    functions: &'static str,
}

impl Machine {
    pub fn boot(settings: Settings, functions: &'static str) -> Self {
        let guest = settings.program(&tautline()).start();
        Machine { guest: guest.unwrap_or_else(|error| panic!("{error}")), functions }
    }

    pub fn must(&self, line: &str) -> String {
        self.must_within(line, LIMIT)
    }

    pub fn must_within(&self, line: &str, limit: Duration) -> String {
        let output = self.guest.run_within(&format!("{FUNCTIONS}{}\n{line}", self.functions), limit);
        output.unwrap_or_else(|error| panic!("{error}")).expect_success()
    }
}
