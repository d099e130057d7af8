//! Events that nobody was given.

use zester_reactor::Unread;
use zester_rule::rule;

/// What is told at each first delivery: (its number, the event).
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
    assert_eq!(told(&mut unread, &[(11, 101), (12, 102)]), [0, 0]);
    unread.given_again(13);
    assert_eq!(told(&mut unread, &[(17, 106)]), [0]);
    unread.given_again(18);
    assert_eq!(told(&mut unread, &[(19, 107)]), [0]);
    // The others took 108 and 109, and the first of them comes again here: the second was given all the same.
    unread.given_again(22);
    assert_eq!(told(&mut unread, &[(23, 110)]), [0]);
    // Another master was given 110 again, and 111: that hides one of the two that were dropped.
    assert_eq!(told(&mut unread, &[(26, 114)]), [1]);
    // What comes again here hides nothing.
    unread.given_again(27);
    unread.given_again(28);
    assert_eq!(told(&mut unread, &[(29, 120)]), [5]);
}

#[test]
#[rule("R-1")]
fn r1_a_reader_or_a_stream_that_was_made_anew_is_no_loss() {
    for anew in [[(1, 500), (2, 501)], [(1, 1), (2, 2)], [(5, 5), (6, 6)]] {
        let mut unread = Unread::default();
        unread.begin(10, 100);
        assert_eq!(told(&mut unread, &anew), [0, 0], "{anew:?}");
    }
    // Also where it is noticed before the first is given, and others were given more than it ever gave before.
    let mut unread = Unread::default();
    unread.begin(10, 100);
    unread.resume(3, 150);
    assert_eq!(told(&mut unread, &[(11, 158), (12, 160)]), [0, 1]);
    // The same reader as before has lost what it lost.
    unread.resume(12, 160);
    unread.resume(14, 170);
    assert_eq!(told(&mut unread, &[(15, 171)]), [8]);
    // Whoever knows nothing of before begins with the first.
    assert_eq!(told(&mut Unread::default(), &[(7, 70), (8, 71), (9, 75)]), [0, 0, 3]);
}
