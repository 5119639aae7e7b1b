//! One worker, as the control thread knows it.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use frame::{Side, Sink, Source};

use crate::QueueId;
use crate::heartbeat::WorkerPosition;
use crate::mailbox::{Generation, Incarnation, Mailbox, Message};
use crate::shared_queue::SharedQueue;
use crate::watchdog::Watchdog;
use crate::worker_counters::{WorkerCounters, WorkerCounts};

pub(crate) struct WorkerHandle {
    pub cpu: Option<usize>,
    pub incarnation: Incarnation,
    pub mailbox: Arc<Mailbox>,
    pub counters: Arc<WorkerCounters>,
    /// The counts of the worker's earlier threads.
    pub before: WorkerCounts,
    pub watchdog: Watchdog,
    pub thread: Option<JoinHandle<()>>,
    /// The worker cannot be replaced; it gets no more messages.
    pub failed: bool,
    /// The queues that the worker was told to use, including shared ones.
    pub sources: BTreeMap<QueueId, (Generation, Arc<SharedQueue<dyn Source>>)>,
    pub sinks: BTreeMap<QueueId, (Generation, Arc<SharedQueue<dyn Sink>>)>,
}

impl WorkerHandle {
    /// Gives up the queues that the worker's thread holds and that cannot be recovered. Returns them, and the
    /// position of the thread.
    pub fn abandon(&mut self, is_stuck: bool) -> (WorkerPosition, Vec<(QueueId, Side, Generation)>) {
        let position = self.counters.heartbeat.position();
        let mut lost = Vec::new();
        if let Some(id) = position.source
            && let Some((generation, queue)) = self.sources.get(&id).cloned()
        {
            if is_stuck {
                if queue.retire() {
                    self.sources.remove(&id);
                    lost.push((id, Side::FromGuest, generation));
                }
            } else if position.sink.is_some()
                && let Some(source) = queue.salvage()
            {
                // The panic was the sink's: the source only waited.
                self.sources.insert(id, (generation, SharedQueue::new(source)));
            } else {
                self.sources.remove(&id);
                lost.push((id, Side::FromGuest, generation));
            }
        }
        if let Some(id) = position.sink
            && let Some((generation, queue)) = self.sinks.get(&id).cloned()
            && (!is_stuck || queue.retire())
        {
            self.sinks.remove(&id);
            lost.push((id, Side::ToGuest, generation));
        }
        (position, lost)
    }

    /// Takes over the queues of another worker.
    pub fn take_over(
        &mut self,
        sources: BTreeMap<QueueId, (Generation, Arc<SharedQueue<dyn Source>>)>,
        sinks: BTreeMap<QueueId, (Generation, Arc<SharedQueue<dyn Sink>>)>,
    ) {
        // Sinks first: frames find their receivers.
        let shared = sinks.iter().map(|(id, (generation, queue))| (*id, *generation, Arc::clone(queue)));
        self.mailbox.post(Message::AddSinks { sinks: shared.collect(), reply: channel().0 });
        self.sinks.extend(sinks);
        for (id, (generation, queue)) in sources {
            self.mailbox.post(Message::AddSource { id, generation, queue: Arc::clone(&queue) });
            self.sources.insert(id, (generation, queue));
        }
    }
}
