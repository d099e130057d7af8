//! Where everything stands: pure geometry, no text and no colour.

use super::Picture;
use super::crossings;
use super::layers::{Layers, Way};
use super::straighten::{self, BOX_HEIGHT};
use std::collections::BTreeMap;
use zester_model::requisite::EdgeKind;

/// Between a level's band and the boxes in it.
const BAND_PADDING: f64 = 14.0;
/// The heading of a level.
const BAND_HEADING: f64 = 34.0;
/// From one box to the next sideways, without any edges between them.
const COLUMN_GAP: f64 = 22.0;
/// The least room in which a curve is still smooth.
const CURVE_GAP: f64 = 76.0;
/// Each further segment in a gap widens it by this, until it is wide enough for any number.
const GAP_FOR_EACH: f64 = 2.5;
const GAP_MAX: f64 = 220.0;
/// Lanes are reused from the first when there are more edges than this.
const LANES_MAX: usize = 24;
const LANE_HEIGHT: f64 = 7.0;
/// Room for the arrowhead between the end of a route and its box.
pub const ARROW: f64 = 7.0;
/// Edges of different kinds reach a box this far apart.
const PORT_DISTANCE: f64 = 8.0;

#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Rectangle {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// A level and what it covers.
#[derive(Clone, Debug)]
pub struct Band {
    pub level: usize,
    pub states: usize,
    pub area: Rectangle,
}

#[derive(Clone, Debug)]
pub struct Layout {
    pub width: f64,
    pub height: f64,
    pub bands: Vec<Band>,
    /// By the index of the state.
    pub boxes: Vec<Rectangle>,
    /// By the index of the edge: points to join by a curve, a straight line, a curve and so on, all of them leaving
    /// and arriving level. Curves lie between columns and straight lines within, so no route meets a box on its way.
    pub routes: Vec<Option<Vec<Point>>>,
    /// False if the graph is too large for it.
    pub crossings_reduced: bool,
}

impl Layout {
    /// `widths` are those of the boxes, by the index of the state.
    pub fn of(picture: &Picture, widths: &[f64]) -> Layout {
        let mut layers = Layers::of(picture);
        let crossings_reduced = crossings::reduce(&mut layers);
        let columns = Columns::of(&layers, widths);
        let middles: Vec<f64> = straighten::middles(&layers)
            .into_iter()
            .map(|middle| middle + BAND_HEADING + BAND_PADDING / 2.0)
            .collect();
        let boxes: Vec<Rectangle> = (0..layers.boxes)
            .map(|state| {
                let (x, width) = columns.spans[layers.slots[state].column];
                Rectangle { x, y: middles[state] - BOX_HEIGHT / 2.0, width, height: BOX_HEIGHT }
            })
            .collect();
        let lowest =
            boxes.iter().map(|area| area.y + area.height).chain(middles.iter().copied()).fold(0.0, f64::max);
        let floor = lowest + BAND_PADDING;
        let routes = routes(picture, &layers, &columns, &middles, floor);
        let bands = layers
            .levels
            .iter()
            .map(|level| {
                let (first, _) = columns.spans[level.first_column];
                let (last, width) = columns.spans[level.last_column];
                let area = Rectangle {
                    x: first - BAND_PADDING,
                    y: 0.0,
                    width: last + width - first + 2.0 * BAND_PADDING,
                    height: floor,
                };
                Band { level: level.number, states: level.states, area }
            })
            .collect();
        let height = floor + layers.lanes.min(LANES_MAX) as f64 * LANE_HEIGHT;
        Layout { width: columns.width, height, bands, boxes, routes, crossings_reduced }
    }
}

/// Left edge and width of every column.
struct Columns {
    spans: Vec<(f64, f64)>,
    width: f64,
}

impl Columns {
    fn of(layers: &Layers, widths: &[f64]) -> Columns {
        let mut x = BAND_PADDING;
        let mut spans = Vec::with_capacity(layers.columns.len());
        let mut level_of = vec![0; layers.columns.len()];
        for (at, level) in layers.levels.iter().enumerate() {
            level_of[level.first_column..=level.last_column].fill(at);
        }
        for (at, column) in layers.columns.iter().enumerate() {
            let width = column.iter().filter_map(|slot| widths.get(*slot)).copied().fold(0.0, f64::max);
            spans.push((x, width));
            x += width;
            if level_of.get(at + 1).is_some() {
                let segments = column.iter().map(|slot| layers.slots[*slot].after.len()).sum::<usize>();
                let bands = if level_of[at] == level_of[at + 1] { 0.0 } else { 2.0 * BAND_PADDING };
                x += match segments {
                    0 => COLUMN_GAP + bands,
                    many => (CURVE_GAP + many as f64 * GAP_FOR_EACH).min(GAP_MAX),
                };
            }
        }
        Columns { spans, width: x + BAND_PADDING }
    }

    fn left(&self, column: usize) -> f64 {
        self.spans[column].0
    }

    fn right(&self, column: usize) -> f64 {
        let (x, width) = self.spans[column];
        x + width
    }
}

fn routes(
    picture: &Picture,
    layers: &Layers,
    columns: &Columns,
    middles: &[f64],
    floor: f64,
) -> Vec<Option<Vec<Point>>> {
    let lane = |number: usize| floor + ((number % LANES_MAX) as f64 + 0.5) * LANE_HEIGHT;
    // Heights that the route meets first and last on its way, by which its ports are sorted.
    let ends = |edge: usize| match &layers.ways[edge] {
        Way::Nowhere => None,
        Way::Below(number) => Some((lane(*number), lane(*number))),
        Way::Through(bends) => {
            let first = bends.first().copied().unwrap_or(picture.edges[edge].to);
            let last = bends.last().copied().unwrap_or(picture.edges[edge].from);
            Some((middles[first], middles[last]))
        }
    };
    let (mut leaving, mut arriving) = (Ports::default(), Ports::default());
    for (index, edge) in picture.edges.iter().enumerate() {
        if let Some((first, last)) = ends(index) {
            leaving.meet(edge.from, edge.kind, first);
            arriving.meet(edge.to, edge.kind, last);
        }
    }
    let (leaving, arriving) = (leaving.offsets(), arriving.offsets());
    let offset = |ports: &Offsets, state: usize, kind| ports.get(&(state, kind)).copied().unwrap_or(0.0);
    let route = |(index, way): (usize, &Way)| {
        let edge = &picture.edges[index];
        if *way == Way::Nowhere {
            return None;
        }
        let (from, to) = (layers.slots[edge.from].column, layers.slots[edge.to].column);
        let start = middles[edge.from] + offset(&leaving, edge.from, edge.kind);
        let end = middles[edge.to] + offset(&arriving, edge.to, edge.kind);
        let mut points = vec![Point { x: columns.right(from), y: start }];
        match way {
            Way::Below(number) => {
                let y = lane(*number);
                points.push(Point { x: columns.left(from + 1), y });
                points.push(Point { x: columns.right(to - 1), y });
            }
            Way::Through(bends) => {
                for bend in bends {
                    let column = layers.slots[*bend].column;
                    points.push(Point { x: columns.left(column), y: middles[*bend] });
                    points.push(Point { x: columns.right(column), y: middles[*bend] });
                }
            }
            Way::Nowhere => {}
        }
        points.push(Point { x: columns.left(to) - ARROW, y: end });
        Some(points)
    };
    layers.ways.iter().enumerate().map(route).collect()
}

type Offsets = BTreeMap<(usize, EdgeKind), f64>;

/// Where edges leave or reach the side of a box: one place a kind, so that arrowheads of different colours stay apart.
#[derive(Default)]
struct Ports {
    met: BTreeMap<(usize, EdgeKind), (f64, usize)>,
}

impl Ports {
    fn meet(&mut self, state: usize, kind: EdgeKind, height: f64) {
        let (sum, count) = self.met.entry((state, kind)).or_default();
        *sum += height;
        *count += 1;
    }

    /// From the middle of the box, in the order of the heights that the edges come from.
    fn offsets(self) -> Offsets {
        let mut sorted: Vec<(usize, f64, EdgeKind)> = self
            .met
            .into_iter()
            .map(|((state, kind), (sum, count))| (state, sum / count as f64, kind))
            .collect();
        sorted.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let mut offsets = Offsets::new();
        for ports in sorted.chunk_by(|one, other| one.0 == other.0) {
            let between = ports.len().saturating_sub(1).max(1) as f64;
            let distance = PORT_DISTANCE.min((BOX_HEIGHT - 2.0 * PORT_DISTANCE) / between);
            let middle = ports.len().saturating_sub(1) as f64 / 2.0;
            for (at, (state, _, kind)) in ports.iter().enumerate() {
                offsets.insert((*state, *kind), (at as f64 - middle) * distance);
            }
        }
        offsets
    }
}

#[cfg(test)]
mod tests {
    use super::super::PictureEdge;
    use super::super::samples::{chain, picture, tangle};
    use super::*;
    use std::time::{Duration, Instant};

    fn laid_out(picture: &Picture) -> Layout {
        Layout::of(picture, &vec![150.0; picture.nodes.len()])
    }

    fn overlap(one: &Rectangle, other: &Rectangle) -> bool {
        one.x < other.x + other.width
            && other.x < one.x + one.width
            && one.y < other.y + other.height
            && other.y < one.y + one.height
    }

    /// Points along the curves and lines of a route, close enough together that no box fits between.
    fn walked(route: &[Point]) -> Vec<Point> {
        const STEPS: usize = 24;
        let mut points = Vec::new();
        for (at, pair) in route.windows(2).enumerate() {
            let (start, end) = (pair[0], pair[1]);
            for step in 0..=STEPS {
                let t = step as f64 / STEPS as f64;
                // The same cubic that the drawing writes: level at both ends.
                let (x, y) = if at % 2 == 0 {
                    let bow = (end.x - start.x) / 2.0;
                    let (a, b, c, d) =
                        ((1.0 - t).powi(3), 3.0 * t * (1.0 - t).powi(2), 3.0 * t * t * (1.0 - t), t.powi(3));
                    let x = a * start.x + b * (start.x + bow) + c * (end.x - bow) + d * end.x;
                    (x, (a + b) * start.y + (c + d) * end.y)
                } else {
                    (start.x + t * (end.x - start.x), start.y + t * (end.y - start.y))
                };
                points.push(Point { x, y });
            }
        }
        points
    }

    fn check(picture: &Picture) {
        let layout = laid_out(picture);
        for (at, one) in layout.boxes.iter().enumerate() {
            assert!(one.x >= 0.0 && one.y >= BAND_HEADING && one.x + one.width <= layout.width);
            assert!(one.y + one.height <= layout.height);
            for (before, other) in layout.boxes[..at].iter().enumerate() {
                assert!(!overlap(one, other), "state {at} lies on state {before}");
            }
        }
        for (index, edge) in picture.edges.iter().enumerate() {
            let route = layout.routes[index].as_ref().unwrap();
            for point in walked(route) {
                assert!(point.y <= layout.height && point.x <= layout.width);
                for (state, area) in layout.boxes.iter().enumerate() {
                    let inside = point.x > area.x + 0.01
                        && point.x < area.x + area.width - 0.01
                        && point.y > area.y
                        && point.y < area.y + area.height;
                    assert!(!inside, "edge {index} ({} to {}) runs through {state}", edge.from, edge.to);
                }
            }
        }
    }

    #[test]
    fn no_box_lies_on_another_and_no_edge_runs_through_one() {
        check(&picture(&[], &[]));
        check(&picture(&[0], &[]));
        check(&chain(6));
        check(&picture(&[0, 1, 2, 3], &[(0, 1), (1, 2), (2, 3), (0, 2), (0, 3), (1, 3)]));
        check(&tangle(60, 5, 2));
        check(&tangle(120, 30, 2));
    }

    #[test]
    fn wide_levels_and_very_long_edges_avoid_boxes_as_well() {
        check(&tangle(150, 3, 1));
        let mut long = chain(60);
        long.edges.extend([0, 5, 9].map(|from| PictureEdge { from, to: 58, kind: EdgeKind::Watch }));
        check(&long);
    }

    #[test]
    fn columns_are_levels_from_left_to_right() {
        let layout = laid_out(&picture(&[0, 0, 3, 7], &[(0, 2), (2, 3)]));
        let levels: Vec<(usize, usize)> = layout.bands.iter().map(|band| (band.level, band.states)).collect();
        assert_eq!(levels, [(0, 2), (3, 1), (7, 1)]);
        assert!(layout.bands.windows(2).all(|pair| pair[0].area.x + pair[0].area.width < pair[1].area.x));
        assert_eq!(layout.boxes[0].x, layout.boxes[1].x);
    }

    #[test]
    fn kinds_reach_a_box_at_places_of_their_own() {
        let mut sample = picture(&[0, 1], &[(0, 1)]);
        sample.edges.push(PictureEdge { from: 0, to: 1, kind: EdgeKind::Watch });
        let layout = laid_out(&sample);
        let end = |edge: usize| *layout.routes[edge].as_ref().unwrap().last().unwrap();
        assert_eq!((end(0).y - end(1).y).abs(), PORT_DISTANCE);
    }

    #[test]
    fn ten_thousand_states_are_laid_out_quickly_whatever_their_shape() {
        let mut everything_on_the_first = chain(10_000);
        everything_on_the_first.edges.extend((2..10_000).map(|to| PictureEdge {
            from: 0,
            to,
            kind: EdgeKind::Watch,
        }));
        let shapes = [
            picture(&[0; 10_000], &[]),
            everything_on_the_first,
            tangle(10_000, 40, 2),
            tangle(10_000, 5, 3),
        ];
        for shape in shapes {
            let started = Instant::now();
            let layout = laid_out(&shape);
            assert_eq!(layout.boxes.len(), 10_000);
            let points: usize = layout.routes.iter().flatten().map(Vec::len).sum();
            assert!(points < 200_000, "{points} points");
            // Half a second without optimisation; the rest is for busy machines.
            assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        }
        assert!(!laid_out(&tangle(10_000, 5, 3)).crossings_reduced);
    }
}
