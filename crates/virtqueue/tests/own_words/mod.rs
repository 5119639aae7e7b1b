//! Rings of a test's own words, which see each access.
use std::sync::Arc;

use memory::{AddressSpace, Translator};
use virtqueue::{
    Atomics, DeviceParts, DeviceQueue, DriverQueue, Event, FeatureSet, PackedDescriptor, PackedDevice,
    PackedDriver, PackedRing, Position, QueueSize, RingLayout, SplitDescriptor, SplitDevice, SplitDriver,
    SplitRing, UsedElement, UsedLog,
};

/// Words that can be shared, and begin as zeros.
pub trait OwnWords:
    Atomics<U16: Default + Send + Sync, U32: Default + Send + Sync, U64: Default + Send + Sync> + Send + Sync
{
}

impl<A> OwnWords for A
where
    A: Atomics + Send + Sync,
    A::U16: Default + Send + Sync,
    A::U32: Default + Send + Sync,
    A::U64: Default + Send + Sync,
{
}

pub type Halves = (Box<dyn DriverQueue>, Box<dyn DeviceQueue>);

struct Split<A: Atomics> {
    descriptors: Vec<SplitDescriptor<A>>,
    available: Vec<A::U16>,
    used_header: Vec<A::U16>,
    used: Vec<UsedElement<A>>,
    available_event: A::U16,
}

struct Packed<A: Atomics> {
    descriptors: Vec<PackedDescriptor<A>>,
    driver_event: Event<A>,
    device_event: Event<A>,
}

struct Shared<T>(Arc<T>);

impl<A: Atomics> SplitRing for Shared<Split<A>> {
    type Atomics = A;
    fn descriptors(&self) -> &[SplitDescriptor<A>] {
        &self.0.descriptors
    }
    fn available(&self) -> &[A::U16] {
        &self.0.available
    }
    fn used_header(&self) -> &[A::U16] {
        &self.0.used_header
    }
    fn used(&self) -> &[UsedElement<A>] {
        &self.0.used
    }
    fn available_event(&self) -> &A::U16 {
        &self.0.available_event
    }
}

impl<A: Atomics> PackedRing for Shared<Packed<A>> {
    type Atomics = A;
    fn descriptors(&self) -> &[PackedDescriptor<A>] {
        &self.0.descriptors
    }
    fn driver_event(&self) -> &Event<A> {
        &self.0.driver_event
    }
    fn device_event(&self) -> &Event<A> {
        &self.0.device_event
    }
}

/// Both halves of a split ring.
pub fn split<A: OwnWords, F: FeatureSet>(
    size: u16,
    space: Arc<AddressSpace>,
    log: Option<UsedLog>,
) -> Halves {
    let descriptor = |_| {
        SplitDescriptor::from_words(
            Default::default(),
            Default::default(),
            Default::default(),
            Default::default(),
        )
    };
    let ring = Arc::new(Split::<A> {
        descriptors: (0..size).map(descriptor).collect(),
        available: (0..3 + size).map(|_| A::U16::default()).collect(),
        used_header: (0..2).map(|_| A::U16::default()).collect(),
        used: (0..size).map(|_| UsedElement::from_words(Default::default(), Default::default())).collect(),
        available_event: A::U16::default(),
    });
    let size = QueueSize::new(RingLayout::Split, size.into()).unwrap();
    let driver = SplitDriver::<_, F>::new(Shared(Arc::clone(&ring)), size, None);
    let (position, translator) = (Position::start(RingLayout::Split), Translator::new(space));
    let parts = DeviceParts { ring: Shared(ring), size, position, translator, log, in_flight: None };
    let device = SplitDevice::<_, F>::new(parts);
    (Box::new(driver), Box::new(device))
}

/// Both halves of a packed ring.
pub fn packed<A: OwnWords, F: FeatureSet>(
    size: u16,
    space: Arc<AddressSpace>,
    log: Option<UsedLog>,
) -> Halves {
    let event = || Event::from_words(Default::default(), Default::default());
    let descriptor = |_| {
        PackedDescriptor::from_words(
            Default::default(),
            Default::default(),
            Default::default(),
            Default::default(),
        )
    };
    let ring = Arc::new(Packed::<A> {
        descriptors: (0..size).map(descriptor).collect(),
        driver_event: event(),
        device_event: event(),
    });
    let size = QueueSize::new(RingLayout::Packed, size.into()).unwrap();
    let driver = PackedDriver::<_, F>::new(Shared(Arc::clone(&ring)), size, None);
    let (position, translator) = (Position::start(RingLayout::Packed), Translator::new(space));
    let parts = DeviceParts { ring: Shared(ring), size, position, translator, log, in_flight: None };
    let device = PackedDevice::<_, F>::new(parts);
    (Box::new(driver), Box::new(device))
}
