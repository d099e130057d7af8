//! A page of its own around the drawing: search, zoom, and what hangs on what.

use super::Picture;
use super::census::{self, Census};
use super::drawing::{self, CROSSINGS_NOTE};
use super::escape::{json_in_script, xml};
use super::layout::Layout;
use super::palette::{outcome_sign, outcome_word};
use serde::Serialize;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// One file without anything outside of it; its policy tells the browser to hold it to that.
pub fn html(picture: &Picture) -> String {
    let census = Census::of(picture);
    let (svg, layout) = drawing::bare(picture);
    let title = xml(&picture.title);
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        census.sentence()
    );
    header(&mut out, &title, &census, &layout);
    let class = if picture.nodes.is_empty() { " class=\"empty\"" } else { "" };
    let _ = write!(out, "<main id=\"stage\"{class}>\n{svg}</main>\n");
    if !picture.nodes.is_empty() {
        let _ = write!(
            out,
            "<aside id=\"about\" aria-live=\"polite\" hidden></aside>\n\
             <script type=\"application/json\" id=\"graph\">{}</script>\n<script>\n{SCRIPT}</script>\n",
            data(picture, &layout)
        );
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn header(out: &mut String, title: &str, census: &Census, layout: &Layout) {
    let _ = write!(out, "<header>\n<h1>{title}</h1>\n<p class=\"counts\">{}</p>\n", census.sentence());
    if census.states == 0 {
        out.push_str("</header>\n");
        return;
    }
    out.push_str(
        "<div class=\"tools\"><input id=\"search\" type=\"search\" placeholder=\"find a state\" \
         aria-label=\"find a state\" autocomplete=\"off\" spellcheck=\"false\"><output id=\"found\" for=\"search\"></output>\
         <button id=\"out\" type=\"button\" aria-label=\"zoom out\">−</button>\
         <button id=\"in\" type=\"button\" aria-label=\"zoom in\">+</button>\
         <button id=\"fit\" type=\"button\">fit</button></div>\n<div class=\"legend zester\">",
    );
    if census.has_run() {
        for (outcome, count) in &census.fates {
            let (word, name, sign) =
                (outcome_word(*outcome), census::outcome_name(*outcome), outcome_sign(*outcome));
            let _ = write!(
                out,
                "<button type=\"button\" class=\"fate\" data-fate=\"{word}\" aria-pressed=\"false\">\
                 <svg class=\"key\" width=\"26\" height=\"16\" aria-hidden=\"true\"><g class=\"state f-{word}\">\
                 <rect x=\"1\" y=\"1\" width=\"24\" height=\"14\" rx=\"5\"/>\
                 <path class=\"sign\" transform=\"translate(8 3)\" d=\"{sign}\"/></g></svg>{count} {name}</button>"
            );
        }
    }
    for kind in &census.kinds {
        let _ = write!(
            out,
            "<span><svg class=\"key\" width=\"34\" height=\"12\" aria-hidden=\"true\">\
             <path class=\"edge k-{kind}\" d=\"M0 6H26\"/><path class=\"tip-{kind}\" d=\"M26 2.5L33 6L26 9.5Z\"/></svg>{kind}</span>"
        );
    }
    out.push_str("</div>\n");
    if !layout.crossings_reduced {
        let _ = writeln!(out, "<p class=\"note\">{CROSSINGS_NOTE}</p>");
    }
    out.push_str("</header>\n");
}

/// What the script knows of a state.
#[derive(Serialize)]
struct StateData<'a> {
    name: &'a str,
    level: usize,
    place: &'a str,
    outcome: &'a str,
    remark: &'a str,
    /// The middle of the box.
    x: f64,
    y: f64,
}

#[derive(Serialize)]
struct GraphData<'a> {
    states: Vec<StateData<'a>>,
    /// From, to and kind of every edge that is drawn, in the order of drawing.
    edges: Vec<(usize, usize, &'static str)>,
}

fn data(picture: &Picture, layout: &Layout) -> String {
    let states = picture.nodes.iter().zip(&layout.boxes);
    let edges = picture.edges.iter().zip(&layout.routes);
    let graph = GraphData {
        states: states
            .map(|(node, area)| StateData {
                name: &node.name,
                level: node.level,
                place: &node.place,
                outcome: outcome_word(node.outcome),
                remark: &node.remark,
                x: (area.x + area.width / 2.0).round(),
                y: (area.y + area.height / 2.0).round(),
            })
            .collect(),
        edges: edges
            .filter(|(_, route)| route.is_some())
            .map(|(edge, _)| (edge.from, edge.to, edge.kind.as_str()))
            .collect(),
    };
    // Strings and finite numbers always serialise; without data the page is still a drawing.
    let json = serde_json::to_string(&graph).unwrap_or_else(|_| r#"{"states":[],"edges":[]}"#.into());
    json_in_script(&json)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{picture, tangle};
    use super::*;

    fn embedded(page: &str) -> serde_json::Value {
        let (_, rest) = page.split_once("id=\"graph\">").unwrap();
        let (json, _) = rest.split_once("</script>").unwrap();
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_script_knows_every_state_and_every_edge_in_the_order_of_drawing() {
        let sample = tangle(40, 5, 2);
        let page = html(&sample);
        let data = embedded(&page);
        assert_eq!(data["states"].as_array().unwrap().len(), page.matches("<g class=\"state ").count());
        assert_eq!(data["edges"].as_array().unwrap().len(), sample.edges.len());
        assert_eq!(data["states"][7]["name"], sample.nodes[7].name.as_str());
        assert_eq!(data["edges"][3][2], sample.edges[3].kind.as_str());
    }

    #[test]
    fn an_edge_that_is_not_drawn_does_not_shift_the_others() {
        let page = html(&picture(&[0, 1], &[(0, 9), (0, 1)]));
        assert_eq!(embedded(&page)["edges"], serde_json::json!([[0, 1, "require"]]));
    }

    #[test]
    fn remarks_stay_data() {
        let mut sample = picture(&[0], &[]);
        let nasty = "--- a\n+++ b\n</script><script>alert(1)</script><!--\u{2028}&";
        sample.nodes[0].remark = nasty.into();
        sample.title = "<b>web</b>".into();
        let page = html(&sample);
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("<b>") && !page.contains("<!--"));
        assert_eq!(embedded(&page)["states"][0]["remark"], nasty);
    }

    #[test]
    fn the_page_stands_alone() {
        let page = html(&tangle(20, 3, 1));
        assert_eq!(page.matches("http").count(), 2, "the namespace and the policy");
        assert!(!page.contains(" src=") && !page.contains("@import") && !page.contains("<link"));
    }

    #[test]
    fn no_states_need_no_script() {
        let page = html(&picture(&[], &[]));
        assert!(page.contains(">no states<") && !page.contains("<script"));
    }
}
