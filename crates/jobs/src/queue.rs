//! What runs on a peel and what waits (J-15): mutating executions one at a time in arrival order, read-only ones beside.

use crate::limits::{BESIDE_MAX, QUEUE_MAX};
use std::collections::{BTreeMap, VecDeque};

/// Which way an execution goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Lane {
    Mutating,
    ReadOnly,
}

impl Lane {
    /// Whatever is not known to be read-only may change the machine.
    pub fn of(function: &str) -> Lane {
        let module = function.split_once('.').map(|(module, _)| module);
        match (function, module) {
            ("test.ping" | "state.graph" | "service.status" | "service.available" | "service.get_all", _)
            | (_, Some("facts" | "grains" | "settings" | "pillar" | "sys" | "schedule" | "beacons")) => {
                Lane::ReadOnly
            }
            _ if function.starts_with("state.show_") => Lane::ReadOnly,
            _ => Lane::Mutating,
        }
    }
}

/// An execution has its place from the moment it came, and may start once it is ready: written to disk.
#[derive(Clone, Debug)]
pub struct Queue<K> {
    running: Option<K>,
    waiting: VecDeque<(K, bool)>,
    /// Read-only executions, and whether each has started.
    beside: BTreeMap<K, bool>,
    ready_beside: VecDeque<K>,
}

impl<K: Clone + Ord> Default for Queue<K> {
    fn default() -> Queue<K> {
        Queue {
            running: None,
            waiting: VecDeque::new(),
            beside: BTreeMap::new(),
            ready_beside: VecDeque::new(),
        }
    }
}

impl<K: Clone + Ord> Queue<K> {
    /// Takes a place, and says how many stand before it; `None` when the lane is full.
    pub fn place(&mut self, key: K, lane: Lane) -> Option<usize> {
        match lane {
            Lane::ReadOnly if self.beside.len() >= BESIDE_MAX => None,
            Lane::ReadOnly => {
                self.beside.insert(key, false);
                Some(0)
            }
            Lane::Mutating if self.waiting.len() >= QUEUE_MAX + usize::from(self.running.is_none()) => None,
            Lane::Mutating => {
                let ahead = self.waiting.len() + usize::from(self.running.is_some());
                self.waiting.push_back((key, false));
                Some(ahead)
            }
        }
    }

    pub fn ready(&mut self, key: &K) {
        if let Some((_, ready)) = self.waiting.iter_mut().find(|(waiting, _)| waiting == key) {
            *ready = true;
        } else if self.beside.get(key) == Some(&false) {
            self.ready_beside.push_back(key.clone());
        }
    }

    /// The next that may start now, if there is one. It counts as running from here on.
    pub fn start_next(&mut self) -> Option<K> {
        while let Some(key) = self.ready_beside.pop_front() {
            if let Some(started) = self.beside.get_mut(&key) {
                *started = true;
                return Some(key);
            }
        }
        if self.running.is_some() || !self.waiting.front().is_some_and(|(_, ready)| *ready) {
            return None;
        }
        let (key, _) = self.waiting.pop_front()?;
        self.running = Some(key.clone());
        Some(key)
    }

    /// Gives a place up: it ended, or will never start.
    pub fn leave(&mut self, key: &K) {
        if self.running.as_ref() == Some(key) {
            self.running = None;
        }
        self.waiting.retain(|(waiting, _)| waiting != key);
        self.beside.remove(key);
    }

    /// Executions that run or wait.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.beside.len() + usize::from(self.running.is_some())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn ready(queue: &mut Queue<u32>, key: u32, lane: Lane) -> Option<usize> {
        let ahead = queue.place(key, lane)?;
        queue.ready(&key);
        Some(ahead)
    }

    #[test]
    #[rule("J-15")]
    fn j15_mutating_ones_run_one_at_a_time_in_arrival_order() {
        let mut queue = Queue::default();
        assert_eq!(ready(&mut queue, 1, Lane::Mutating), Some(0));
        assert_eq!(queue.start_next(), Some(1));
        assert_eq!(ready(&mut queue, 2, Lane::Mutating), Some(1));
        assert_eq!(ready(&mut queue, 3, Lane::Mutating), Some(2));
        assert_eq!(queue.start_next(), None);
        queue.leave(&1);
        assert_eq!((queue.start_next(), queue.start_next()), (Some(2), None));
        queue.leave(&2);
        assert_eq!(queue.start_next(), Some(3));
    }

    #[test]
    #[rule("J-15")]
    fn j15_a_place_is_kept_while_its_holder_is_being_written() {
        let mut queue = Queue::default();
        queue.place(1, Lane::Mutating);
        ready(&mut queue, 2, Lane::Mutating);
        assert_eq!(queue.start_next(), None);
        queue.ready(&1);
        assert_eq!(queue.start_next(), Some(1));
    }

    #[test]
    #[rule("J-15")]
    fn j15_sixty_four_wait_and_the_next_is_told_so() {
        let mut queue = Queue::default();
        ready(&mut queue, 0, Lane::Mutating);
        assert_eq!(queue.start_next(), Some(0));
        for key in 1..=64 {
            assert!(ready(&mut queue, key, Lane::Mutating).is_some(), "{key}");
        }
        assert_eq!(ready(&mut queue, 65, Lane::Mutating), None);
        assert_eq!(ready(&mut queue, 66, Lane::ReadOnly), Some(0));
        queue.leave(&30);
        assert_eq!(ready(&mut queue, 65, Lane::Mutating), Some(64));
    }

    #[test]
    #[rule("J-15")]
    fn j15_read_only_ones_run_beside() {
        let mut queue = Queue::default();
        ready(&mut queue, 1, Lane::Mutating);
        assert_eq!(queue.start_next(), Some(1));
        ready(&mut queue, 2, Lane::ReadOnly);
        assert_eq!(queue.start_next(), Some(2));
        queue.leave(&2);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    #[rule("J-15")]
    fn j15_which_functions_are_read_only() {
        for function in [
            "test.ping",
            "facts.get",
            "settings.items",
            "sys.doc",
            "schedule.list",
            "state.show_top",
            "state.show_sls",
            "state.show_highstate",
            "state.graph",
        ] {
            assert_eq!(Lane::of(function), Lane::ReadOnly, "{function}");
        }
        for function in
            ["test.succeed", "state.apply", "state.single", "cmd.run", "factsx.get", "facts", "", "a.facts"]
        {
            assert_eq!(Lane::of(function), Lane::Mutating, "{function}");
        }
    }
}
