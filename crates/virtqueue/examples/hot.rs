//! The hot paths as functions of their own, so that their machine code can be read
//! (`scripts/aarch64-barriers.sh`) and their instructions counted.

use std::hint::black_box;

use virtqueue::mock::{Arena, DATA};
use virtqueue::{Buffer, Burst, DeviceQueue, Direction, DriverQueue, RingFeatures, RingLayout, Used};

fn main() {
    for layout in [RingLayout::Split, RingLayout::Packed] {
        for in_order in [false, true] {
            let arena = Arena::new(RingFeatures { in_order, ..RingFeatures::plain(layout) }, 256, 1 << 16);
            let (mut driver, mut device) = (arena.driver(), arena.device());
            let buffers = [Buffer { address: DATA, len: 64, cookie: 0 }; 32];
            let (mut burst, mut used) = (Burst::new(32), Vec::<Used>::new());
            let driver: &mut dyn DriverQueue = black_box(driver.as_mut());
            let device: &mut dyn DeviceQueue = black_box(device.as_mut());
            driver.add(&buffers, Direction::ToDevice);
            if driver.needs_kick() {
                device.pop(&mut burst, 32).expect("the driver is sound");
            }
            device.add_used_all(&mut burst);
            if device.needs_call() {
                driver.reclaim(&mut used, 32).expect("the device is sound");
            }
            println!("{layout:?}, in order {in_order}: {} buffers there and back", used.len());
        }
    }
}
