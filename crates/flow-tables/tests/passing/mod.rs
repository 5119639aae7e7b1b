//! A frame through a cache as a worker takes it: by its first bytes if it is plain, and by its fields otherwise.
use flow_tables::{
    Cache, Effect, HeaderRange, HeaderWindow, LookUp, Outcome, PlainFrame, Surroundings, Tables,
};

/// The first bytes of a frame that a worker has.
const SNAPSHOT_BYTES: usize = 64;

/// A frame, and where the checksum is that its sender left partial.
#[derive(Clone, Copy)]
pub struct Sent<'a> {
    pub frame: &'a [u8],
    pub partial: Option<usize>,
}

/// What comes out, as text: whole frames.
fn shown(outcome: &Outcome, window_bytes: usize, frame: &[u8]) -> Vec<String> {
    let whole = |header: &HeaderRange| {
        let bytes = [outcome.header(header), &frame[window_bytes..]].concat();
        format!("{} {bytes:02x?}", header.frame_bytes)
    };
    let deliveries = outcome.deliveries.iter();
    let deliveries = deliveries.map(|one| format!("{} {:?} {}", one.port, one.cut, whole(&one.header)));
    let overrun = outcome.overrun.iter().map(|why| format!("{why:?}"));
    let effects = outcome.effects.iter().map(|effect| match effect {
        Effect::PacketIn(packet) => {
            format!("{:?} {} {:?} {}", packet.controller, packet.table, packet.key, whole(&packet.header))
        }
        Effect::Normal(header) => format!("normal {}", whole(header)),
        Effect::Sample(sample, header) => format!("{sample:?} {}", whole(header)),
    });
    deliveries.chain(overrun).chain(effects).collect()
}

/// Passes a frame through a cache and counts it. Returns what comes out, and whether it left without being read.
pub fn cached<S: Surroundings>(
    cache: &mut Cache,
    tables: &Tables,
    Sent { frame, partial }: Sent<'_>,
    around: &mut S,
    outcome: &mut Outcome,
) -> (Vec<String>, bool) {
    let mut head = [0xa5; SNAPSHOT_BYTES];
    let known = frame.len().min(SNAPSHOT_BYTES);
    head[..known].copy_from_slice(&frame[..known]);
    let mut plain = None;
    if let Some(of) = PlainFrame::of(&head, frame.len(), 1, partial.is_some()) {
        match cache.look_up(tables, &of) {
            LookUp::Other(looked) => plain = Some((of, looked)),
            LookUp::Departs(departure) => {
                let mut bytes = frame.to_vec();
                if let Some(new) = departure.head(&of) {
                    bytes.splice(new.at..new.at + new.removed, new.inserted().iter().copied());
                }
                if departure.is_normal() {
                    return (vec![format!("normal {} {bytes:02x?}", frame.len())], true);
                }
                let left = departure.ports().iter();
                let left = left.map(|port| format!("{port} None {} {bytes:02x?}", bytes.len())).collect();
                return (left, true);
            }
        }
    }
    let mut window = HeaderWindow::new(&[], 0, 1);
    match &plain {
        Some((plain, _)) => window.take_plain(plain, 1),
        None => {
            window.take_with(&frame[..known], frame.len(), 1, &mut || Some(&frame[..frame.len().min(256)]))
        }
    }
    window.leave(partial, None);
    let window_bytes = window.bytes().len();
    match plain {
        Some((plain, looked)) => cache.execute_plain(&plain, looked, tables, &mut window, around, outcome),
        None => cache.execute(tables, &mut window, around, outcome),
    }
    (shown(outcome, window_bytes, frame), false)
}

/// Passes a frame through the tables and counts it. Returns what comes out.
pub fn uncached<S: Surroundings>(
    tables: &Tables,
    Sent { frame, partial }: Sent<'_>,
    metadata: &flow::Key,
    around: &mut S,
    outcome: &mut Outcome,
) -> Vec<String> {
    let mut window = HeaderWindow::new(frame, frame.len(), 1);
    window.leave(partial, None);
    tables.execute_once(&window, metadata, around, outcome);
    shown(outcome, window.bytes().len(), frame)
}
