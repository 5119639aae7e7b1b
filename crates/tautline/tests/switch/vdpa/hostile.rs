//! Hostile front-ends of a relay whose device is a card behind an IOMMU: no access to memory beside the front-end's own
//! gets past the IOMMU.

use std::ops::Range;

use super::lab::Lab;

/// Where the memory of `tautline torture` begins, in guest addresses, and the size in bytes of its first region. The cases
/// `withdraw` add a region behind it, and take that away again.
const MEMORY: u64 = 0x4000_0000;
const REGION_BYTES: u64 = 1 << 20;

/// An access that the IOMMU has blocked, as the kernel logs it.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    address: u64,
    line: String,
}

/// The faults in the kernel's log.
fn faults(log: &str) -> Vec<Fault> {
    let fault = |line: &str| {
        let (_, rest) = line.split_once("fault addr 0x")?;
        let digits = rest.split(' ').next()?;
        Some(Fault { address: u64::from_str_radix(digits, 16).unwrap(), line: line.to_owned() })
    };
    log.lines().filter_map(fault).collect()
}

/// Checks that the IOMMU has blocked nothing inside of memory that the device has all the time. Returns how many accesses
/// outside of it were blocked.
fn outside(log: &str, memory: &Range<u64>) -> usize {
    println!("{log}");
    let faults = faults(log);
    for fault in &faults {
        assert!(!memory.contains(&fault.address), "a mapped address: {}", fault.line);
    }
    faults.len()
}

/// A hostile ring reaches the device, which gives up: the front-end is told, and the relay serves on. The device's accesses
/// beside the front-end's memory are in the IOMMU's fault log. What front-ends say before a ring runs never reaches the
/// device, so the IOMMU has nothing to block.
pub fn front_ends(lab: &Lab) {
    let first = MEMORY..MEMORY + REGION_BYTES;
    lab.must("grep -q DMA /sys/bus/pci/devices/0000:00:10.0/iommu_group/type || failed no IOMMU");
    // The device does try: until the log has a fault, other rings follow.
    let blocked = (1..=5).any(|seed| {
        torture(lab, "split-ring", &format!("--time 2s --seed {seed}"));
        outside(&lab.faults(), &first) > 0
    });
    assert!(blocked, "no fault is logged");
    lab.must("says relay 'the device serves no ring until it is reset'");
    // Memory that is cut off, and memory that is taken back while the device has it for frames that arrive.
    lab.must(
        "ip -n there neigh add 10.77.0.9 lladdr 02:00:00:00:76:01 dev far nud permanent
         ip netns exec there ping -q -i 0.005 10.77.0.9 >/dev/null & echo $! >/run/frames.pid",
    );
    torture(lab, "shrink,withdraw", "--time 2s");
    lab.must("kill $(cat /run/frames.pid); ip -n there neigh del 10.77.0.9 dev far");
    outside(&lab.faults(), &first);
    torture(lab, "eventfd,order,memory,descriptors,bytes,slow", "--time 1s");
    assert_eq!(lab.faults(), "");
    lab.must("kill -0 $(cat /run/relay.pid) || failed the relay has ended");
}

/// A finding ends the run with code 3: the relay is silent or gone, or bytes in the margins of the front-end's memory or
/// in withdrawn memory have changed.
pub fn torture(lab: &Lab, kinds: &str, options: &str) {
    let said = lab.must(&format!(
        "tautline torture vhost-user:/run/relay.sock --only {kinds} --cases 20 {options} --timeout 30s 2>&1
         echo code $?"
    ));
    println!("{said}");
    assert!(said.ends_with("code 0\n"), "{said}\n{}", lab.must("cat /run/relay.log"));
}
