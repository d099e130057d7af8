//! Straight lines: how high each slot stands, once the order in its column is settled.

use super::layers::Layers;

/// The height of a state's box.
pub const BOX_HEIGHT: f64 = 42.0;
const BETWEEN_BOXES: f64 = 14.0;
const BETWEEN_BOX_AND_BEND: f64 = 11.0;
const BETWEEN_BENDS: f64 = 9.0;
/// There and back again is two.
const PASSES: usize = 10;

/// The middles of all slots, such that none comes too near the next; the top of the highest box is at nought.
pub fn middles(layers: &Layers) -> Vec<f64> {
    let mut middle = vec![0.0; layers.slots.len()];
    for column in &layers.columns {
        for (slot, offset) in column.iter().zip(offsets(layers, column)) {
            middle[*slot] = offset;
        }
    }
    for pass in 0..PASSES {
        let forward = pass % 2 == 0;
        // The last passes look to both sides, which settles what the one-sided ones have pulled about.
        let both = pass + 2 >= PASSES;
        let last = layers.columns.len().saturating_sub(1);
        for step in 0..=last {
            if let Some(column) = layers.columns.get(if forward { step } else { last - step }) {
                place_column(layers, column, &mut middle, (both || forward, both || !forward));
            }
        }
    }
    let top =
        (0..layers.slots.len()).map(|slot| middle[slot] - half(layers, slot)).fold(f64::INFINITY, f64::min);
    middle.iter().map(|middle| middle - top).collect()
}

/// Half the height of a slot; a bend has none.
fn half(layers: &Layers, slot: usize) -> f64 {
    if slot < layers.boxes { BOX_HEIGHT / 2.0 } else { 0.0 }
}

/// The middles of a column whose slots stand as close as they may.
fn offsets(layers: &Layers, column: &[usize]) -> Vec<f64> {
    let mut offsets = Vec::with_capacity(column.len());
    let mut at = 0.0;
    let mut above: Option<usize> = None;
    for slot in column {
        if let Some(above) = above {
            let gap = match (above < layers.boxes, *slot < layers.boxes) {
                (true, true) => BETWEEN_BOXES,
                (false, false) => BETWEEN_BENDS,
                _ => BETWEEN_BOX_AND_BEND,
            };
            at += half(layers, above) + gap + half(layers, *slot);
        }
        offsets.push(at);
        above = Some(*slot);
    }
    offsets
}

/// Slots that were pushed together and now move as one.
struct Block {
    /// Where the block wants its first slot, less that slot's offset.
    wish: f64,
    weight: f64,
    slots: usize,
}

/// Moves the slots of one column as near to their neighbours as their order allows.
///
/// This is a regression under the order of the column, solved by pooling neighbours that want to pass each other.
fn place_column(layers: &Layers, column: &[usize], middle: &mut [f64], sides: (bool, bool)) {
    let offsets = offsets(layers, column);
    let mut blocks: Vec<Block> = Vec::new();
    for (slot, offset) in column.iter().zip(&offsets) {
        let (wish, weight) = wish(layers, *slot, middle, sides);
        let mut block = Block { wish: wish - offset, weight, slots: 1 };
        while let Some(above) = blocks.pop_if(|above| above.wish >= block.wish) {
            let weight = above.weight + block.weight;
            block.wish = (above.wish * above.weight + block.wish * block.weight) / weight;
            block.weight = weight;
            block.slots += above.slots;
        }
        blocks.push(block);
    }
    let wishes = blocks.iter().flat_map(|block| std::iter::repeat_n(block.wish, block.slots));
    for ((slot, offset), wish) in column.iter().zip(&offsets).zip(wishes) {
        middle[*slot] = wish + offset;
    }
}

/// Where a slot would stand if it were alone in its column, and how much that matters.
fn wish(layers: &Layers, slot: usize, middle: &[f64], (before, after): (bool, bool)) -> (f64, f64) {
    const STAY: f64 = 0.2;
    const CLOSE_UP: f64 = 0.001;
    let known = &layers.slots[slot];
    if known.before.is_empty() && known.after.is_empty() {
        return (0.0, CLOSE_UP);
    }
    let looked_at = [before.then_some(&known.before), after.then_some(&known.after)];
    let (mut sum, mut weight) = (0.0, 0.0);
    for other in looked_at.into_iter().flatten().flatten() {
        // A long edge should be straight where it passes boxes, and bend where it leaves and arrives.
        let pull = match (slot < layers.boxes, *other < layers.boxes) {
            (true, true) => 1.0,
            (false, false) => 8.0,
            _ => 2.0,
        };
        sum += pull * middle[*other];
        weight += pull;
    }
    if weight > 0.0 { (sum / weight, weight) } else { (middle[slot], STAY) }
}

#[cfg(test)]
mod tests {
    use super::super::crossings;
    use super::super::samples::{chain, picture, tangle};
    use super::*;

    #[test]
    fn a_chain_is_a_straight_line() {
        let middles = middles(&Layers::of(&chain(5)));
        assert!(middles.iter().all(|middle| (middle - BOX_HEIGHT / 2.0).abs() < 0.01), "{middles:?}");
    }

    #[test]
    fn one_of_three_stands_beside_the_middle_of_them() {
        let middles = middles(&Layers::of(&picture(&[0, 0, 0, 1], &[(0, 3), (1, 3), (2, 3)])));
        assert!((middles[3] - middles[1]).abs() < 0.01, "{middles:?}");
    }

    #[test]
    fn slots_keep_their_order_and_their_distance() {
        let mut layers = Layers::of(&tangle(200, 6, 2));
        crossings::reduce(&mut layers);
        let middles = middles(&layers);
        for column in &layers.columns {
            for (pair, offsets) in column.windows(2).zip(offsets(&layers, column).windows(2)) {
                let (distance, least) = (middles[pair[1]] - middles[pair[0]], offsets[1] - offsets[0]);
                assert!(distance > least - 0.001, "{distance} of {least}");
            }
        }
    }
}
