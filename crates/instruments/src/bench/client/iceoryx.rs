//! iceoryx2 between the two processes: samples in shared memory, by polling.

use std::rc::Rc;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{BackpressureStrategy, LogLevel, Node, NodeBuilder, ipc, set_log_level};

use super::endpoint::{Arrival, Endpoint, poll};
use super::kind::Waits;
use crate::live::sdu::Mark;

/// Both ways of one process.
pub(super) struct Ports {
    publisher: Publisher<ipc::Service, [u8], ()>,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    _node: Node<ipc::Service>,
}

impl Ports {
    /// Publishes `out` and subscribes to `into`: SDUs of at most `sdu` octets, of which `window`
    /// may wait; then their sender does.
    pub(super) fn open(out: &str, into: &str, sdu: u16, window: usize) -> anyhow::Result<Self> {
        set_log_level(LogLevel::Error);
        let node = NodeBuilder::new().create::<ipc::Service>()?;
        let service = |name: &str| {
            let service = node.service_builder(&name.try_into()?);
            let service = service
                .publish_subscribe::<[u8]>()
                .enable_safe_overflow(false)
                .history_size(0)
                .subscriber_max_buffer_size(window)
                .max_publishers(1)
                .max_subscribers(1);
            anyhow::Ok(service.open_or_create()?)
        };
        let publisher = service(out)?
            .publisher_builder()
            .initial_max_slice_len(sdu.into())
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()?;
        let subscriber = service(into)?.subscriber_builder().create()?;
        Ok(Self {
            publisher,
            subscriber,
            _node: node,
        })
    }
}

impl Endpoint for Rc<Ports> {
    fn send(&mut self, len: usize, mark: Mark) -> anyhow::Result<()> {
        let sample = self.publisher.loan_slice_uninit(len)?;
        sample.write_from_fn(|_| mark.octet()).send()?;
        Ok(())
    }

    fn receive(&mut self, len: usize) -> anyhow::Result<Arrival> {
        // An error ends the waiting, too.
        let sample = poll(
            Waits::Spinning,
            || self.subscriber.receive().transpose().ok_or(()),
            |()| true,
        );
        Ok(match sample.ok().flatten().transpose()? {
            Some(sample) => Arrival::of(&sample, len),
            None => Arrival::Nothing,
        })
    }
}
