//! Labels of MPLS are put in front of frames and taken away, also by an outcome that a cache has kept.
mod ports;

use flow::{Field, Flow, Key};
use flow_tables::{Cache, Change, HeaderWindow, Limits, Outcome, Overrun, Tables};
use ports::Ports;

const FLOWS: [&str; 6] = [
    "mpls,mpls_label=0 actions=pop_mpls:0x0800,output:5",
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
    let known = frame.len().min(flow::WINDOW_BYTES);
    let (mut window, mut outcome) = (HeaderWindow::new(&frame[..known], frame.len(), 1), Outcome::default());
    cache.execute(tables, &mut window, &mut Ports, &mut outcome);
    let [delivery] = &outcome.deliveries[..] else { panic!("{outcome:?}") };
    let rest = frame.len() - known;
    assert_eq!(delivery.header.frame_bytes, outcome.header(&delivery.header).len() + rest);
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
            let before = cache.counts().hits;
            assert_eq!(sent(&mut cache, &tables, &labelled), (last, out));
            assert_eq!(cache.counts().hits, before + 1, "the outcome of the frame before");
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
    // A label that is not there is read as 0.
    assert_eq!((outcome.overrun, outcome.deliveries.len()), (Some(Overrun::Header), 0));
}

/// Two labels and a tag have room in the longest window, with the outcome of a shorter frame too.
#[test]
fn a_kept_outcome_adds_all_labels_and_tags() {
    const ACTIONS: &str =
        "mpls actions=push_mpls:0x8847,push_mpls:0x8847,push_vlan:0x8100,set_field:4197->vlan_vid,output:2";
    let mut tables = Tables::new(1, 1, Limits::default());
    tables.change(Change::Add(Flow::parse(ACTIONS).unwrap()), 0).unwrap();
    let mut cache = Cache::new(64, &Key::ZERO);
    for length in [60, 300, 300] {
        let mut labelled = [&frame(1)[..12], &[0x88, 0x47, 0, 0, 0x51, 64], &frame(1)[14..]].concat();
        labelled.resize(length, 1);
        let (port, out) = sent(&mut cache, &tables, &labelled);
        let known = length.min(flow::WINDOW_BYTES);
        assert_eq!((port, &out[12..18], out.len()), (2, &[0x81, 0, 0, 101, 0x88, 0x47][..], known + 12));
    }
    assert!(cache.counts().hits > 0);
}

/// A tag that an action has added is in front of labels, and stays there.
#[test]
fn labels_stand_behind_tags_that_were_added() {
    const ACTIONS: &str =
        "dl_vlan=5,ip actions=push_vlan:0x88a8,push_mpls:0x8847,set_mpls_label(7),push_mpls:0x8847,output:2";
    let mut tables = Tables::new(1, 1, Limits::default());
    tables.change(Change::Add(Flow::parse(ACTIONS).unwrap()), 0).unwrap();
    let mut cache = Cache::new(64, &Key::ZERO);
    let tagged = [&frame(1)[..12], &[0x81, 0, 0, 5], &frame(1)[12..]].concat();
    for _ in 0..2 {
        let (port, out) = sent(&mut cache, &tables, &tagged);
        assert_eq!(port, 2);
        assert_eq!(out[12..14], [0x88, 0xa8]);
        assert_eq!(out[16..20], [0x81, 0, 0, 5]);
        assert_eq!(out[20..30], [0x88, 0x47, 0, 0, 0x70, 64, 0, 0, 0x71, 64]);
        assert_eq!(out[30..], tagged[18..]);
    }
}
