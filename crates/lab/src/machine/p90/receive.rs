//! A host that more packets arrive at than it can read (paper 003, sections 3.1 and 4, Table 1).

use crate::world::Ps;

/// Which of the two activities of the receive path comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// An interrupt service routine puts packets into queues of sockets, readers get what time is
    /// left: Linux.
    DriverFirst,
    /// A reader that has a packet is not preempted by those that come after it: the workaround of
    /// section 3.1.
    ReaderFirst,
}

/// The receive path in two parts, with a buffer before each.
///
/// ```text
///  line -> [ board's buffers ] -> driver -> [ queue of the socket ] -> reader
///           full: lost before                full: lost after
///           the host has done anything       the driver's work
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveHost {
    /// Which goes first.
    pub order: Order,
    /// What a packet takes of the driver: interrupt, copy into the queue.
    pub driver: Ps,
    /// What it takes after that: protocol, second copy, the application.
    pub reader: Ps,
    /// Packets that the board has buffers for.
    pub board_pdus: u32,
    /// Packets that the socket's queue holds.
    pub queue_pdus: u32,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub arrived: u64,
    /// That were read.
    pub delivered: u64,
    /// That no buffer of the board was free for.
    pub lost_at_board: u64,
    /// That the queue had no room for, after the driver's work.
    pub lost_at_queue: u64,
}

/// The path while it runs.
#[derive(Default)]
struct Path {
    board: u32,
    queue: u32,
    /// Of the packet that each activity is at; 0: it has none.
    driver_left: Ps,
    reader_left: Ps,
    received: Received,
}

impl ReceiveHost {
    /// A packet arrives every `period`, for `duration`.
    pub fn run(&self, period: Ps, duration: Ps) -> Received {
        let mut path = Path::default();
        let (mut now, mut arrival) = (Ps::ZERO, Ps::ZERO);
        while now < duration {
            if now == arrival {
                self.arrive(&mut path);
                arrival = arrival.plus(period.max(Ps::new(1)));
            }
            let most = arrival.min(duration).since(now);
            now = now.plus(self.work(&mut path, most));
        }
        path.received
    }

    fn arrive(&self, path: &mut Path) {
        path.received.arrived += 1;
        if path.board < self.board_pdus {
            path.board += 1;
        } else {
            path.received.lost_at_board += 1;
        }
    }

    /// Works for at most so long, gives for how long.
    fn work(&self, path: &mut Path, most: Ps) -> Ps {
        let driver = path.board > 0;
        let reader = path.queue > 0;
        let reads = match self.order {
            Order::DriverFirst => reader && !driver,
            Order::ReaderFirst => reader,
        };
        if reads {
            let (ran, done) = advance(&mut path.reader_left, self.reader, most);
            if done {
                path.queue -= 1;
                path.received.delivered += 1;
            }
            return ran;
        }
        if !driver {
            return most;
        }
        let (ran, done) = advance(&mut path.driver_left, self.driver, most);
        if done {
            path.board -= 1;
            if path.queue < self.queue_pdus {
                path.queue += 1;
            } else {
                path.received.lost_at_queue += 1;
            }
        }
        ran
    }
}

/// Goes on with a packet that takes `whole`: for how long, and whether that was the end of it.
fn advance(left: &mut Ps, whole: Ps, most: Ps) -> (Ps, bool) {
    if *left == Ps::ZERO {
        *left = whole.max(Ps::new(1));
    }
    let ran = most.min(*left);
    *left = left.since(ran);
    (ran, *left == Ps::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: ReceiveHost = ReceiveHost {
        order: Order::DriverFirst,
        driver: Ps::new(200),
        reader: Ps::new(600),
        board_pdus: 16,
        queue_pdus: 16,
    };

    fn both(period: u64) -> [Received; 2] {
        [Order::DriverFirst, Order::ReaderFirst].map(|order| {
            let received = ReceiveHost { order, ..HOST }.run(Ps::new(period), Ps::new(10_000_000));
            let lost = received.lost_at_board + received.lost_at_queue;
            let held = received.arrived - received.delivered - lost;
            assert!(held <= u64::from(HOST.board_pdus + HOST.queue_pdus));
            received
        })
    }

    #[test]
    fn below_its_peak_rate_a_host_loses_nothing_in_either_order() {
        for received in both(800) {
            assert_eq!(received.lost_at_board + received.lost_at_queue, 0);
            assert!(received.arrived - received.delivered <= 2);
        }
    }

    #[test]
    fn above_it_what_the_driver_is_given_first_is_thrown_away() {
        // 500 ps a packet: the driver takes 40 %, 60 % are left for readers.
        let [linux, l4atm] = both(500);
        assert!(linux.delivered.abs_diff(10_000) <= 32, "{linux:?}");
        assert!(linux.lost_at_queue > 9_000 && linux.lost_at_board == 0);
        // A packet that is taken up is read: a packet every 800 ps.
        assert!(l4atm.delivered.abs_diff(12_500) <= 32, "{l4atm:?}");
        assert!(l4atm.lost_at_board > 7_000 && l4atm.lost_at_queue == 0);
        // 200 ps a packet: nothing is left for readers.
        assert_eq!(both(200)[0].delivered, 0);
    }
}
