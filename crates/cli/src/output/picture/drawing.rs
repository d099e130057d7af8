//! The graph as a drawing: levels as columns, edges by requisite kind, states coloured by their fate.

use super::census::{self, Census, counted};
use super::escape::xml;
use super::label::Label;
use super::layout::{ARROW, Band, Layout, Point, Rectangle};
use super::palette::{self, outcome_sign, outcome_word};
use super::{Picture, PictureNode, StateOutcome};
use std::fmt::Write;

/// Around everything.
const MARGIN: f64 = 20.0;
/// Of the monospaced id, rather too wide than too narrow.
const ID_LETTER_WIDTH: f64 = 7.4;
/// Of the smaller, proportional kind.
const KIND_LETTER_WIDTH: f64 = 6.0;
/// Of the sign of a fate, beside the kind.
const SIGN_WIDTH: f64 = 18.0;
const BOX_PADDING: f64 = 13.0;
const BOX_WIDTH_MIN: f64 = 112.0;
const HEADING_WIDTH_MIN: f64 = 460.0;
const LEGEND_ROW: f64 = 22.0;
/// Of the proportional letters in legends.
const LEGEND_LETTER_WIDTH: f64 = 6.8;
/// Of the box or the line that a legend explains, with the gap after it.
const LEGEND_BOX: f64 = 33.0;
const LEGEND_LINE: f64 = 40.0;

/// Said where the order inside levels is the order of the run, so that nobody takes a tangle for a bug.
pub const CROSSINGS_NOTE: &str = "large graph: edges were not untangled";

/// A drawing on its own, with a heading and legends.
pub fn svg(picture: &Picture) -> String {
    let census = Census::of(picture);
    if picture.nodes.is_empty() {
        return nothing(picture, &census);
    }
    let labels: Vec<Label> = picture.nodes.iter().map(|node| Label::of(&node.name)).collect();
    let layout = Layout::of(picture, &widths(&labels));
    let (heading, top) = heading(picture, &census, &layout);
    let (width, height) = (layout.width.max(HEADING_WIDTH_MIN) + 2.0 * MARGIN, top + layout.height + MARGIN);
    let mut out = String::new();
    open(&mut out, picture, &census, (width, height));
    let _ = writeln!(out, "<rect class=\"ground\" width=\"{width:.0}\" height=\"{height:.0}\"/>");
    out.push_str(&heading);
    let _ = writeln!(out, "<g transform=\"translate({MARGIN} {top})\">");
    draw_body(&mut out, picture, &labels, &layout);
    out.push_str("</g>\n</svg>\n");
    out
}

/// The drawing without heading and legends, for a page that has its own; and where everything stands in it.
pub fn bare(picture: &Picture) -> (String, Layout) {
    let census = Census::of(picture);
    let labels: Vec<Label> = picture.nodes.iter().map(|node| Label::of(&node.name)).collect();
    let layout = Layout::of(picture, &widths(&labels));
    if picture.nodes.is_empty() {
        return (nothing(picture, &census), layout);
    }
    let mut out = String::new();
    open(&mut out, picture, &census, (layout.width, layout.height));
    draw_body(&mut out, picture, &labels, &layout);
    out.push_str("</svg>\n");
    (out, layout)
}

fn widths(labels: &[Label]) -> Vec<f64> {
    let width = |label: &Label| {
        let id = label.id_width() as f64 * ID_LETTER_WIDTH;
        let kind = label.kind_width() as f64 * KIND_LETTER_WIDTH + SIGN_WIDTH;
        (id.max(kind) + 2.0 * BOX_PADDING).max(BOX_WIDTH_MIN)
    };
    labels.iter().map(width).collect()
}

fn open(out: &mut String, picture: &Picture, census: &Census, (width, height): (f64, f64)) {
    let (title, sentence) = (xml(&picture.title), census.sentence());
    let fates: Vec<StateOutcome> = census.fates.iter().map(|(outcome, _)| *outcome).collect();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"zester\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{title}: {sentence}\">\n\
         <title>{title}: {sentence}</title>\n<style>\n{}</style>\n",
        palette::style(&census.kinds, &fates)
    );
    if census.kinds.is_empty() {
        return;
    }
    out.push_str("<defs>\n");
    for kind in &census.kinds {
        let _ = writeln!(
            out,
            "<marker id=\"tip-{kind}\" markerUnits=\"userSpaceOnUse\" markerWidth=\"{ARROW}\" markerHeight=\"8\" \
             refX=\"0.5\" refY=\"4\" orient=\"auto\"><path class=\"tip-{kind}\" d=\"M0 0.5L{ARROW} 4L0 7.5Z\"/></marker>"
        );
    }
    out.push_str("</defs>\n");
}

fn draw_body(out: &mut String, picture: &Picture, labels: &[Label], layout: &Layout) {
    out.push_str("<g class=\"levels\">\n");
    for band in &layout.bands {
        level(out, band);
    }
    out.push_str("</g>\n<g class=\"edges\">\n");
    for (edge, route) in picture.edges.iter().zip(&layout.routes) {
        if let (Some(route), Some(from), Some(to)) =
            (route, picture.nodes.get(edge.from), picture.nodes.get(edge.to))
        {
            let (kind, from, to) = (edge.kind, xml(&from.name), xml(&to.name));
            let _ = writeln!(
                out,
                "<path class=\"edge k-{kind}\" marker-end=\"url(#tip-{kind})\" d=\"{}\"><title>{to} {kind} {from}</title></path>",
                path(route)
            );
        }
    }
    out.push_str("</g>\n<g class=\"states\">\n");
    for ((node, label), area) in picture.nodes.iter().zip(labels).zip(&layout.boxes) {
        state(out, node, label, area);
    }
    out.push_str("</g>\n");
}

fn level(out: &mut String, band: &Band) {
    let Rectangle { x, y, width, height } = band.area;
    let _ = writeln!(
        out,
        "<rect class=\"band\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"10\"/>\
         <text class=\"level\" x=\"{:.1}\" y=\"22\">level {}</text>\
         <text class=\"kind\" x=\"{:.1}\" y=\"22\" text-anchor=\"end\">{}</text>",
        x + 14.0,
        band.level,
        x + width - 14.0,
        counted(band.states, "state")
    );
}

/// Curves between columns, straight lines within; equal heights need neither.
fn path(route: &[Point]) -> String {
    let mut out = String::new();
    let mut before: Option<Point> = None;
    for (at, point) in route.iter().enumerate() {
        let Point { x, y } = *point;
        let _ = match before {
            None => write!(out, "M{x:.1} {y:.1}"),
            Some(start) if at % 2 == 1 && (start.y - y).abs() >= 0.05 => {
                let bow = (x - start.x) / 2.0;
                write!(out, "C{:.1} {:.1} {:.1} {y:.1} {x:.1} {y:.1}", start.x + bow, start.y, x - bow)
            }
            Some(_) => write!(out, "H{x:.1}"),
        };
        before = Some(*point);
    }
    out
}

fn state(out: &mut String, node: &PictureNode, label: &Label, area: &Rectangle) {
    let Rectangle { x, y, width, height } = *area;
    let outcome = outcome_word(node.outcome);
    let mut about = xml(&node.name);
    if !node.place.is_empty() {
        let _ = write!(about, "  {}", xml(&node.place));
    }
    if node.outcome != StateOutcome::Unknown {
        let _ = write!(about, "  {outcome}");
    }
    let _ = write!(
        out,
        "<g class=\"state f-{outcome}\" transform=\"translate({x:.1} {y:.1})\"><title>{about}</title>\
         <rect width=\"{width:.1}\" height=\"{height:.1}\" rx=\"8\"/>"
    );
    if label.kind.is_empty() {
        let _ = write!(out, "<text class=\"id\" x=\"12\" y=\"25\">{}</text>", xml(&label.id));
    } else {
        let _ = write!(
            out,
            "<text class=\"kind\" x=\"12\" y=\"16\">{}</text><text class=\"id\" x=\"12\" y=\"32\">{}</text>",
            xml(&label.kind),
            xml(&label.id)
        );
    }
    if node.outcome != StateOutcome::Unknown {
        let sign = outcome_sign(node.outcome);
        let _ =
            write!(out, "<path class=\"sign\" transform=\"translate({:.1} 7)\" d=\"{sign}\"/>", width - 20.0);
    }
    out.push_str("</g>\n");
}

/// Title, counts and legends, and how high they are.
fn heading(picture: &Picture, census: &Census, layout: &Layout) -> (String, f64) {
    let mut out = String::new();
    let mut sentence = census.sentence();
    if !layout.crossings_reduced {
        let _ = write!(sentence, "; {CROSSINGS_NOTE}");
    }
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"{MARGIN}\" y=\"38\">{}</text><text class=\"small\" x=\"{MARGIN}\" y=\"60\">{sentence}</text>",
        xml(&picture.title)
    );
    let mut keys: Vec<(f64, String, String)> = Vec::new();
    if census.has_run() {
        for (outcome, count) in &census.fates {
            let sign = outcome_sign(*outcome);
            let word = outcome_word(*outcome);
            let key = format!(
                "<g class=\"state f-{word}\"><rect width=\"26\" height=\"16\" y=\"-12\" rx=\"5\"/>\
                 <path class=\"sign\" transform=\"translate(8 -9)\" d=\"{sign}\"/></g>"
            );
            keys.push((LEGEND_BOX, key, format!("{count} {}", census::outcome_name(*outcome))));
        }
    }
    for kind in &census.kinds {
        let key = format!("<path class=\"edge k-{kind}\" marker-end=\"url(#tip-{kind})\" d=\"M0 -4H26\"/>");
        keys.push((LEGEND_LINE, key, kind.to_string()));
    }
    let (mut x, mut y) = (MARGIN, 86.0);
    for (key_width, key, text) in keys {
        let width = key_width + text.chars().count() as f64 * LEGEND_LETTER_WIDTH + 16.0;
        if x > MARGIN && x + width > layout.width.max(HEADING_WIDTH_MIN) + MARGIN {
            (x, y) = (MARGIN, y + LEGEND_ROW);
        }
        let _ = writeln!(
            out,
            "<g class=\"legend\" transform=\"translate({x:.1} {y:.1})\">{key}<text class=\"small\" x=\"{key_width}\">{text}</text></g>"
        );
        x += width;
    }
    (out, y + LEGEND_ROW)
}

/// A graph without states is no mistake and should not look like one.
fn nothing(picture: &Picture, census: &Census) -> String {
    let mut out = String::new();
    open(&mut out, picture, census, (HEADING_WIDTH_MIN, 180.0));
    let _ = writeln!(
        out,
        "<rect class=\"ground\" width=\"{HEADING_WIDTH_MIN}\" height=\"180\"/>\
         <rect class=\"nothing\" x=\"20\" y=\"20\" width=\"{}\" height=\"140\" rx=\"12\"/>\
         <text class=\"title\" x=\"{mid}\" y=\"88\" text-anchor=\"middle\">no states</text>\
         <text class=\"small\" x=\"{mid}\" y=\"112\" text-anchor=\"middle\">nothing is declared here, so there is nothing to draw</text>\n</svg>",
        HEADING_WIDTH_MIN - 40.0,
        mid = HEADING_WIDTH_MIN / 2.0
    );
    out
}

#[cfg(test)]
mod tests {
    use super::super::PictureEdge;
    use super::super::samples::{node, picture, tangle};
    use super::*;
    use std::time::{Duration, Instant};
    use zester_model::requisite::EdgeKind;

    /// Enough of XML to notice an unescaped name: tags close in order, no stray `<` or `&`, no control characters.
    fn well_formed(text: &str) {
        assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'));
        let mut open: Vec<&str> = Vec::new();
        for (at, piece) in text.split('<').enumerate() {
            if at == 0 {
                assert_eq!(piece, "");
                continue;
            }
            let (tag, words) = piece.split_once('>').unwrap_or_else(|| panic!("no end of the tag <{piece}"));
            assert!(!words.contains(['>']), "{words}");
            for entity in piece.split('&').skip(1) {
                let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
                assert!(known.iter().any(|known| entity.starts_with(known)), "{entity}");
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap());
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn every_state_and_every_edge_is_drawn() {
        let sample = tangle(80, 6, 2);
        let svg = svg(&sample);
        well_formed(&svg);
        for node in &sample.nodes {
            assert!(svg.contains(&format!("<title>{}  {}</title>", node.name, node.place)), "{}", node.name);
        }
        for edge in &sample.edges {
            let (from, to) = (&sample.nodes[edge.from].name, &sample.nodes[edge.to].name);
            assert!(svg.contains(&format!("<title>{to} {} {from}</title>", edge.kind)));
        }
        assert_eq!(svg.matches("<title>test.nop:").count(), sample.nodes.len() + sample.edges.len());
        for level in 0..6 {
            assert!(svg.contains(&format!(">level {level}<")));
        }
    }

    #[test]
    fn names_cannot_break_out_of_the_drawing() {
        let mut sample = picture(&[0, 1], &[(0, 1)]);
        let nasty = "cmd.run:</title><script>alert(\"1\")</script>\u{0}\u{1b}'&";
        sample.nodes[0] = node(nasty, 0);
        sample.nodes[0].place = nasty.into();
        sample.title = nasty.into();
        let svg = svg(&sample);
        well_formed(&svg);
        assert!(!svg.contains("<script") && svg.contains("&lt;/title&gt;&lt;script&gt;"));
    }

    #[test]
    fn the_legend_names_only_what_is_present() {
        let mut sample = picture(&[0, 1, 1], &[(0, 1)]);
        sample.edges.push(PictureEdge { from: 0, to: 2, kind: EdgeKind::OnfailAny });
        let without_run = svg(&sample);
        assert_eq!(without_run.matches("class=\"legend\"").count(), 2);
        sample.nodes[0].outcome = StateOutcome::Changed;
        sample.nodes[2].outcome = StateOutcome::Failed;
        let with_run = svg(&sample);
        assert_eq!(with_run.matches("class=\"legend\"").count(), 5);
        assert!(with_run.contains(">1 changed<") && with_run.contains(">1 not in the run<"));
        assert!(with_run.contains(">onfail_any<") && !with_run.contains("watch"));
    }

    #[test]
    fn the_drawing_refers_to_nothing_outside() {
        let svg = svg(&tangle(30, 4, 2));
        assert_eq!(svg.matches("http").count(), 1);
        assert!(svg.contains("xmlns=\"http://www.w3.org/2000/svg\""));
        assert!(svg.split("url(").skip(1).all(|reference| reference.starts_with("#tip-")));
        assert!(svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn no_states_are_a_friendly_picture() {
        let svg = svg(&picture(&[], &[]));
        well_formed(&svg);
        assert!(svg.contains(">no states<"));
    }

    #[test]
    fn ten_thousand_states_are_drawn_quickly_and_say_what_was_left_out() {
        let started = Instant::now();
        let svg = svg(&tangle(10_000, 20, 2));
        assert!(svg.contains(CROSSINGS_NOTE));
        assert_eq!(svg.matches("class=\"state ").count(), 10_000);
        // A second without optimisation; the rest is for busy machines.
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}
