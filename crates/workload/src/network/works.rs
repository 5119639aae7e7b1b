//! The flows that are measured over every path.

use std::time::Duration;

use super::{Class, Flow, Side};
use crate::Profile;

/// A flow with its name, which is the same for all paths.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedWork {
    /// `udp_stream.64`, `udp_stream.1472.rx`, `udp_stream.390.c1000`.
    pub name: String,
    /// `UDP stream, 64 bytes`.
    pub title: String,
    /// The flow; the run sets its duration.
    pub flow: Flow,
    /// A flow that runs at the same time over the same path.
    pub beside: Option<Flow>,
}

/// The payloads of the published series, in bytes.
pub const MESSAGE_BYTES: [usize; 4] = [64, 390, 1024, 1472];
/// The number of connections in the case with many connections.
pub const MANY_CONNECTIONS: usize = 1000;
/// Of the case with a paced sender, messages a second: below what any path here takes.
const PACED_PER_SECOND: f64 = 5_000.0;

/// The works of a profile, in the order in which they are shown.
pub fn works(profile: Profile) -> Vec<NamedWork> {
    let mut works = Vec::new();
    let stream = |class, bytes| Flow {
        class,
        sender: Side::Near,
        message_bytes: bytes,
        connections: 1,
        per_second: None,
        duration: Duration::from_millis(100),
        verify: false,
    };
    let full = profile == Profile::Full;
    let from_far = |flow: Flow| Flow { sender: Side::Far, ..flow };
    let many = |flow: Flow| Flow { connections: MANY_CONNECTIONS, ..flow };
    for bytes in MESSAGE_BYTES {
        let flow = stream(Class::UdpStream, bytes);
        let smallest_or_largest = bytes == 64 || bytes == 1472;
        if full || smallest_or_largest {
            works.push(named(flow.clone()));
        }
        if full && smallest_or_largest || bytes == 1472 {
            works.push(named(from_far(flow.clone())));
        }
        if bytes == 390 {
            works.push(named(many(flow.clone())));
            if full {
                works.push(named(Flow { per_second: Some(PACED_PER_SECOND), ..flow }));
            }
        }
    }
    for bytes in MESSAGE_BYTES {
        let flow = stream(Class::TcpStream, bytes);
        if full || bytes == 1472 {
            works.push(named(flow.clone()));
        }
        if full && bytes == 1472 {
            works.push(named(from_far(flow)));
        }
    }
    works.push(named(stream(Class::UdpRr, 64)));
    if full {
        works.push(named(stream(Class::UdpRr, 1024)));
        works.push(named(stream(Class::TcpRr, 64)));
        works.push(beside_a_stream(named(stream(Class::TcpRr, 64)), stream(Class::TcpStream, 1472)));
        works.push(named(stream(Class::TcpCrr, 64)));
    }
    works
}

fn named(flow: Flow) -> NamedWork {
    let (id, words) = flow.class.names();
    let bytes = flow.message_bytes;
    let (mut name, mut title) = (format!("{id}.{bytes}"), format!("{words}, {bytes} bytes"));
    if flow.class.is_stream() && flow.sender == Side::Far {
        name += ".rx";
        title += ", towards the near end";
    }
    if flow.connections > 1 {
        name += &format!(".c{}", flow.connections);
        title += &format!(", {} connections", flow.connections);
    }
    if let Some(rate) = flow.per_second {
        name += ".paced";
        title += &format!(", {rate} a second");
    }
    NamedWork { name, title, flow, beside: None }
}

fn beside_a_stream(work: NamedWork, load: Flow) -> NamedWork {
    let NamedWork { name, title, .. } = &work;
    let (name, title) = (format!("{name}.loaded"), format!("{title}, beside a TCP stream"));
    NamedWork { name, title, beside: Some(load), ..work }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_the_sizes_both_directions_and_many_connections_are_among_them() {
        let full = works(Profile::Full);
        let names: HashSet<&str> = full.iter().map(|work| work.name.as_str()).collect();
        assert_eq!(names.len(), full.len());
        for name in
            ["udp_stream.64", "udp_stream.64.rx", "udp_stream.390", "udp_stream.1024", "udp_stream.1472"]
                .into_iter()
                .chain([
                    "udp_stream.390.c1000",
                    "udp_stream.390.paced",
                    "tcp_stream.1472.rx",
                    "tcp_crr.64",
                    "tcp_rr.64.loaded",
                ])
        {
            assert!(names.contains(name), "{name} is not in {names:?}");
        }
        for work in works(Profile::Quick) {
            assert!(full.contains(&work), "{work:?}");
        }
        for work in full {
            work.flow.check().unwrap();
        }
    }
}
