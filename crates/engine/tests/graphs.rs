//! Levels, their order, cycles, and the cost of it all.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may"
)]

use std::time::Duration;
use zester_engine::{BuildError, Command, Cycle, Event, Graph, NodeId, NodeSpec, Run};
use zester_model::name::StateName;
use zester_model::outcome::Mode;
use zester_model::program::Retry;
use zester_model::requisite::EdgeKind;
use zester_rule::rule;

fn nodes(names: &[&str], edges: &[(usize, usize)]) -> Vec<NodeSpec> {
    let mut specs: Vec<NodeSpec> =
        names.iter().map(|name| NodeSpec::new(StateName::new("test.nop", name))).collect();
    for (node, target) in edges {
        specs[*node].edges.push((*target, EdgeKind::Require));
    }
    specs
}

fn cycle(count: usize, edges: &[(usize, usize)]) -> Cycle {
    let names: Vec<String> = (0..count).map(|node| format!("s{node:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match Graph::build(nodes(&names, edges)) {
        Err(BuildError::Cycle(cycle)) => cycle,
        other => panic!("no cycle: {other:?}"),
    }
}

fn levels(graph: &Graph) -> Vec<Vec<String>> {
    let id = |node: &NodeId| graph.name(*node).id().to_string();
    graph.levels().map(|level| level.iter().map(id).collect()).collect()
}

#[test]
#[rule("S-21")]
fn s21_a_level_holds_what_waits_longest_chain_deep() {
    let graph = Graph::build(nodes(
        &["install_python", "create_venv", "install_app_deps", "deploy_config", "start_app", "alone"],
        &[(1, 0), (2, 1), (3, 1), (4, 2), (4, 3), (4, 0)],
    ))
    .unwrap();
    assert_eq!(
        levels(&graph),
        [
            vec!["alone", "install_python"],
            vec!["create_venv"],
            vec!["deploy_config", "install_app_deps"],
            vec!["start_app"]
        ]
    );
    assert_eq!(graph.level_of(NodeId(4)), 3);
}

#[test]
#[rule("S-22")]
fn s22_inside_a_level_by_order_then_by_full_name() {
    let mut specs = nodes(&["b", "a", "z", "m", "k", "late"], &[(5, 1)]);
    for (node, order) in [(2, -1_000_000), (3, 1_000_000), (4, -5), (5, -1_000_000)] {
        specs[node].order = order;
    }
    let graph = Graph::build(specs).unwrap();
    assert_eq!(levels(&graph), [vec!["z", "k", "a", "b", "m"], vec!["late"]]);
}

#[test]
#[rule("S-21")]
fn s21_no_states_make_no_levels() {
    let graph = Graph::build(Vec::new()).unwrap();
    assert_eq!((graph.len(), graph.level_count()), (0, 0));
}

#[test]
#[rule("S-25")]
fn s25_a_cycle_is_counted_and_one_is_shown() {
    let found = cycle(3, &[(1, 2), (2, 1)]);
    assert_eq!((found.resolved, found.total, found.path.as_slice()), (1, 3, &[1, 2, 1][..]));
    assert_eq!(found.to_string(), "dag: cycle detected, resolved 1 of 3 states");
}

#[test]
#[rule("S-25")]
fn s25_a_state_that_waits_for_itself_is_a_cycle() {
    assert_eq!(cycle(2, &[(1, 1)]).path, [1, 1]);
}

#[test]
#[rule("S-25")]
fn s25_what_only_waits_for_a_cycle_is_not_shown_in_it() {
    // 0 waits for 1, which waits for the cycle 2 -> 3 -> 4 -> 2.
    assert_eq!(cycle(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 2)]).path, [2, 3, 4, 2]);
}

#[test]
#[rule("S-25")]
fn s25_the_short_way_round_is_shown() {
    // A ring of 50 with a chord: 10 -> 11 -> 10.
    let mut edges: Vec<(usize, usize)> = (0..50).map(|node| (node, (node + 1) % 50)).collect();
    edges.push((11, 10));
    assert_eq!(cycle(50, &edges).path, [10, 11, 10]);
}

#[test]
#[rule("S-25")]
fn s25_an_edge_named_twice_is_no_cycle() {
    let graph = Graph::build(nodes(&["a", "b"], &[(1, 0), (1, 0)])).unwrap();
    assert_eq!(levels(&graph), [["a"], ["b"]]);
}

#[test]
fn a_target_that_does_not_exist_is_refused() {
    let refused = Graph::build(nodes(&["a"], &[(0, 7)])).unwrap_err();
    assert_eq!(refused, BuildError::UnknownTarget { node: 0, target: 7 });
    let mut specs = nodes(&["a"], &[]);
    specs[0].prereq = vec![1];
    assert_eq!(Graph::build(specs).unwrap_err(), BuildError::UnknownTarget { node: 0, target: 1 });
}

/// 100,000 states, each waiting for up to three before it.
fn large(count: usize) -> Vec<NodeSpec> {
    let mut specs = Vec::with_capacity(count);
    for node in 0..count {
        let mut spec = NodeSpec::new(StateName::new("test.nop", &format!("state_{node:06}")));
        spec.edges = [1, 7, 1000]
            .into_iter()
            .filter_map(|back| node.checked_sub(back * 20).map(|target| (target, EdgeKind::Require)))
            .collect();
        spec.retry = Some(Retry { attempts: 1, interval: Duration::ZERO });
        specs.push(spec);
    }
    specs
}

#[test]
#[rule("S-26")]
fn s26_resolving_looks_at_each_state_and_each_edge_once() {
    for count in [1_000, 100_000] {
        let specs = large(count);
        let edges: usize = specs.iter().map(|spec| spec.edges.len()).sum();
        let graph = Graph::build(specs).unwrap();
        assert_eq!(graph.steps(), count + edges);
    }
}

#[test]
#[rule("S-26")]
fn s26_a_large_cycle_is_found_without_searching_from_everywhere() {
    let mut specs = large(100_000);
    specs[0].edges.push((99_980, EdgeKind::Require));
    let Err(BuildError::Cycle(cycle)) = Graph::build(specs) else { panic!("no cycle") };
    assert_eq!(cycle.path.first(), cycle.path.last());
    assert!(cycle.path.len() < 160, "{} long", cycle.path.len());
}

#[test]
#[rule("S-26")]
fn s26_a_run_of_100_000_states_asks_each_once() {
    let graph = std::sync::Arc::new(Graph::build(large(100_000)).unwrap());
    let mut run = Run::new(graph, Mode::Check, 4096);
    let mut events = vec![Event::Start];
    let mut checked = 0;
    while let Some(event) = events.pop() {
        for command in run.step(event).unwrap() {
            if let Command::Check { node, .. } = command {
                checked += 1;
                events.push(Event::Checked { node, result: Ok(false) });
            }
        }
    }
    assert!(run.is_finished());
    assert_eq!(checked, 100_000);
}

#[test]
#[rule("S-58")]
fn s58_an_auto_edge_sequences_and_gives_way_where_it_would_close_a_cycle() {
    let auto = |edges: &[(usize, usize)], wishes: &[(usize, usize)]| {
        let mut specs = nodes(&["a", "b", "c", "d"], edges);
        wishes.iter().for_each(|(node, target)| specs[*node].edges.push((*target, EdgeKind::Auto)));
        Graph::build(specs)
    };
    // Nothing in its way: it sequences.
    assert_eq!(levels(&auto(&[], &[(0, 1)]).unwrap()), [vec!["b", "c", "d"], vec!["a"]]);
    // The user said the opposite, over a third: the wish is dropped, and only that one.
    let graph = auto(&[(1, 2), (2, 0)], &[(0, 1), (3, 1)]).unwrap();
    assert_eq!(levels(&graph), [vec!["a"], vec!["c"], vec!["b"], vec!["d"]]);
    assert!(graph.needs(NodeId(0)).is_empty());
    // Wishes against each other: the first stays, every time.
    let graph = auto(&[], &[(0, 1), (1, 0), (2, 1), (1, 3)]).unwrap();
    assert_eq!(levels(&graph), [vec!["d"], vec!["b"], vec!["a", "c"]]);
    // A cycle of the user's own is shown without them.
    let Err(BuildError::Cycle(cycle)) = auto(&[(0, 1), (1, 0)], &[(2, 0), (0, 3)]) else {
        panic!("no cycle")
    };
    assert_eq!(cycle.path, [0, 1, 0]);
}

#[test]
#[rule("S-58")]
fn s58_what_lies_before_or_behind_a_cycle_never_gives_way() {
    // /srv, and 5,000 directories in it with a file each. The user said that /srv waits for the first of the files; the
    // same again below the last of them, so that all the others lie between two cycles as well.
    const PAIRS: usize = 5_000;
    let names: Vec<String> = (0..=2 * PAIRS + 2).map(|node| format!("s{node:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (end, twin) = (2 * PAIRS + 1, 2 * PAIRS + 2);
    let mut specs = nodes(&names, &[(0, 2), (end, twin)]);
    for pair in 0..PAIRS {
        let (directory, file) = (2 * pair + 1, 2 * pair + 2);
        specs[directory].edges.push((0, EdgeKind::Auto));
        specs[file].edges.push((directory, EdgeKind::Auto));
        specs[end].edges.push((file, EdgeKind::Auto));
    }
    specs[twin].edges.push((end, EdgeKind::Auto));
    let graph = Graph::build(specs).unwrap();
    let waits_for = |node: usize| -> Vec<u32> {
        graph.needs(NodeId(node as u32)).iter().map(|edge| edge.node.0).collect()
    };
    for pair in 1..PAIRS {
        let (directory, file) = (2 * pair + 1, 2 * pair + 2);
        assert_eq!(waits_for(directory), [0], "directory {pair}");
        assert_eq!(waits_for(file), [directory as u32], "file {pair}");
    }
    assert_eq!(graph.needs(NodeId(end as u32)).len(), 1 + PAIRS);
    // One wish of each cycle went.
    assert_eq!(waits_for(1), [0]);
    assert_eq!((waits_for(2), waits_for(twin)), (vec![], vec![]));
}
