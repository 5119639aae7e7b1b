use super::*;
use crate::truncate::tests::memfd;

fn mapping() -> Mapping {
    Mapping::shared(memfd(1 << 16), 0, 1 << 16).unwrap()
}

#[test]
fn every_length_and_alignment_arrives_whole_and_nothing_beside_it() {
    let memory = mapping();
    let all = SharedSlice::of_mapping(&memory);
    for len in (0..200).chain([255, 256, 257, 1500, 9000]) {
        for offset in [0, 1, 7, 15] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + offset) as u8 | 1).collect();
            all.write(&vec![0; 20000]);
            assert_eq!(all.slice(100 + offset, len).write(&bytes), len);
            let mut back = vec![0; len + 2];
            all.slice(99 + offset, len + 2).read(&mut back);
            assert_eq!((back[0], back[len + 1]), (0, 0));
            assert_eq!(back[1..=len], bytes);
        }
    }
}

#[test]
fn slices_are_cut_to_what_there_is() {
    let memory = mapping();
    let all = SharedSlice::of_mapping(&memory);
    assert_eq!(all.slice(65530, 100).len_bytes(), 6);
    assert!(all.slice(usize::MAX, usize::MAX).is_empty());
}

#[test]
fn arrays_go_over_whole_or_not_at_all() {
    let memory = mapping();
    let all = SharedSlice::of_mapping(&memory);
    let small = all.slice(100, 20);
    assert!(small.write_array(8, &[7; 12]) && !small.write_array(9, &[8; 12]));
    assert!(!small.write_array(0, &[8; 21]) && !small.write_array(usize::MAX, &[8; 1]));
    let mut around = [0; 22];
    all.slice(99, 22).read(&mut around);
    assert_eq!(around[9..21], [7; 12]);
    assert!(around[..9].iter().chain(&around[21..]).all(|byte| *byte == 0));
    let mut into = [1; 12];
    assert!(!small.read_array(9, &mut into) && !small.read_array(usize::MAX, &mut into));
    assert_eq!(into, [1; 12]);
    assert!(small.read_array(8, &mut into));
    assert_eq!(into, [7; 12]);
}

#[test]
fn beginnings_are_compared_to_the_last_byte() {
    let memory = mapping();
    let all = SharedSlice::of_mapping(&memory);
    let bytes: [u8; 15] = std::array::from_fn(|i| i as u8 + 1);
    all.slice(101, 15).write(&bytes);
    assert!(all.slice(101, 15).begins_with(&bytes) && !all.slice(101, 14).begins_with(&bytes));
    for i in 0..bytes.len() {
        let mut other = bytes;
        other[i] ^= 0x80;
        assert!(!all.slice(101, 20).begins_with(&other), "{i}");
    }
    assert!(all.slice(102, 2).begins_with(&[2, 3]) && !all.slice(102, 1).begins_with(&[2, 3]));
}
