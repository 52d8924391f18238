//! Contracts that reception is tried with.

use cellgate_core::adapter::{Excess, Marks, Notification, Receive};

/// No rate: the buffer is the bound.
pub(crate) fn receive(max_sdu: u16, notification: Notification) -> Receive {
    Receive {
        marks: Marks::None,
        rate: None,
        sustained: None,
        cdvt_ns: 0,
        max_sdu,
        fixed_sdu: false,
        excess: Excess::Discard,
        notification,
        queue_threshold: 0,
        guaranteed: true,
    }
}

/// One for each way to be told.
pub(crate) fn told(max_sdu: u16) -> impl Iterator<Item = Receive> {
    let silent = Notification::Silent {
        threshold: 5,
        longest_delay_ns: 20_000,
    };
    [
        Notification::EveryCell,
        Notification::FirstCell,
        Notification::LastCell,
        Notification::FirstAndLastCell,
        silent,
    ]
    .into_iter()
    .map(move |notification| receive(max_sdu, notification))
}
