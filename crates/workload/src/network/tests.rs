use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::*;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn flow(class: Class, sender: Side) -> Flow {
    Flow {
        class,
        sender,
        message_bytes: 390,
        connections: 1,
        per_second: None,
        duration: Duration::from_millis(100),
        verify: true,
    }
}

fn both(flow: &Flow) -> (NearOutcome, Counts) {
    let far = FarEnd::open(flow, LOOPBACK).unwrap();
    let near = near_end::run(flow, SocketAddr::new(LOOPBACK, far.port())).unwrap();
    (near, far.close().unwrap())
}

#[test]
fn what_was_sent_was_received_or_lost() {
    for class in Class::ALL {
        for sender in [Side::Near, Side::Far] {
            for connections in [1, 20] {
                let flow = Flow { connections, ..flow(class, sender) };
                let (near, far) = both(&flow);
                let (sent, received) = match flow.sending() {
                    Side::Near => (&near.counts, &far),
                    Side::Far => (&far, &near.counts),
                };
                let what = format!("{class:?} from {sender:?} over {connections}: {near:?}, {far:?}");
                assert!(sent.sent > 0 && received.received > 0, "{what}");
                assert_eq!((near.counts.corrupt, far.corrupt), (0, 0), "{what}");
                assert_eq!(sent.sent_bytes, sent.sent * 390, "{what}");
                // Of an unpaced stream of datagrams some may be lost; nothing is ever received that was not sent.
                match class {
                    Class::UdpStream => assert!(received.received <= sent.sent, "{what}"),
                    _ => assert_eq!(received.received, sent.sent, "{what}"),
                }
                assert!(near.counts.calls > 0 && far.calls > 0, "{what}");
                assert!(near.counts.took.cpu_ns > 0 && far.took.cpu_ns > 0, "{what}");
                assert_eq!(near.latency.is_some(), !class.is_stream(), "{what}");
                if let Some(latency) = &near.latency {
                    assert_eq!(latency.count(), near.counts.received, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_paced_stream_keeps_its_rate_and_loses_nothing() {
    for class in [Class::UdpStream, Class::TcpStream, Class::UdpRr, Class::TcpRr] {
        let flow = Flow {
            per_second: Some(1000.0),
            duration: Duration::from_millis(200),
            ..flow(class, Side::Near)
        };
        let (near, far) = both(&flow);
        assert_eq!(near.counts.sent, 200, "{class:?}");
        assert_eq!(far.received, 200, "{class:?}");
    }
}

#[test]
fn a_thousand_connections() {
    let flow = Flow { connections: 1000, ..flow(Class::UdpStream, Side::Near) };
    let (near, far) = both(&flow);
    assert!(near.counts.sent > 1000 && far.received > 1000, "{near:?} {far:?}");
}

#[test]
fn strangers_are_not_counted() {
    let flow = flow(Class::UdpStream, Side::Near);
    let far = FarEnd::open(&flow, LOOPBACK).unwrap();
    let stranger = std::net::UdpSocket::bind((LOOPBACK, 0)).unwrap();
    stranger.send_to(&[7; 390], (LOOPBACK, far.port())).unwrap();
    stranger.send_to(&[7; 20], (LOOPBACK, far.port())).unwrap();
    let counts = far.close().unwrap();
    assert_eq!((counts.received, counts.corrupt), (0, 2));
}

#[test]
fn flows_that_cannot_be_are_refused_by_both_ends() {
    let good = flow(Class::UdpRr, Side::Near);
    for bad in [
        Flow { message_bytes: 15, ..good.clone() },
        Flow { message_bytes: 65_508, ..good.clone() },
        Flow { connections: 0, ..good.clone() },
        Flow { connections: 20_001, ..good.clone() },
        Flow { per_second: Some(0.0), ..good.clone() },
        Flow { per_second: Some(f64::NAN), ..good.clone() },
        Flow { duration: Duration::ZERO, ..good.clone() },
    ] {
        assert!(FarEnd::open(&bad, LOOPBACK).is_err(), "{bad:?}");
        assert!(near_end::run(&bad, SocketAddr::new(LOOPBACK, 9)).is_err(), "{bad:?}");
    }
    let nobody = near_end::run(&flow(Class::TcpRr, Side::Near), SocketAddr::new(LOOPBACK, 1)).unwrap_err();
    assert!(nobody.to_string().contains("127.0.0.1:1"), "{nobody}");
}

#[test]
fn a_far_end_that_nobody_asks_can_be_closed() {
    for class in Class::ALL {
        for sender in [Side::Near, Side::Far] {
            let far = FarEnd::open(&flow(class, sender), LOOPBACK).unwrap();
            let counts = far.close().unwrap();
            assert_eq!(Counts { calls: 0, took: Took::default(), ..counts }, Counts::default(), "{class:?}");
        }
    }
}
