//! A program at its end of the control socket: what it says and does about what a server says.

use cellgate_core::Time;
use cellgate_core::adapter::{AttachmentIndex, Marks, Notification, VcId, VcIndex, VcStats};
use cellgate_core::application::{
    Answer, Application, Cause, Enclosure, End, Failure, Interest, Output, Unsendable,
};
use cellgate_core::contract::{CellRate, Credit, Jitter, UsageDecision};
use cellgate_core::queue::{AttachmentSizes, ConnectionSizes, ReceiveDescriptor};
use cellgate_core::server::{
    Confirm, EndReason, FromClient, FromServer, Indication, Open, Opened, Refused, Request,
    Response, VERSION,
};

const PATIENCE_NS: u64 = 1_000_000;

/// The memory of this number, or none.
#[derive(Debug, PartialEq)]
struct Came(Option<u32>);

impl Enclosure for Came {
    type Memory = u32;

    fn memory(&self) -> Option<u32> {
        self.0
    }
}

/// A program whose outputs are looked at one by one.
struct Program {
    application: Application<Came>,
    now: Time,
}

fn opened(contract: &str) -> Opened {
    let credit = Credit::for_sdu_rate(8_000_000, 100, Jitter::Low);
    Opened {
        marks: Marks::None,
        address: "a.0.100".parse().unwrap(),
        contract: contract.to_owned(),
        vc: VcId {
            index: VcIndex(1),
            generation: 1,
        },
        sizes: ConnectionSizes {
            receive_slots: 16,
            receive_len: 4_096,
            receive_elsewhere: false,
            transmit_slots: 16,
            transmit_len: 4_096,
        },
        files_generation: 1,
        attachment: AttachmentIndex(1),
        attachment_sizes: AttachmentSizes {
            event_slots: 16,
            doorbell_slots: 16,
        },
        attachment_generation: 1,
        notification: None,
        completions: true,
        transmit_max_sdu: Some(100),
        receive_max_sdu: Some(100),
        transmit_credit: credit,
        receive_credit: credit,
        receive_early_ns: 0,
    }
}

const CONTRACT: &str = "cbr,aal5:pcr=100000,max_sdu=100";

fn open() -> Request {
    Request::Open(Open {
        marks: Marks::None,
        address: "a.0.100".parse().unwrap(),
        contract: CONTRACT.to_owned(),
        notification: None,
        transmit_pdus: None,
        receive_pdus: None,
        queue_threshold: None,
        completions: true,
        receive_into: None,
    })
}

impl Program {
    fn new() -> Self {
        Self {
            application: Application::new(PATIENCE_NS),
            now: Time::from_ns(1),
        }
    }

    /// With a connection in memory 1.
    fn with_connection() -> Self {
        let mut program = Self::new();
        let id = program.asks(open());
        program.confirms(id, Ok(Confirm::Opened(opened(CONTRACT))), Some(1));
        assert_eq!(program.memory(), (Cause::Opened, Some(1)));
        assert!(program.answer().result.is_ok());
        program
    }

    /// Asks, and says so: the number.
    fn asks(&mut self, request: Request) -> u64 {
        self.application.ask(self.now, request.clone());
        match self.says() {
            FromClient::Request {
                id, request: said, ..
            } if said == request => id,
            other => panic!("{other:?}"),
        }
    }

    fn confirms(&mut self, id: u64, result: Result<Confirm, Refused>, memory: Option<u32>) {
        let message = FromServer::Confirm {
            connection: 0,
            id,
            result,
        };
        self.application.handle(self.now, message, Came(memory));
    }

    fn is_told(&mut self, id: u64, indication: Indication, memory: Option<u32>) {
        let message = FromServer::Indication {
            connection: 0,
            id,
            indication,
        };
        self.application.handle(self.now, message, Came(memory));
    }

    fn says(&mut self) -> FromClient {
        match self.application.poll() {
            Some(Output::Say(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self) -> Answer<Came> {
        match self.application.poll() {
            Some(Output::Answer(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn fails(&mut self, with: &Failure) {
        assert_eq!(self.answer().result.as_ref(), Err(with));
    }

    fn memory(&mut self) -> (Cause, Option<u32>) {
        match self.application.poll() {
            Some(Output::Memory { came, cause, .. }) => (cause, came.0),
            other => panic!("{other:?}"),
        }
    }

    fn does_nothing(&mut self) {
        assert!(self.application.poll().is_none());
    }
}

fn modified(contract: &str, memory: bool) -> Result<Confirm, Refused> {
    let opened = opened(contract);
    Ok(Confirm::Modified { opened, memory })
}

#[test]
fn a_server_of_another_version_is_refused() {
    let mut program = Program::new();
    let id = program.asks(Request::Hello { version: VERSION });
    let speaks = VERSION + 1;
    let hello = Confirm::Hello {
        version: speaks,
        server: String::new(),
        pid: 1,
        notes: Vec::new(),
    };
    program.confirms(id, Ok(hello), None);
    program.fails(&Failure::Refused(Refused::Version { speaks }));
}

#[test]
fn a_new_server_is_asked_again_under_the_same_number_and_one_confirm_counts() {
    let mut program = Program::with_connection();
    let id = program.asks(Request::Resources);
    program.is_told(7, Indication::Restarted, None);
    let heard = FromClient::Response {
        connection: 0,
        id: 7,
        response: Response::Heard,
    };
    assert_eq!(program.says(), heard);
    let again = FromClient::Request {
        connection: 0,
        id,
        request: Request::Resources,
    };
    assert_eq!(program.says(), again);
    program.confirms(id, Ok(Confirm::Resources(Vec::new())), None);
    assert!(program.answer().result.is_ok());
    program.confirms(id, Ok(Confirm::Resources(Vec::new())), None);
    program.does_nothing();
    // Who waits for nothing says that it has heard, and no more.
    program.is_told(8, Indication::Restarted, None);
    program.says();
    program.does_nothing();
}

#[test]
fn a_change_that_is_confirmed_after_it_was_given_up_is_in_force_and_no_other_is() {
    let mut program = Program::with_connection();
    program.application.modify(program.now, String::new());
    program.application.has_sent_all(program.now);
    let FromClient::Request { id, .. } = program.says() else {
        panic!("no request");
    };
    let deadline = program.application.next_deadline().unwrap();
    assert_eq!(deadline, program.now.plus_ns(PATIENCE_NS));
    program.application.expire(program.now);
    program.does_nothing();
    program.now = deadline;
    program.application.expire(program.now);
    program.fails(&Failure::TimedOut);
    assert_eq!(program.application.next_deadline(), None);
    // The number of an offer is never that of a Request.
    let offer = Indication::CanGrow {
        contract: CONTRACT.to_owned(),
    };
    program.is_told(id & 0xffff, offer, None);
    assert!(program.application.accept_offer(program.now));
    program.application.has_sent_all(program.now);
    program.says();
    let other = "cbr,aal5:pcr=200000,max_sdu=100";
    program.application.take_told();
    program.confirms(id, modified(other, true), Some(2));
    assert_eq!(program.memory(), (Cause::Modified, Some(2)));
    program.does_nothing();
    assert!(program.application.take_told() && program.application.is_changing());
    let open = program.application.connection().unwrap();
    assert_eq!(
        (open.opened().contract.as_str(), open.memory()),
        (other, Some(&2))
    );
    program.confirms(id & 0xffff, modified(CONTRACT, false), None);
    assert!(program.answer().result.is_ok() && !program.application.is_changing());
    let open = program.application.connection().unwrap();
    assert_eq!(
        (open.opened().contract.as_str(), open.memory()),
        (CONTRACT, Some(&2))
    );
}

#[test]
fn a_change_waits_until_all_was_sent_and_ends_with_the_connection() {
    let mut program = Program::with_connection();
    program.application.modify(program.now, String::new());
    program.does_nothing();
    assert!(program.application.is_changing());
    // It is not said to a new server either.
    program.is_told(1, Indication::Restarted, None);
    program.says();
    program.does_nothing();
    program.is_told(0, Indication::Ended(EndReason::Deleted), None);
    let end = End::Said(EndReason::Deleted);
    program.fails(&Failure::Ended(end));
    assert_eq!(program.application.end(), Some(end));
    program.application.has_sent_all(program.now);
    program.does_nothing();
    program.application.modify(program.now, String::new());
    program.fails(&Failure::Ended(end));
    // On the same socket another can be opened.
    let id = program.asks(open());
    program.confirms(id, Ok(Confirm::Opened(opened(CONTRACT))), Some(2));
    assert_eq!(program.memory(), (Cause::Opened, Some(2)));
    assert_eq!(program.application.end(), None);
}

#[test]
fn the_memory_of_a_confirm_is_later_than_what_was_told_before_it() {
    let mut program = Program::new();
    let id = program.asks(open());
    let reopened = || Indication::Reopened(opened(CONTRACT));
    program.is_told(0, reopened(), Some(1));
    program.does_nothing();
    program.confirms(id, Ok(Confirm::Opened(opened(CONTRACT))), Some(2));
    assert_eq!(program.memory(), (Cause::Opened, Some(2)));
    program.answer();
    // A new server tells once more what its predecessor has told.
    program.is_told(0, reopened(), Some(2));
    program.does_nothing();
    assert_eq!(program.application.next_indication(), None);
    program.is_told(0, reopened(), Some(3));
    assert_eq!(program.memory(), (Cause::Reopened, Some(3)));
    assert_eq!(program.application.next_indication(), Some(reopened()));
    program.asks(Request::Close);
    program.is_told(0, reopened(), Some(4));
    program.does_nothing();
}

#[test]
fn a_confirm_of_something_else_makes_no_sense() {
    let is_senseless = |answer: Answer<Came>| matches!(answer.result, Err(Failure::Senseless(_)));
    let mut program = Program::with_connection();
    for result in [
        Ok(Confirm::Opened(opened(CONTRACT))),
        modified(CONTRACT, true),
    ] {
        let id = program.asks(Request::Resources);
        program.confirms(id, result, Some(5));
        assert!(is_senseless(program.answer()));
    }
    let id = program.asks(open());
    program.confirms(id, Ok(Confirm::Opened(opened("no contract"))), Some(5));
    assert!(is_senseless(program.answer()));
    program.is_told(0, Indication::Reopened(opened("none")), Some(5));
    let told = program.application.poll();
    assert!(matches!(told, Some(Output::Senseless(_))), "{told:?}");
    let open = program.application.connection().unwrap();
    assert_eq!(open.memory(), Some(&1));
}

#[test]
fn what_was_said_before_the_socket_was_closed_stands() {
    let mut program = Program::new();
    program.asks(open());
    let refused = Refused::NotFound;
    // The server could not read it, or had no room: its last word has no number.
    program.confirms(0, Err(refused.clone()), None);
    program.fails(&Failure::Refused(refused));
    program.asks(open());
    program.application.hung_up();
    program.fails(&Failure::Ended(End::HungUp));
    program.application.ask(program.now, open());
    program.fails(&Failure::Ended(End::HungUp));

    let mut program = Program::with_connection();
    program.is_told(0, Indication::Ended(EndReason::TakenOver), None);
    program.application.hung_up();
    let end = End::Said(EndReason::TakenOver);
    assert_eq!(program.application.end(), Some(end));
}

#[test]
fn indications_are_kept_in_order_and_the_oldest_go() {
    let mut program = Program::with_connection();
    let most = Application::<Came>::KEPT_MAX;
    let at_risk = |n: usize| Indication::AtRisk {
        reason: n.to_string(),
    };
    for n in 0..most + 3 {
        program.is_told(0, at_risk(n), None);
    }
    for n in 3..most + 3 {
        assert_eq!(program.application.next_indication(), Some(at_risk(n)));
    }
    assert_eq!(program.application.next_indication(), None);
}

#[test]
fn a_closed_connection_is_gone_and_its_counters_are_told() {
    let mut program = Program::with_connection();
    let id = program.asks(Request::Close);
    assert!(program.application.is_closing());
    let stats = VcStats::default();
    program.confirms(
        id,
        Ok(Confirm::Closed {
            stats: Box::new(stats),
        }),
        None,
    );
    assert!(program.answer().result.is_ok());
    assert!(program.application.connection().is_none());
}

#[test]
fn a_writer_is_paced_and_a_sleeper_woken_by_what_can_help() {
    let mut program = Program::with_connection();
    let now = program.now;
    let open = program.application.connection_mut().unwrap();
    assert_eq!(open.sendable(0), Err(Unsendable::Empty));
    assert_eq!(open.sendable(101), Err(Unsendable::TooLong { max: 100 }));
    let len = open.sendable(100).unwrap();
    let sleep = open.sleep(now, Interest::send(100));
    assert_eq!(
        (sleep.until, sleep.room, sleep.is_woken),
        (None, Some(100), true)
    );
    let until = loop {
        if let UsageDecision::SuspendUntil(until) = open.request(now, len) {
            break until;
        }
    };
    assert_eq!(open.suspensions(), 1);
    // Only time can help who has no credit.
    let sleep = open.sleep(now, Interest::send(100));
    assert_eq!(
        (sleep.until, sleep.room, sleep.is_woken),
        (Some(until), None, false)
    );
    let sleep = open.sleep(now, Interest::send(100).or(Interest::RECEIVE));
    assert_eq!(
        (sleep.until, sleep.room, sleep.is_woken),
        (Some(until), None, true)
    );
    assert!(!open.sleep(now, Interest::INDICATION).is_woken);
    assert_eq!(open.request(until, len), UsageDecision::Transfer);
    // The pace goes on over another credit; without one only the adapter's share paces.
    let share = |credit| Indication::Share {
        transmit: None,
        transmit_credit: credit,
        receive: None,
    };
    program.is_told(0, share(None), None);
    let open = program.application.connection_mut().unwrap();
    for _ in 0..1_000 {
        assert_eq!(open.request(until, len), UsageDecision::Transfer);
    }
    // Whom no event tells looks by itself.
    let polled = Opened {
        notification: Some(Notification::Polled),
        completions: false,
        ..opened(CONTRACT)
    };
    program.is_told(0, Indication::Reopened(polled), Some(9));
    let open = program.application.connection().unwrap();
    for interest in [Interest::RECEIVE, Interest::SENT] {
        let until = open.sleep(now, interest).until;
        assert_eq!(until, Some(now.plus_ns(1_000_000)), "{interest:?}");
    }
}

/// SDUs of 100 octets that may be sent at once.
fn sendable_at_once(program: &mut Program) -> usize {
    let now = program.now;
    let open = program.application.connection_mut().unwrap();
    let sent = (0..1_000).take_while(|_| open.request(now, 100) == UsageDecision::Transfer);
    sent.count()
}

#[test]
fn what_is_told_after_a_confirm_is_heard_after_it() {
    const BEST_EFFORT: &str = "ubr,aal5:max_sdu=100";
    // A server tells a share as soon as the contract has changed to best effort: 200 octets in each
    // second.
    let share = || Indication::Share {
        transmit: None,
        transmit_credit: Credit::for_sdu_rate(1_600, 100, Jitter::Low),
        receive: None,
    };
    let without_share = || {
        let opened = Opened {
            transmit_credit: None,
            ..opened(BEST_EFFORT)
        };
        let memory = false;
        Ok(Confirm::Modified { opened, memory })
    };
    let mut program = Program::with_connection();
    let mut change = |told_after: bool| {
        program.application.modify(program.now, String::new());
        program.application.has_sent_all(program.now);
        let FromClient::Request { id, .. } = program.says() else {
            panic!("no request");
        };
        // Both are there before the program does anything about either.
        if told_after {
            program.confirms(id, without_share(), None);
            program.is_told(0, share(), None);
        } else {
            program.is_told(0, share(), None);
            program.confirms(id, without_share(), None);
        }
        assert!(program.answer().result.is_ok());
        assert_eq!(program.application.next_indication(), Some(share()));
        program.now = program.now.plus_ns(60_000_000_000);
        sendable_at_once(&mut program)
    };
    for _ in 0..3 {
        // At most two credits and a PDU.
        assert!((1..6).contains(&change(true)));
        // The contract that came later has no pace yet.
        assert_eq!(change(false), 1_000);
    }
}

#[test]
fn an_offer_is_taken_or_left_once_and_the_last_counts() {
    let mut program = Program::with_connection();
    let offer = || Indication::CanGrow {
        contract: "cbr,aal5:pcr=200000,max_sdu=100".to_owned(),
    };
    assert!(!program.application.accept_offer(program.now));
    assert!(!program.application.decline_offer());
    program.is_told(3, offer(), None);
    program.is_told(4, offer(), None);
    assert!(program.application.decline_offer());
    let left = FromClient::Response {
        connection: 0,
        id: 4,
        response: Response::Decline,
    };
    assert_eq!(program.says(), left);
    assert!(!program.application.decline_offer());
    assert!(!program.application.is_asking());
    program.is_told(5, offer(), None);
    assert!(program.application.accept_offer(program.now));
    assert!(!program.application.accept_offer(program.now));
    // Nothing is taken before all has been sent under the contract that there is.
    program.does_nothing();
    program.application.has_sent_all(program.now);
    let taken = FromClient::Response {
        connection: 0,
        id: 5,
        response: Response::Accept,
    };
    assert_eq!(program.says(), taken);
    // A new server is told again, as it is asked again.
    program.is_told(1, Indication::Restarted, None);
    program.says();
    assert_eq!(program.says(), taken);
    // The memory is the former one, whatever came along.
    let larger = "cbr,aal5:pcr=200000,max_sdu=100";
    program.confirms(5, modified(larger, false), None);
    assert!(program.answer().result.is_ok());
    let open = program.application.connection().unwrap();
    assert_eq!(
        (open.opened().contract.as_str(), open.memory()),
        (larger, Some(&1))
    );
    for _ in 0..3 {
        assert_eq!(program.application.next_indication(), Some(offer()));
    }
}

#[test]
fn what_was_received_outlives_the_end_and_a_closed_socket_ends_what_waits() {
    let ends: [fn(&mut Program); 2] = [
        |program| program.is_told(0, Indication::Ended(EndReason::Deleted), None),
        |program| program.application.hung_up(),
    ];
    for (ends, end) in ends
        .into_iter()
        .zip([End::Said(EndReason::Deleted), End::HungUp])
    {
        for waits in [false, true] {
            let mut program = Program::with_connection();
            if waits {
                program.application.modify(program.now, String::new());
            }
            program.application.take_told();
            ends(&mut program);
            // Who sleeps wakes up.
            assert!(program.application.take_told());
            if waits {
                program.fails(&Failure::Ended(end));
            }
            program.does_nothing();
            assert_eq!(program.application.end(), Some(end));
            let open = program.application.connection_mut().unwrap();
            assert_eq!(open.memory(), Some(&1));
            assert!(open.takes(&pdu(Time::from_ns(2)), 100));
            // What the server has to say about another adapter comes too late.
            let reopened = Indication::Reopened(opened(CONTRACT));
            program.is_told(0, reopened, Some(2));
            program.does_nothing();
        }
    }
}

/// A PDU of 100 octets that arrived then.
fn pdu(time: Time) -> ReceiveDescriptor {
    ReceiveDescriptor {
        position: 0,
        time,
        len: 100,
        cells: 3,
        generation: 1,
        uu: 0,
        cpi: 0,
        clp: false,
        congestion: false,
        lent: false,
        mid: 0,
    }
}

#[test]
fn what_arrived_is_judged_by_the_contract_and_the_memory_that_it_arrived_under() {
    const JUDGED: &str = "cbr,aal5:police=buffer,pcr=100000,max_sdu=100";
    let taken = |program: &mut Program, at: Time| {
        let open = program.application.connection_mut().unwrap();
        (0..100).filter(|_| open.takes(&pdu(at), 100)).count()
    };
    let change = |program: &mut Program, contract: &str| {
        program.application.modify(program.now, String::new());
        program.application.has_sent_all(program.now);
        let FromClient::Request { id, .. } = program.says() else {
            panic!("no request");
        };
        program.confirms(id, modified(contract, false), None);
        assert!(program.answer().result.is_ok());
    };
    let mut program = Program::with_connection();
    // The adapter has policed all but contracts of `police=buffer`.
    let first = program.now;
    assert_eq!(taken(&mut program, first), 100);
    program.now = first.plus_ns(1_000);
    change(&mut program, JUDGED);
    // Two credits, of two PDUs each, and one PDU.
    let second = program.now;
    assert_eq!(taken(&mut program, second), 5);
    assert_eq!(taken(&mut program, first), 100, "it came before");
    // A changed contract has the same tolerance, and all of it again.
    program.now = second.plus_ns(1_000);
    change(&mut program, JUDGED);
    assert_eq!(taken(&mut program, second), 100);
    let third = program.now;
    assert_eq!(taken(&mut program, third), 5);
    assert_eq!(taken(&mut program, third), 0);
    // So has another adapter.
    program.now = third.plus_ns(1_000);
    program.is_told(0, Indication::Reopened(opened(JUDGED)), Some(2));
    program.memory();
    let last = program.now;
    assert_eq!(taken(&mut program, last), 5);
    // A share that shrinks judges nothing.
    change(&mut program, "ubr,aal5:police=buffer,max_sdu=100");
    let share = Indication::Share {
        transmit: None,
        transmit_credit: None,
        receive: CellRate::new(1),
    };
    program.is_told(0, share, None);
    assert_eq!(taken(&mut program, last), 100);
}
