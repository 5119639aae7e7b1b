//! Captures by other programs: older, damaged, or with more in them than frames.
use super::*;

const BYTE_ORDERS: [Order; 2] = [Order::Little, Order::Big];

fn load_bytes(bytes: &[u8]) -> Result<load::Capture, String> {
    let folder = Folder::new();
    load::load(&folder.file("a", bytes)).map_err(|error| error.to_string())
}

/// The frames of a capture, and the reported omissions.
fn loaded(bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<String>) {
    let folder = Folder::new();
    let file = folder.file("a", bytes);
    (all_frames(options(&file)), load::load(&file).unwrap().left_out)
}

#[test]
fn a_capture_that_ends_anywhere_gives_the_whole_frames_before() {
    let sent = frames(4);
    for order in BYTE_ORDERS {
        let packets = |sent: &[Vec<u8>]| pcapng(order, sent);
        let plain = |sent: &[Vec<u8>]| pcap(order, 0xa1b2_c3d4, 1, sent);
        for of in [&packets as &dyn Fn(&[Vec<u8>]) -> Vec<u8>, &plain] {
            let whole = of(&sent);
            let ends: Vec<usize> = (0..=4).map(|count| of(&sent[..count]).len()).collect();
            for end in 0..whole.len() {
                let count = ends.iter().filter(|whole| **whole <= end).count().saturating_sub(1);
                match load_bytes(&whole[..end]) {
                    Ok(capture) => {
                        assert_eq!(capture.frames.len(), count, "{end}");
                        let said =
                            format!("it ends within record {}; replayed are the {count} frames", count + 1);
                        let is_cut = !ends.contains(&end) && count > 0;
                        assert_eq!(capture.left_out.iter().any(|what| what.contains(&said)), is_cut, "{end}");
                    }
                    Err(why) => assert_eq!(count, 0, "{end}: {why}"),
                }
            }
        }
    }
}

#[test]
fn a_record_that_is_malformed_ends_the_capture() {
    for order in BYTE_ORDERS {
        let sent = frames(4);
        let mut bytes = pcapng(order, &sent[..2]);
        // Longer than its block.
        let mut body = packet(order, stamp(2), &sent[2]);
        body[12..16].copy_from_slice(&order.u32s(&[1000]));
        bytes.extend(block(order, 6, body));
        bytes.extend(block(order, 6, packet(order, stamp(3), &sent[3])));
        let (found, said) = loaded(&bytes);
        assert_eq!(found, sent[..2]);
        assert_eq!(said, ["record 3 is malformed; replayed are the 2 frames before that"]);
    }
}

#[test]
fn blocks_without_frames_are_skipped_whatever_is_in_them() {
    let sent = frames(3);
    for order in BYTE_ORDERS {
        // Names, statistics, a journal, secrets, custom blocks, processes, and one that is undefined.
        for kind in [4, 5, 9, 10, 0xbad, 0x4000_0bad, 0x8000_0001, 77] {
            for body in [0, 4, 8, 12, 40] {
                let optional = block(order, kind, vec![0xff; body]);
                let mut bytes = [section(order, 0, &[]), optional.clone()].concat();
                for (i, frame) in sent.iter().enumerate() {
                    bytes.extend(block(order, 6, packet(order, stamp(i), frame)));
                    bytes.extend(&optional);
                }
                let (found, said) = loaded(&bytes);
                assert_eq!(found, sent, "{kind:#x} of {body}: {said:?}");
                let is_said = said.is_empty() || said == ["4 malformed blocks without frames are skipped"];
                assert!(is_said, "{kind:#x} of {body}: {said:?}");
            }
        }
        let mut short = section(order, 0, &[]);
        short.extend(block(order, 5, vec![0; 4]));
        short.extend(block(order, 6, packet(order, stamp(0), &sent[0])));
        assert_eq!(loaded(&short).1, ["1 malformed blocks without frames are skipped"]);
    }
}

#[test]
fn packets_of_the_older_kind_are_frames_like_others() {
    let sent = frames(20);
    for order in BYTE_ORDERS {
        let mut bytes = section(order, 0, &[]);
        for (i, frame) in sent.iter().enumerate() {
            let mut body = packet(order, stamp(i), frame);
            // Two bytes for the interface, two for a count of drops that is unknown.
            body[..4].copy_from_slice(&order.u16s(&[0, u16::MAX]));
            bytes.extend(block(order, 2, body));
        }
        assert_eq!(loaded(&bytes), (sent.clone(), vec![]));
        assert_eq!(load_bytes(&bytes).unwrap().frames[19].at, Duration::from_secs(19));
        // A packet of an interface that does not exist, and blocks that are shorter than their fields.
        let mut wrong = packet(order, 0, &sent[0]);
        wrong[..4].copy_from_slice(&order.u16s(&[1, 0]));
        for (body, said) in [(wrong, "of interface 1"), (vec![], "malformed"), (vec![0; 16], "malformed")] {
            let error = load_bytes(&[section(order, 0, &[]), block(order, 2, body)].concat()).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}

#[test]
fn a_declared_frame_check_sequence_is_no_payload() {
    let plain = frames(6);
    let with_fcs: Vec<Vec<u8>> =
        plain.iter().map(|frame| [&frame[..], &[0xde, 0xad, 0xbe, 0xef]].concat()).collect();
    for order in BYTE_ORDERS {
        let declared = [order.u16s(&[13, 1]), vec![4, 0, 0, 0]].concat();
        let packets = |section: Vec<u8>, kind: u32, flags: Option<u32>| {
            let mut bytes = section;
            for (i, frame) in with_fcs.iter().enumerate() {
                let mut body = packet(order, stamp(i), frame);
                if kind == 2 {
                    body[..4].fill(0);
                }
                if let Some(flags) = flags {
                    body.extend([order.u16s(&[2, 4]), order.u32s(&[flags]), order.u16s(&[0, 0])].concat());
                }
                bytes.extend(block(order, kind, body));
            }
            bytes
        };
        for kind in [2, 6] {
            let by_interface = packets(section(order, 0, &declared), kind, None);
            let by_packet = packets(section(order, 0, &[]), kind, Some(1 | 4 << 5));
            assert_eq!(loaded(&by_interface), (plain.clone(), vec![]));
            assert_eq!(loaded(&by_packet), (plain.clone(), vec![]));
            // Flags of a packet that say nothing of it leave it to the interface; nothing declared is payload.
            assert_eq!(loaded(&packets(section(order, 0, &declared), kind, Some(1))).0, plain);
            assert_eq!(loaded(&packets(section(order, 0, &[]), kind, Some(1))).0, with_fcs);
        }
        // Two words of 16 bits; without the flag the number means nothing.
        assert_eq!(loaded(&pcap(order, 0xa1b2_c3d4, 0x2400_0001, &with_fcs)).0, plain);
        assert_eq!(loaded(&pcap(order, 0xa1b2_c3d4, 0x2000_0001, &with_fcs)).0, with_fcs);
        // A frame is whole if only its check sequence was cut off.
        let mut cut = section(order, 0, &declared);
        for missing in [0, 3, 4, 5] {
            let mut body = packet(order, stamp(0), &with_fcs[2][..64 - missing]);
            body[16..20].copy_from_slice(&order.u32s(&[64]));
            cut.extend(block(order, 6, body));
        }
        let (found, said) = loaded(&cut);
        assert_eq!(found, vec![plain[2].clone(); 3]);
        assert!(said[0].contains("1 of 4;"), "{said:?}");
    }
}

/// The block has no captured length: the interface's limit applies, and the rest is padding.
#[test]
fn a_simple_packet_that_was_cut_is_not_taken_for_whole() {
    for order in BYTE_ORDERS {
        let simple =
            |original: u32, data: &[u8]| block(order, 3, [&order.u32s(&[original])[..], data].concat());
        let bytes =
            [section(order, 61, &[]), simple(63, &[1; 61]), simple(61, &[2; 61]), simple(60, &[3; 60])];
        let (found, said) = loaded(&bytes.concat());
        assert_eq!(found, [vec![2; 61], vec![3; 60]]);
        assert!(said[0].contains("1 of 3;"), "{said:?}");
    }
}

#[test]
fn a_clock_that_was_set_makes_no_pause_of_years() {
    let second = Duration::from_secs;
    let times = |stamps: &[u64]| {
        let mut bytes = section(Order::Little, 0, &[]);
        for ms in stamps {
            bytes.extend(block(Order::Little, 6, packet(Order::Little, *ms, &[1; 60])));
        }
        let capture = load_bytes(&bytes).unwrap();
        let said = capture.left_out.first().and_then(|said| said.split(' ').next()?.parse().ok());
        (capture.frames.iter().map(|frame| frame.at).collect::<Vec<_>>(), said.unwrap_or(0))
    };
    let [zero, one, three] = [0, 1, 3].map(second);
    assert_eq!(times(&[0, stamp(0), stamp(1), stamp(3)]), (vec![zero, zero, one, three], 1));
    assert_eq!(times(&[stamp(0), 0, stamp(1), stamp(3)]), (vec![zero, zero, zero, second(2)], 2));
    // Set back, and by hours: frames follow each other, and pauses that may be are kept.
    assert_eq!(times(&[stamp(9), stamp(10), 5000, 7000]), (vec![zero, one, one, three], 1));
    let day = 24 * 3600 * 1000;
    assert_eq!(times(&[5, 5 + day, 5 + day + 3000]), (vec![zero, second(86_400), second(86_403)], 0));
    // A clock that begins at 0, and frames of two queues that are a little out of order.
    assert_eq!(times(&[0, 3000, 1000, 4000]), (vec![zero, three, three, second(4)], 0));
}

/// The start of an interface's clock has the byte order of the section.
#[test]
fn an_offset_of_an_interface_is_read_in_either_order() {
    for order in BYTE_ORDERS {
        let offset = match order {
            Order::Little => 100_i64.to_le_bytes(),
            Order::Big => 100_i64.to_be_bytes(),
        };
        let option = [&order.u16s(&[14, 8])[..], &offset].concat();
        let plain = [order.u16s(&[1, 0]), order.u32s(&[0]), order.u16s(&[9, 1]), vec![3, 0, 0, 0]].concat();
        let mut bytes = [section(order, 0, &option), block(order, 1, plain)].concat();
        bytes.extend(block(order, 6, packet(order, stamp(0), &[1; 60])));
        let mut other = packet(order, stamp(103), &[1; 60]);
        other[..4].copy_from_slice(&order.u32s(&[1]));
        bytes.extend(block(order, 6, other));
        assert_eq!(load_bytes(&bytes).unwrap().frames[1].at, Duration::from_secs(3));
    }
}
