use super::super::connection::Connection;
use super::super::local_queue::LocalQueue;
use super::*;

const NOW: Connection = Connection(1);

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
