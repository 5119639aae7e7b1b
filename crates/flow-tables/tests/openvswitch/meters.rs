//! Meters let the same frames pass as in Open vSwitch, whose clock is stopped and moved.
use flow::Meter;
use flow_tables::MeterState;

use super::common::Random;
use super::frames::below;
use super::peer::Peer;

const METERS: [&str; 6] = [
    "meter=1,pktps,bands=type=drop,rate=10",
    "meter=1,pktps,burst,bands=type=drop,rate=100,burst_size=5",
    "meter=1,kbps,burst,bands=type=drop,rate=100,burst_size=10",
    "meter=1,kbps,bands=type=drop,rate=40",
    "meter=1,pktps,burst,bands=type=drop,rate=200,burst_size=3,type=drop,rate=50,burst_size=8",
    "meter=1,kbps,burst,bands=type=drop,rate=3,burst_size=1",
];

fn bytes(frames: &[Vec<u8>]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}

#[test]
fn meters_let_the_same_frames_pass_as_openvswitch() {
    let mut random = Random(81);
    for text in METERS {
        let mut peer = Peer::without_groups(2);
        peer.ofctl("add-meter", text);
        peer.set_flows(&["actions=meter:1,output:2".to_owned()]);
        // The first frame makes the cached flow; the meter's clock begins with it.
        peer.stop_time();
        let meter = MeterState::new(Meter::parse(text).unwrap(), 0);
        let (mut now_ms, mut counts) = (0, [(0, 0); 2]);
        for step in 0..60 {
            let frames: Vec<_> = (0..1 + below(&mut random, 4))
                .map(|number| {
                    let mut frame = vec![2; 60 + below(&mut random, 900)];
                    (frame[12], frame[13], frame[14], frame[15]) = (0x88, 0xcc, step, number as u8);
                    frame
                })
                .collect();
            let wanted: Vec<_> =
                frames.iter().filter(|frame| meter.passes(frame.len(), now_ms)).cloned().collect();
            counts[0] = (counts[0].0 + frames.len() as u64, counts[0].1 + bytes(&frames));
            counts[1] = (counts[1].0 + wanted.len() as u64, counts[1].1 + bytes(&wanted));
            let sent = peer.send(1, &frames);
            assert_eq!(sent[1], wanted, "{text}, step {step}, {now_ms} ms");
            let more = 10 * below(&mut random, 20) as u64;
            now_ms += more;
            peer.move_time(more);
        }
        let [all, passed] = counts;
        assert_eq!(meter.measured(), all, "{text}");
        let (dropped, exceeding) = ((all.0 - passed.0, all.1 - passed.1), meter.exceeding());
        match exceeding[..] {
            [only] => assert_eq!(only, dropped, "{text}"),
            // Several bands may apply to a frame.
            _ => {
                assert!(exceeding.iter().all(|band| band.0 > 0 && *band <= dropped), "{text}: {exceeding:?}")
            }
        }
    }
}
