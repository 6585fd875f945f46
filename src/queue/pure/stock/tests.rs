use super::super::connection::Connection;
use super::super::local_queue::LocalQueue;
use super::*;

const NOW: Connection = Connection(1);
const LATER: Connection = Connection(2);

/// The gate behind the contender with that number.
fn gate(number: i32, on: Connection) -> Vacancy {
    let mut local = LocalQueue::<()>::default();
    let at = local.parent_watched(on);
    local.clear_up_to(number, at);
    local.vacancy(on).unwrap()
}

fn stock(others: usize, limit: Limit) -> Stock {
    let mut stock = Stock::default();
    stock.taken(gate(4, NOW), others, limit);
    stock
}

#[test]
fn a_try_needs_a_gate_that_is_as_it_was_left() {
    let guess = |gate| stock(0, Limit::Fixed(1)).guess(gate, 1, 0);
    assert_eq!(guess(Some(gate(4, NOW))), Some(5));
    assert_eq!(guess(None), None);
    assert_eq!(guess(Some(gate(5, NOW))), None);
    assert_eq!(guess(Some(gate(4, LATER))), None);
    assert_eq!(Stock::default().guess(Some(gate(4, NOW)), 1, 0), None);
}

#[test]
fn a_try_needs_permits_that_are_free() {
    let guess = |others, own, limit| stock(others, limit).guess(Some(gate(4, NOW)), 2, own);
    assert_eq!(guess(1, 0, Limit::Fixed(3)), Some(5));
    assert_eq!(guess(1, 1, Limit::Fixed(3)), None);
    assert_eq!(guess(0, 2, Limit::Fixed(3)), None);
    assert_eq!(guess(1, 0, Limit::Shared(2)), None);
    assert_eq!(guess(0, 0, Limit::Shared(-1)), None);
}

#[test]
fn one_tries_at_a_time() {
    let mut stock = stock(0, Limit::Fixed(2));
    assert_eq!(stock.guess(Some(gate(4, NOW)), 1, 0), Some(5));
    assert_eq!(stock.guess(Some(gate(4, NOW)), 1, 0), None);
}

#[test]
fn nobody_tries_where_numbers_repeat() {
    for (last, guess) in [(i32::MAX - 2, Some(i32::MAX - 1)), (i32::MAX - 1, None), (i32::MAX, None)] {
        let mut stock = Stock::default();
        stock.taken(gate(last, NOW), 0, Limit::Fixed(1));
        assert_eq!(stock.guess(Some(gate(last, NOW)), 1, 0), guess);
    }
}

#[test]
fn after_a_wrong_guess_the_numbers_must_come_as_expected_for_a_while() {
    let mut stock = stock(0, Limit::Fixed(1));
    stock.was_wrong();
    let mut guess_behind = |number| {
        stock.taken(gate(number, NOW), 0, Limit::Fixed(1));
        stock.guess(Some(gate(number, NOW)), 1, 0)
    };
    // Another client was at the gate before the eighth and the tenth.
    assert_eq!([6, 8, 10, 11, 12].map(&mut guess_behind), [None, None, None, None, Some(13)]);
}

#[test]
fn the_doubt_grows_with_each_guess_in_vain_and_ends_with_a_right_one() {
    let mut stock = stock(0, Limit::Fixed(1));
    let mut number = 4;
    let mut waits = |is_wrong: bool| {
        let mut creates = 0;
        while stock.guess(Some(gate(number, NOW)), 1, 0).is_none() {
            number += 1;
            creates += 1;
            stock.taken(gate(number, NOW), 0, Limit::Fixed(1));
        }
        // Another client was there before.
        number += 1 + i32::from(is_wrong);
        if is_wrong {
            stock.was_wrong();
        }
        stock.taken(gate(number, NOW), 0, Limit::Fixed(1));
        creates
    };
    assert_eq!([true; 7].map(&mut waits), [0, 2, 4, 8, 16, 32, 32]);
    assert_eq!([false, false, true, true].map(waits), [32, 0, 0, 2]);
}
