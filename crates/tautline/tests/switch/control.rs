//! The switch in operation: looked at, changed, configured and confined, while two neighbours lose not one frame.
mod configuration;
mod events;
mod eyes;
mod folders;
mod hostile;
mod metrics;
mod recordings;
mod soak;
mod walls;

use std::path::Path;

use crate::common::{Ended, Run};
use crate::switch_process::bystanders::Bystanders;
use crate::switch_process::{Sockets, SwitchProcess, connect, wait_for};
use serde_json::Value;

/// A switch with a control socket, neighbours at a wire, and ports `one` and `two`.
struct Scene {
    sockets: Sockets,
    switch: SwitchProcess,
    bystanders: Bystanders,
}

impl Scene {
    fn new() -> Self {
        Self::with(&[])
    }

    /// With further options.
    fn with(options: &[String]) -> Self {
        let sockets = Sockets::new();
        let mut arguments: Vec<String> =
            ["a", "b", "one", "two"].iter().flat_map(|name| sockets.port(name, "vhost-user", "")).collect();
        arguments.extend(connect("a", "b"));
        arguments.extend(["--control".to_owned(), sockets.path("control").display().to_string()]);
        arguments.extend_from_slice(options);
        let switch = SwitchProcess::start(&arguments);
        let bystanders = Bystanders::start([sockets.path("a"), sockets.path("b")]);
        Scene { sockets, switch, bystanders }
    }

    fn ctl(&self, arguments: &[&str]) -> Ended {
        ctl(&self.sockets.path("control"), arguments)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let run = self.ctl(&[arguments, &["--format", "json"]].concat());
        assert_eq!(run.code, Some(0), "{run}");
        let value: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
        assert_eq!(value["schema"], "tautline-ctl/1", "{value}");
        peers::schema::fits(&value);
        value
    }

    /// The neighbours lost nothing, and the switch ends in order.
    fn end(self) -> Vec<String> {
        self.bystanders.go_on();
        self.bystanders.all_is_well();
        let (counters, logged) = self.switch.end();
        let of_wire = ["a", "b"].map(|name| crate::switch_process::drops(&counters, name, "receiver full"));
        assert_eq!(of_wire, [0, 0], "{counters:#}");
        logged
    }
}

fn ctl(socket: &Path, arguments: &[&str]) -> Ended {
    Run::new(&["ctl"]).arg(socket).args(arguments).finish()
}
