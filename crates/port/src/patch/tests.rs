use std::time::Duration;

use super::*;
use crate::testing::TestContext;

fn start(cable: &str) -> Result<(Patch, TestContext), PortError> {
    let mut port = Patch::new(PatchOptions { cable: cable.to_owned() });
    let mut context = TestContext::new();
    port.start(&mut context).map(|()| (port, context))
}

fn has_queues(context: &TestContext) -> bool {
    context.sources.len() == 1 && context.sinks.len() == 1
}

#[test]
fn ends_come_and_go_and_frames_pass_while_both_are_there() {
    let (mut one, mut of_one) = start("comes and goes").unwrap();
    assert!(!has_queues(&of_one) && one.describe().contains("no other end"));
    for _ in 0..2 {
        let (mut other, mut of_other) = start("comes and goes").unwrap();
        assert!(has_queues(&of_other));
        assert!(of_one.turn(&mut one, Duration::from_secs(10)) && has_queues(&of_one));
        let frame = [7; 60];
        let batch = frame::FrameBatch::of_frame(&frame).unwrap();
        of_one.sinks.get_mut(&PAIR).unwrap().accept(&batch, &[0]).unwrap();
        let source = of_other.sources.get_mut(&PAIR).unwrap();
        assert_eq!(source.rx_burst(8).unwrap().frame(0).len_bytes(), 60);
        source.release();
        let counts = |port: &Patch, side| port.counters(PAIR, side).unwrap().counts().frames;
        assert_eq!(counts(&other, Side::FromGuest), 1);

        let refused = start("comes and goes").err().unwrap().to_string();
        assert!(refused.contains("two ports are at its ends already"), "{refused}");
        other.end(&mut of_other);
        assert!(of_one.turn(&mut one, Duration::from_secs(10)) && !has_queues(&of_one));
    }
    // Another one was there before the first has noticed that the last has gone.
    let (mut gone, mut of_gone) = start("comes and goes").unwrap();
    gone.end(&mut of_gone);
    let (_other, of_other) = start("comes and goes").unwrap();
    assert!(of_one.turn(&mut one, Duration::from_secs(10)));
    assert!(has_queues(&of_one) && has_queues(&of_other));
    assert_eq!(one.counters(PAIR, Side::ToGuest).unwrap().counts().frames, 2);
}
