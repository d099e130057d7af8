//! Colours and strokes, by day and by night.
//!
//! Written out as plain rules without variables, because viewers other than browsers do not know those.

use super::StateOutcome;
use std::fmt::Write;
use zester_model::requisite::EdgeKind;

/// A colour on light and on dark ground.
struct Shade {
    light: &'static str,
    dark: &'static str,
}

const fn shade(light: &'static str, dark: &'static str) -> Shade {
    Shade { light, dark }
}

/// Every fate there is, in the order of legends.
pub const OUTCOMES: [StateOutcome; 5] = [
    StateOutcome::Changed,
    StateOutcome::Unchanged,
    StateOutcome::Failed,
    StateOutcome::Skipped,
    StateOutcome::Unknown,
];

/// Every kind there is, in the order of legends.
pub const KINDS: [EdgeKind; 11] = [
    EdgeKind::Require,
    EdgeKind::RequireAny,
    EdgeKind::Watch,
    EdgeKind::WatchAny,
    EdgeKind::Onchanges,
    EdgeKind::OnchangesAny,
    EdgeKind::Onfail,
    EdgeKind::OnfailAny,
    EdgeKind::OnfailAll,
    EdgeKind::Order,
    EdgeKind::Auto,
];

pub fn outcome_word(outcome: StateOutcome) -> &'static str {
    match outcome {
        StateOutcome::Unknown => "unknown",
        StateOutcome::Changed => "changed",
        StateOutcome::Unchanged => "unchanged",
        StateOutcome::Failed => "failed",
        StateOutcome::Skipped => "skipped",
    }
}

/// A small sign in a field of ten by ten, so that a fate does not hang on its colour alone.
pub fn outcome_sign(outcome: StateOutcome) -> &'static str {
    match outcome {
        StateOutcome::Unknown => "",
        StateOutcome::Changed => "M1 5.5L4 8.5L9 2",
        StateOutcome::Unchanged => "M1.5 3.5H8.5M1.5 6.5H8.5",
        StateOutcome::Failed => "M2 2L8 8M8 2L2 8",
        StateOutcome::Skipped => "M1 2L5 5L1 8M5 2L9 5L5 8",
    }
}

/// Fill and border of a box.
fn outcome_shades(outcome: StateOutcome) -> (Shade, Shade) {
    match outcome {
        StateOutcome::Unknown => (shade("#ffffff", "#232936"), shade("#8d99ae", "#65728a")),
        StateOutcome::Changed => (shade("#def5e5", "#16351f"), shade("#2b9a50", "#46b96c")),
        StateOutcome::Unchanged => (shade("#eceef2", "#272b33"), shade("#a5adba", "#5d6675")),
        StateOutcome::Failed => (shade("#fde3e3", "#451b1e"), shade("#d23535", "#f06a6a")),
        StateOutcome::Skipped => (shade("#fdf1cf", "#3d3010"), shade("#c48608", "#dba531")),
    }
}

fn edge_shade(kind: EdgeKind) -> Shade {
    match kind {
        EdgeKind::Require | EdgeKind::RequireAny => shade("#4a6fb5", "#7ea2e6"),
        EdgeKind::Watch | EdgeKind::WatchAny => shade("#8a4fd0", "#b98cf2"),
        EdgeKind::Onchanges | EdgeKind::OnchangesAny => shade("#0b8f84", "#3cc4b6"),
        EdgeKind::Onfail | EdgeKind::OnfailAny | EdgeKind::OnfailAll => shade("#d4560f", "#f5925a"),
        EdgeKind::Order | EdgeKind::Auto => shade("#9aa2af", "#6d7786"),
    }
}

/// `None` is a line without gaps.
fn edge_dashes(kind: EdgeKind) -> Option<&'static str> {
    match kind {
        EdgeKind::Require | EdgeKind::Watch | EdgeKind::Onchanges | EdgeKind::Onfail => None,
        EdgeKind::RequireAny | EdgeKind::WatchAny | EdgeKind::OnchangesAny | EdgeKind::OnfailAny => {
            Some("8 3 1.5 3")
        }
        EdgeKind::OnfailAll => Some("12 3"),
        EdgeKind::Order => Some("4 4"),
        EdgeKind::Auto => Some("1.5 4"),
    }
}

const GROUND: Shade = shade("#ffffff", "#12151b");
const BAND: Shade = shade("#f3f5f9", "#1a1e26");
const TEXT: Shade = shade("#1d2330", "#e7eaf0");
const MUTED: Shade = shade("#626c7c", "#98a2b3");

/// The rules for everything inside a drawing.
pub fn style(kinds: &[EdgeKind], fates: &[StateOutcome]) -> String {
    let mut out = String::from(
        ".zester text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif}\
         .zester .id{font:12px ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace}\
         .zester .kind{font-size:10.5px}.zester .level{font-size:12px;font-weight:600}\
         .zester .small{font-size:12px}.zester .title{font-size:19px;font-weight:650}\
         .zester .edge{fill:none;stroke-width:1.6}.zester .state rect{stroke-width:1.3}\
         .zester .sign{fill:none;stroke-width:1.7;stroke-linecap:round;stroke-linejoin:round}\n",
    );
    for kind in kinds {
        if let Some(dashes) = edge_dashes(*kind) {
            let _ = writeln!(out, ".zester .k-{kind}{{stroke-dasharray:{dashes}}}");
        }
    }
    colours(&mut out, kinds, fates, |shade| shade.light);
    out.push_str("@media (prefers-color-scheme:dark){\n");
    colours(&mut out, kinds, fates, |shade| shade.dark);
    out.push_str("}\n");
    out
}

fn colours(out: &mut String, kinds: &[EdgeKind], fates: &[StateOutcome], pick: fn(&Shade) -> &'static str) {
    let (ground, band, text, muted) = (pick(&GROUND), pick(&BAND), pick(&TEXT), pick(&MUTED));
    let _ = writeln!(
        out,
        ".zester .ground{{fill:{ground}}}.zester .band{{fill:{band}}}.zester text{{fill:{text}}}\
         .zester .kind,.zester .level,.zester .small{{fill:{muted}}}\
         .zester .nothing{{fill:none;stroke:{muted};stroke-dasharray:6 5}}"
    );
    for kind in kinds {
        let colour = edge_shade(*kind);
        let colour = pick(&colour);
        let _ = writeln!(out, ".zester .k-{kind}{{stroke:{colour}}}.zester .tip-{kind}{{fill:{colour}}}");
    }
    for outcome in fates {
        let (fill, border) = outcome_shades(*outcome);
        let (outcome, fill, border) = (outcome_word(*outcome), pick(&fill), pick(&border));
        let _ = writeln!(
            out,
            ".zester .f-{outcome} rect{{fill:{fill};stroke:{border}}}.zester .f-{outcome} .sign{{stroke:{border}}}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_share_a_colour_differ_in_their_dashes() {
        for one in KINDS {
            for other in KINDS {
                let alike = edge_shade(one).light == edge_shade(other).light
                    && edge_dashes(one) == edge_dashes(other);
                assert_eq!(alike, one == other, "{one} and {other}");
            }
        }
    }

    #[test]
    fn the_style_names_what_is_present_and_nothing_else() {
        let style = style(&[EdgeKind::Watch], &[StateOutcome::Failed]);
        assert!(style.contains(".k-watch{stroke:") && style.contains(".f-failed rect"));
        assert!(!style.contains("k-require") && !style.contains("f-changed"));
        assert!(style.contains("prefers-color-scheme:dark"));
        // Inside an svg inside a page a style is read as markup.
        assert!(!style.contains(['<', '&']) && !style.contains("url("));
    }
}
