//! How interrupts reach a guest, judged by constructed counts.

use kvm::interrupts::{Deliveries, Delivery, GuestInterrupts, Judged, Path, judge};

fn guest(lines: &[(&str, u64)]) -> GuestInterrupts {
    let lines = lines.iter().map(|(name, count)| ((*name).to_owned(), (*count, String::new())));
    GuestInterrupts { lines: lines.collect() }
}

fn host(accepted: &[(u64, u64, u64)], injected: &[(u64, u64)]) -> Deliveries {
    let accepted = accepted.iter().map(|&(apic, vector, delivered)| Delivery { apic, vector, delivered });
    Deliveries { accepted: accepted.collect(), injected: injected.iter().copied().collect(), dropped: 0 }
}

fn paths(judged: &[Judged]) -> Vec<(&str, &str)> {
    let name = |path: &Path| match path {
        Path::Direct => "direct",
        Path::Forwarded => "forwarded",
        Path::Unknown(_) => "unknown",
    };
    judged.iter().map(|one| (one.line.as_str(), name(&one.path))).collect()
}

#[test]
fn what_the_host_delivered_as_often_is_forwarded() {
    let taken = guest(&[("26", 5000), ("LOC", 2000), ("RES", 3), ("NMI", 900)]);
    let host = host(&[(0, 37, 5010), (0, 0xec, 1990), (1, 0xfd, 3)], &[(37, 4900), (0xec, 1990)]);
    let judged = judge(&taken, &host, false);
    assert_eq!(paths(&judged), [("26", "forwarded"), ("LOC", "forwarded"), ("RES", "unknown")]);
    assert_eq!((judged[0].delivered, judged[0].injected), (Some(5010), Some(4900)));
    assert_eq!(judged[0].vectors, [37]);
}

#[test]
fn several_deliveries_that_became_one_interrupt_are_forwarded() {
    let taken = guest(&[("29", 793), ("30", 718)]);
    let devices = [(0, 0x2b, 1204), (0, 0x2c, 1198)];
    let judged = judge(&taken, &host(&devices, &[(0x2b, 795), (0x2c, 720)]), false);
    assert_eq!(paths(&judged), [("29", "forwarded"), ("30", "forwarded")]);
    assert_eq!((judged[0].delivered, judged[0].injected), (Some(1204), Some(795)));
    // Without the injections they might be anything's.
    let judged = judge(&taken, &host(&devices, &[]), false);
    assert_eq!(paths(&judged), [("29", "unknown"), ("30", "unknown")]);
    assert!(
        matches!(&judged[0].path, Path::Unknown(why) if why.contains("0x2b: 1204 delivered, 0 injected"))
    );
    // A vector of two virtual CPUs: whose the injections are is not known.
    let two = [(0, 0x2b, 1204), (1, 0x2b, 1198)];
    let judged = judge(&taken, &host(&two, &[(0x2b, 795)]), false);
    assert_eq!(paths(&judged), [("29", "unknown"), ("30", "unknown")]);
}

#[test]
fn what_the_host_knows_nothing_of_is_direct() {
    // Beside a device that is forwarded, whose vector is taken.
    let taken = guest(&[("26", 5000), ("27", 800), ("LOC", 2000)]);
    let judged = judge(&taken, &host(&[(0, 37, 805), (0, 40, 3)], &[(37, 805)]), false);
    assert_eq!(paths(&judged), [("26", "direct"), ("27", "forwarded"), ("LOC", "direct")]);
    assert_eq!(judged[0].delivered, Some(0));
}

#[test]
fn counts_that_show_neither_are_unknown() {
    // Two devices, one vector that fits both: either may be direct.
    let judged = judge(&guest(&[("26", 5000), ("27", 5000)]), &host(&[(0, 37, 5000)], &[]), false);
    assert_eq!(paths(&judged), [("26", "unknown"), ("27", "unknown")]);
    // Two vectors for the two: both were forwarded, whichever is whose.
    let both = host(&[(0, 37, 5000), (1, 38, 5010)], &[]);
    assert_eq!(
        paths(&judge(&guest(&[("26", 5000), ("27", 5000)]), &both, false)),
        [("26", "forwarded"), ("27", "forwarded")]
    );
    // Half of them.
    let half =
        judge(&guest(&[("26", 5000), ("LOC", 1000)]), &host(&[(0, 37, 2500), (0, 0xec, 500)], &[]), false);
    assert_eq!(paths(&half), [("26", "unknown"), ("LOC", "unknown")]);
    // Too few, or events lost.
    assert_eq!(paths(&judge(&guest(&[("26", 40)]), &host(&[], &[]), false)), [("26", "unknown")]);
    let lost = Deliveries { dropped: 1, ..host(&[], &[]) };
    assert_eq!(paths(&judge(&guest(&[("26", 5000)]), &lost, false)), [("26", "unknown")]);
}

#[test]
fn other_guests_can_spoil_a_proof_and_never_make_one() {
    let taken = guest(&[("26", 5000), ("27", 900), ("LOC", 1000)]);
    let judged = judge(&taken, &host(&[(0, 37, 5000), (0, 0xec, 1000)], &[]), true);
    assert_eq!(paths(&judged), [("26", "unknown"), ("27", "direct"), ("LOC", "unknown")]);
}
