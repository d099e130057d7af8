//! Lists of lists in two flat arrays: 100,000 states cost two allocations, not 100,000.

/// For each node, a slice of items.
#[derive(Debug)]
pub(crate) struct Adjacency<T> {
    /// Where each node's items begin; one entry more than there are nodes.
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Adjacency<T> {
    /// Packs one list per node. The caller has made sure that the total fits into `u32`.
    pub fn pack<L: IntoIterator<Item = T>>(lists: impl ExactSizeIterator<Item = L>) -> Adjacency<T> {
        let mut starts = Vec::with_capacity(lists.len() + 1);
        let mut items = Vec::new();
        starts.push(0);
        for list in lists {
            items.extend(list);
            starts.push(items.len() as u32);
        }
        items.shrink_to_fit();
        Adjacency { starts, items }
    }

    /// The same relation seen from the other side: counts, then places each item. `turn(from, item)` gives the node
    /// an item points to and the item to keep there.
    pub fn reversed(&self, turn: impl Fn(usize, T) -> (usize, T)) -> Adjacency<T> {
        let nodes = self.len();
        let mut starts = vec![0_u32; nodes + 1];
        for (from, item) in self.pairs() {
            starts[turn(from, item).0 + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut items = self.items.clone();
        for (from, item) in self.pairs() {
            let (to, kept) = turn(from, item);
            items[next[to] as usize] = kept;
            next[to] += 1;
        }
        Adjacency { starts, items }
    }

    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn of(&self, node: usize) -> &[T] {
        &self.items[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    /// The items of all nodes.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, T)> + '_ {
        (0..self.len()).flat_map(|node| self.of(node).iter().map(move |item| (node, *item)))
    }
}
