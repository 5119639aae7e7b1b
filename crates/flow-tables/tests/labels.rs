//! Labels of MPLS are put in front of frames and taken away, also by an outcome that a cache has kept.
mod ports;

use flow::{Field, Flow, Key};
use flow_tables::{Cache, Change, HeaderWindow, Limits, Outcome, Overrun, Tables};
use ports::Ports;

const FLOWS: [&str; 5] = [
    "ip actions=push_mpls:0x8847,set_mpls_label(7),output:1",
    "mpls,mpls_label=7 actions=pop_mpls:0x0800,resubmit(,1)",
    "mpls,mpls_label=8 actions=pop_mpls:0x0800,output:4",
    "table=1,ip,nw_dst=10.0.0.1 actions=dec_ttl,output:2",
    "table=1,ip,nw_dst=10.0.0.2 actions=output:3",
];

/// A datagram of UDP to this host of 10.0.0.0/24.
fn frame(host: u8) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 9, 10, 0, 0, host]);
    frame.extend([0, 7, 0, 9, 0, 26, 0, 0]);
    frame.resize(60, host);
    frame
}

fn tables() -> Tables {
    let mut tables = Tables::new(1, 1, Limits::default());
    for text in FLOWS {
        tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
    }
    tables
}

/// The port by which a frame leaves, and its bytes.
fn sent(cache: &mut Cache, tables: &Tables, frame: &[u8]) -> (u16, Vec<u8>) {
    let (mut window, mut outcome) = (HeaderWindow::new(frame, frame.len(), 1), Outcome::default());
    cache.execute(tables, &mut window, &mut Ports, &mut outcome);
    let [delivery] = &outcome.deliveries[..] else { panic!("{outcome:?}") };
    assert_eq!(delivery.header.frame_bytes, outcome.header(&delivery.header).len());
    (delivery.port, outcome.header(&delivery.header).to_vec())
}

#[test]
fn a_label_is_put_in_front_and_taken_away() {
    let (tables, mut metadata) = (tables(), Key::ZERO);
    metadata.set(Field::InPortOxm, 9);
    let mut cache = Cache::new(64, &metadata);
    for _ in 0..3 {
        // Frames with the same label: what is behind it tells them apart.
        for (host, port, ttl) in [(1, 2, 63), (2, 3, 64)] {
            let plain = frame(host);
            let (first, labelled) = sent(&mut cache, &tables, &plain);
            assert_eq!((first, &labelled[12..18]), (1, &[0x88, 0x47, 0, 0, 0x71, 64][..]));
            assert_eq!((&labelled[..12], &labelled[18..]), (&plain[..12], &plain[14..]));
            let (last, out) = sent(&mut cache, &tables, &labelled);
            assert_eq!((last, out[22]), (port, ttl));
            assert_eq!((&out[..22], &out[26..]), (&plain[..22], &plain[26..]));
        }
    }
    assert!(cache.counts().hits > 0);
}

/// A frame whose label is cut off, or that is still to be cut into segments, is dropped.
#[test]
fn labels_that_cannot_be_changed_drop_the_frame() {
    let (tables, mut cache) = (tables(), Cache::new(64, &Key::ZERO));
    let mut outcome = Outcome::default();
    let mut window = HeaderWindow::new(&frame(1), 60, 1);
    window.leave(None, Some(8));
    cache.execute(&tables, &mut window, &mut Ports, &mut outcome);
    assert_eq!(outcome.overrun, Some(Overrun::Header));
    let cut = [&frame(1)[..12], &[0x88, 0x47, 0, 0]].concat();
    let mut window = HeaderWindow::new(&cut, cut.len(), 1);
    cache.execute(&tables, &mut window, &mut Ports, &mut outcome);
    assert_eq!((outcome.overrun, outcome.deliveries.len()), (None, 0), "its label is 0");
}
