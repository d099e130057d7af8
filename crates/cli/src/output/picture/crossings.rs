//! Fewer crossings: the order of the slots inside their columns, for drawing only.

use super::layers::Layers;

/// Above this many segments the order is left as it is: a drawing of that size is searched, not followed line by line.
pub const SEGMENTS_MAX: usize = 15_000;
/// There and back again is two sweeps. More rarely find anything.
const SWEEPS: usize = 16;

/// Orders every column by where its neighbours stand, back and forth, and keeps the best order seen.
///
/// Returns whether it tried.
pub fn reduce(layers: &mut Layers) -> bool {
    if layers.segments() > SEGMENTS_MAX {
        return false;
    }
    let mut best = layers.columns.clone();
    let mut fewest = count(layers);
    for sweep in 0..SWEEPS {
        if fewest == 0 {
            break;
        }
        sweep_once(layers, sweep % 2 == 0);
        let crossings = count(layers);
        if crossings < fewest {
            fewest = crossings;
            best.clone_from(&layers.columns);
        }
    }
    layers.columns = best;
    true
}

fn sweep_once(layers: &mut Layers, forward: bool) {
    let mut place = relative_places(layers);
    let last = layers.columns.len().saturating_sub(1);
    for step in 0..=last {
        let column = if forward { step } else { last - step };
        let mut keyed: Vec<(f64, usize)> = layers.columns[column]
            .iter()
            .map(|slot| {
                let known = &layers.slots[*slot];
                let neighbours = if forward { &known.before } else { &known.after };
                let key = match neighbours.len() {
                    0 if known.before.is_empty() && known.after.is_empty() => f64::INFINITY,
                    0 => place[*slot],
                    many => neighbours.iter().map(|other| place[*other]).sum::<f64>() / many as f64,
                };
                (key, *slot)
            })
            .collect();
        keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
        let length = keyed.len() as f64;
        for (at, (_, slot)) in keyed.iter().enumerate() {
            place[*slot] = (at as f64 + 0.5) / length;
        }
        layers.columns[column] = keyed.into_iter().map(|(_, slot)| slot).collect();
    }
}

/// Of each slot in its column, from 0 at the top to 1 at the bottom: columns differ in length.
fn relative_places(layers: &Layers) -> Vec<f64> {
    let mut place = vec![0.0; layers.slots.len()];
    for column in &layers.columns {
        for (at, slot) in column.iter().enumerate() {
            place[*slot] = (at as f64 + 0.5) / column.len() as f64;
        }
    }
    place
}

/// Pairs of segments that cross, by counting inversions with a tree of sums.
pub fn count(layers: &Layers) -> usize {
    let mut rank = vec![0; layers.slots.len()];
    for column in &layers.columns {
        for (at, slot) in column.iter().enumerate() {
            rank[*slot] = at;
        }
    }
    let mut crossings = 0;
    for pair in layers.columns.windows(2) {
        let [left, right] = pair else { continue };
        let mut sums = vec![0_usize; right.len() + 1];
        let mut seen = 0;
        for slot in left {
            let mut ends: Vec<usize> = layers.slots[*slot].after.iter().map(|other| rank[*other]).collect();
            ends.sort_unstable();
            // Segments from one slot do not cross each other, so they are counted before any of them is entered.
            for end in &ends {
                crossings += seen - sum_up_to(&sums, end + 1);
            }
            for end in &ends {
                enter(&mut sums, end + 1);
            }
            seen += ends.len();
        }
    }
    crossings
}

fn sum_up_to(sums: &[usize], mut at: usize) -> usize {
    let mut sum = 0;
    while at > 0 {
        sum += sums[at];
        at &= at - 1;
    }
    sum
}

fn enter(sums: &mut [usize], mut at: usize) {
    while at < sums.len() {
        sums[at] += 1;
        at += at & at.wrapping_neg();
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{picture, tangle};
    use super::*;

    #[test]
    fn crossings_are_counted() {
        let crossed = Layers::of(&picture(&[0, 0, 1, 1], &[(0, 2), (0, 3), (1, 2), (1, 3)]));
        assert_eq!(count(&crossed), 1);
        let fan = Layers::of(&picture(&[0, 1, 1, 1], &[(0, 1), (0, 2), (0, 3)]));
        assert_eq!(count(&fan), 0);
    }

    #[test]
    fn edges_that_need_not_cross_do_not() {
        // A chain keeps all of it in one component, so that only the sweeps can help.
        let sample = picture(&[0, 0, 0, 1, 1, 1], &[(0, 5), (1, 4), (2, 3), (0, 4), (1, 3)]);
        let mut layers = Layers::of(&sample);
        assert!(count(&layers) > 0);
        assert!(reduce(&mut layers));
        assert_eq!(count(&layers), 0);
    }

    #[test]
    fn the_best_order_seen_is_kept_and_no_slot_is_lost() {
        let mut layers = Layers::of(&tangle(300, 8, 2));
        let before = count(&layers);
        reduce(&mut layers);
        assert!(count(&layers) < before, "{} of {before}", count(&layers));
        let mut slots: Vec<usize> = layers.columns.concat();
        slots.sort_unstable();
        assert_eq!(slots, (0..layers.slots.len()).collect::<Vec<_>>());
    }
}
