//! The end that connects.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use measure::Failure;

use super::count::{NearOutcome, Took};
use super::flow::{Class, Flow, Side};
use super::message;
use super::tcp::{self, Then};
use super::udp;

/// A stream towards this end is over when nothing came for so long after its time.
const QUIET: Duration = Duration::from_millis(100);
/// Nor does it last longer than its time and this.
const OVERTIME: Duration = Duration::from_secs(5);
/// A greeting may be lost as any datagram.
const HELLOS: usize = 3;
/// How long a load runs before the flow begins that it is beside.
const HEAD_START: Duration = Duration::from_millis(20);

/// Runs the flow with the far end at `peer`, and returns the counts of this end.
///
/// # Errors
/// The flow is invalid ([`Flow::check`]), the far end cannot be reached, or the path between the ends failed.
pub fn run(flow: &Flow, peer: SocketAddr) -> Result<NearOutcome, Failure> {
    let interrupts = || linux::cpu_time::interrupts().0;
    let (interrupts_before, before) = (interrupts(), Took::until_now());
    let mut outcome = do_flow(flow, peer)?;
    outcome.counts.took = Took::since(before);
    outcome.counts.interrupts = interrupts().saturating_sub(interrupts_before);
    Ok(outcome)
}

/// Runs the flow as [`run`] does, while another flow, the load, runs over the same path. The load lasts until both
/// flows have ended. The CPU time of the load's threads is not in the outcome.
///
/// # Errors
/// The causes of [`run`], for each of the two flows. Or the load sent no message.
pub fn run_beside(
    flow: &Flow,
    peer: SocketAddr,
    load: &Flow,
    load_peer: SocketAddr,
) -> Result<NearOutcome, Failure> {
    let load = Flow { duration: flow.duration + 2 * HEAD_START, ..load.clone() };
    thread::scope(|scope| {
        let beside = scope.spawn(|| do_flow(&load, load_peer));
        thread::sleep(HEAD_START);
        let outcome = run(flow, peer);
        let doing = "running the stream beside a flow";
        let loaded = beside.join().unwrap_or_else(|_| Err(Failure::panicked(doing)))?;
        if loaded.counts.sent == 0 {
            return Err(Failure::new(doing, "it sent nothing", "give a longer trial: the path may be slow"));
        }
        outcome
    })
}

fn do_flow(flow: &Flow, peer: SocketAddr) -> Result<NearOutcome, Failure> {
    flow.check().map_err(|error| Failure::new("opening the near end of a flow", error, "see above"))?;
    let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let any: SocketAddr = any.parse().expect("an address");
    let start = Instant::now();
    let of_counts = |counts| NearOutcome { counts, ..NearOutcome::default() };
    match (flow.class, flow.sending()) {
        (Class::UdpRr, _) => udp::ask(&udp::connected(any, peer, flow.connections)?, flow),
        (Class::UdpStream, Side::Near) => {
            udp::send(&udp::connected(any, peer, flow.connections)?, flow).map(of_counts)
        }
        (Class::UdpStream, Side::Far) => {
            // The far end answers from ports of its own: this socket is not connected to one.
            let socket = std::net::UdpSocket::bind(any).map_err(|error| {
                Failure::new("opening a UDP socket", error, "see the limit of open files")
            })?;
            let mut hello = vec![0; flow.message_bytes];
            message::write(&mut hello, 0);
            for _ in 0..HELLOS {
                socket.send_to(&hello, peer).map_err(|error| {
                    let remedy = "see that the path between both ends is up";
                    Failure::new(format!("sending a datagram to {peer}"), error, remedy)
                })?;
            }
            let received = udp::receive(&socket, flow, |last_ns| {
                let quiet =
                    last_ns.is_none_or(|last| crate::clock::now_ns() - last > QUIET.as_nanos() as u64);
                start.elapsed() > flow.duration && quiet || start.elapsed() > flow.duration + OVERTIME
            });
            received.map(of_counts)
        }
        (Class::TcpStream, Side::Near) => {
            tcp::send(&mut tcp::connect(peer, flow.connections)?, flow).map(of_counts)
        }
        (Class::TcpStream, Side::Far) => {
            let streams = tcp::connect(peer, flow.connections)?;
            let over = || start.elapsed() > flow.duration + OVERTIME;
            tcp::receive(streams, None, flow, Then::Count, over).map(of_counts)
        }
        (Class::TcpRr, _) => tcp::ask(&mut tcp::connect(peer, flow.connections)?, peer, flow),
        (Class::TcpCrr, _) => tcp::ask(&mut [], peer, flow),
    }
}
