//! Events that nobody was given.

use zester_reactor::Unread;
use zester_rule::rule;

/// What is told at each delivery: (its number, the event).
fn told(unread: &mut Unread, deliveries: &[(u64, u64)]) -> Vec<u64> {
    deliveries.iter().map(|(given, sequence)| unread.given(*given, *sequence)).collect()
}

#[test]
#[rule("R-1")]
fn r1_what_the_stream_dropped_unread_is_counted() {
    let mut unread = Unread::default();
    unread.begin(10, 100);
    assert_eq!(told(&mut unread, &[(11, 101), (12, 102), (13, 110), (14, 111)]), [0, 0, 7, 0]);
    // Also what was lost while this master was away, or before the first that it is given.
    let mut unread = Unread::default();
    unread.begin(0, 100);
    assert_eq!(told(&mut unread, &[(1, 1_000_101), (2, 1_000_102)]), [1_000_000, 0]);
}

#[test]
#[rule("R-1")]
fn r1_what_comes_again_or_goes_to_other_masters_is_not_called_lost() {
    let mut unread = Unread::default();
    unread.begin(10, 100);
    // 102 comes again twice, and the others took 103 to 105.
    assert_eq!(
        told(&mut unread, &[(11, 101), (12, 102), (13, 102), (17, 106), (18, 102), (19, 107)]),
        [0; 6]
    );
    // Another master was given 107 again and 108: that hides one of the two that were dropped.
    assert_eq!(told(&mut unread, &[(22, 111)]), [1]);
}

#[test]
#[rule("R-1")]
fn r1_a_reader_or_a_stream_that_was_made_anew_is_no_loss() {
    for anew in [[(1, 500), (2, 501)], [(1, 1), (2, 2)], [(5, 5), (6, 6)]] {
        let mut unread = Unread::default();
        unread.begin(10, 100);
        assert_eq!(told(&mut unread, &anew), [0, 0], "{anew:?}");
    }
    // Whoever knows nothing of before begins with the first.
    assert_eq!(told(&mut Unread::default(), &[(7, 70), (8, 71), (9, 75)]), [0, 0, 3]);
}
