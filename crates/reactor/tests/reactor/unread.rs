//! Events that nobody was given.

use zester_reactor::{Lost, Unread};
use zester_rule::rule;

/// When the reader was made, and the one that took its place.
const READER: u64 = 1_000;
const ANOTHER: u64 = 2_000;

fn begun(given: u64, sequence: u64) -> Unread {
    let mut unread = Unread::default();
    unread.look(READER, given, sequence);
    unread
}

/// How many are told at each first delivery: (its number, the event).
fn told(unread: &mut Unread, deliveries: &[(u64, u64)]) -> Vec<u64> {
    let one = |(given, sequence): &(u64, u64)| unread.given(*given, *sequence).map_or(0, |lost| lost.count);
    deliveries.iter().map(one).collect()
}

#[test]
#[rule("R-1")]
fn r1_what_the_stream_dropped_unread_is_counted() {
    let mut unread = begun(10, 100);
    assert_eq!(told(&mut unread, &[(11, 101), (12, 102), (13, 110), (14, 111)]), [0, 0, 7, 0]);
    assert_eq!(
        unread.given(15, 115),
        Some(Lost { reader: READER, after: 111, before: 115, count: 3 }),
        "between which, and of which reader"
    );
    // Also what was lost while this master was away, or before the first that it is given.
    assert_eq!(told(&mut begun(0, 100), &[(1, 1_000_101), (2, 1_000_102)]), [1_000_000, 0]);
}

#[test]
#[rule("R-1")]
fn r1_what_comes_again_or_goes_to_other_masters_is_not_called_lost() {
    let mut unread = begun(10, 100);
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
fn r1_one_that_comes_again_and_is_called_the_first_makes_no_loss() {
    // Others were given 11 to 20. 15 comes again here, called the first, and 21 is new.
    assert_eq!(told(&mut begun(10, 10), &[(21, 15), (22, 21), (23, 22)]), [0, 0, 0]);
    // The same where it is noticed late: it is older than what was given here.
    assert_eq!(told(&mut begun(10, 10), &[(16, 16), (21, 15), (22, 21)]), [0, 0, 0]);
}

#[test]
#[rule("R-1")]
fn r1_what_others_were_given_again_hides_a_loss_until_the_reader_says_where_it_is() {
    // 100 deliveries to others were of events that came again.
    let others = [(111, 11)];
    let mut unread = begun(10, 10);
    assert_eq!(told(&mut unread, &others), [0]);
    assert_eq!(told(&mut unread, &[(112, 62)]), [0], "50 are hidden");
    let mut unread = begun(10, 10);
    assert_eq!(told(&mut unread, &others), [0]);
    unread.look(READER, 111, 11);
    assert_eq!(told(&mut unread, &[(112, 62)]), [50]);
    // An answer that was under way while more was given says nothing, and no delivery is told of twice that it overtook.
    unread.look(READER, 111, 11);
    assert_eq!(told(&mut unread, &[(113, 63)]), [0]);
    unread.look(READER, 130, 70);
    assert_eq!(told(&mut unread, &[(114, 64), (115, 65), (131, 71), (132, 75)]), [0, 0, 0, 3]);
    // One that shows a loss leaves it to the next delivery.
    unread.look(READER, 133, 80);
    assert_eq!(told(&mut unread, &[(134, 81)]), [4]);
}

#[test]
#[rule("R-1")]
fn r1_a_reader_or_a_stream_that_was_made_anew_is_no_loss() {
    for anew in [[(1, 500), (2, 502)], [(1, 1), (2, 3)], [(5, 5), (6, 8)]] {
        let mut unread = begun(10, 100);
        assert_eq!(told(&mut unread, &anew), [0, 0], "{anew:?}: it must be asked first");
        unread.look(ANOTHER, 9, 600);
        assert_eq!(told(&mut unread, &[(10, 601), (11, 603)]), [0, 1], "{anew:?}");
    }
    // Also where it is noticed before the first is given, and others were given more than it ever gave before.
    let mut unread = begun(10, 100);
    unread.look(ANOTHER, 3, 150);
    assert_eq!(told(&mut unread, &[(11, 158), (12, 160)]), [0, 1]);
    // The same reader as before has lost what it lost.
    unread.look(ANOTHER, 12, 160);
    unread.look(ANOTHER, 14, 170);
    assert_eq!(told(&mut unread, &[(15, 171)]), [8]);
    // Whoever was not told where the reader is knows nothing.
    assert_eq!(told(&mut Unread::default(), &[(7, 70), (8, 71), (9, 75)]), [0, 0, 0]);
}

#[test]
#[rule("R-1")]
fn r1_a_reader_that_was_made_anew_and_gave_more_than_the_one_before_is_another() {
    let mut unread = begun(10, 100);
    // Made anew behind 200, it gave 15 of which the last is 215; then 500 are lost.
    unread.look(ANOTHER, 15, 215);
    assert_eq!(told(&mut unread, &[(16, 716)]), [500]);
}
