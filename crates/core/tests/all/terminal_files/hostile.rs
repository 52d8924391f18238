//! Who offers and wants more than anybody does.

use std::sync::Arc;

use cellgate_core::aal::tree::Tree;
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{Arq, DiskHeader, Exchange, ExchangeTerms};

use super::trees::{File, Half};
use super::*;

/// An exchange of its own, with nobody at the other end.
fn alone() -> Exchange<File, Half> {
    let tree = Arc::new(Tree::new(Aal::Aal5, DiskHeader::LENGTHS).unwrap());
    let terms = ExchangeTerms {
        run: 1,
        arq: Arq::Selective,
        window_pdus: 128,
        window: 200_000,
        pdu_len: SPLIT.pdu_len,
        begins: true,
    };
    Exchange::new(Time::ZERO, terms, &tree).unwrap()
}

#[test]
fn who_offers_more_than_may_be_under_way_is_found() {
    for len in [10, CONTENT_MAX + 1] {
        let file = Node::File(vec![0; len as usize]);
        let entry = Given0::new([(b"a".to_vec(), file)].into()).entry(b"a");
        let mut taking = Taking::new(Kept::default(), 3);
        let (mut exchange, mut settled) = (alone(), Vec::new());
        let mut offer = |taking: &mut Taking<Kept>, id| {
            let entry = entry.clone();
            let offer = Message::Offer { id, entry };
            taking.handle(Time::ZERO, &mut exchange, offer, &mut settled);
        };
        (0..4_096).for_each(|id| offer(&mut taking, id));
        assert_eq!(taking.fault(), None);
        offer(&mut taking, 4_096);
        assert!(
            taking
                .fault()
                .is_some_and(|fault| fault.contains("more is offered"))
        );
        let mut taking = Taking::new(Kept::default(), 3);
        offer(&mut taking, 7);
        offer(&mut taking, 7);
        assert!(
            taking
                .fault()
                .is_some_and(|fault| fault.contains("one number"))
        );
    }
}

#[test]
fn who_wants_everything_at_once_gets_as_much_as_may_be() {
    let files = (0..1_000).map(|n| {
        let path = format!("{n:04}").into_bytes();
        (path, Node::File(vec![1; CONTENT_MAX as usize + 1]))
    });
    let mut giving = Giving::new(Given0::new(files.collect()), SPLIT);
    let (mut exchange, mut given) = (alone(), Vec::new());
    while giving.step(&mut exchange, &mut given) {}
    let want = |id, transfer| Message::Want {
        id,
        transfer,
        start: 0,
        end: CONTENT_MAX + 1,
        edge: 0,
    };
    // One and the same again and again, with other numbers: it has one at a time.
    for transfer in 1..=u16::MAX {
        giving.handle(&mut exchange, want(0, transfer), &mut given);
    }
    assert_eq!(given, []);
    let others: Vec<_> = (1..=u16::MAX)
        .filter(|t| exchange.outgoing(*t).is_some())
        .collect();
    assert_eq!(others, [u16::MAX]);
    for id in 1..1_000 {
        giving.handle(&mut exchange, want(id, id as u16), &mut given);
    }
    let under_way = (1..=u16::MAX).filter(|t| exchange.outgoing(*t).is_some());
    assert_eq!(under_way.count(), 256);
    assert_eq!(given.len(), 1_000 - 256);
    // Of what is not offered nothing becomes.
    let sent = exchange.unsaid();
    for id in 5_000..1_005_000 {
        giving.handle(&mut exchange, want(id, 1), &mut given);
        giving.handle(&mut exchange, Message::Take { id }, &mut given);
    }
    assert_eq!(exchange.unsaid(), sent);
}

#[test]
fn no_more_is_asked_for_as_messages_than_memory_is_set_aside_for() {
    let file = Node::File(vec![0; CONTENT_MAX as usize]);
    let entry = Given0::new([(b"a".to_vec(), file)].into()).entry(b"a");
    let mut taking = Taking::new(Kept::default(), 3);
    let (mut exchange, mut settled) = (alone(), Vec::new());
    for id in 0..1_000 {
        let entry = entry.clone();
        let offer = Message::Offer { id, entry };
        taking.handle(Time::ZERO, &mut exchange, offer, &mut settled);
    }
    let take = Message::Take { id: 0 }.emit().len() + 4;
    assert_eq!(exchange.unsaid(), 256 * take);
}
