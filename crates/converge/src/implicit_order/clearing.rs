//! `clean` where another state puts things that only it knows.
//!
//! What a source, an archive or a repository holds is known when its state looks, and not by whoever clears the directory:
//! they would take turns in removing and making it. So nothing is removed there, and that is said before anything runs.

use super::{ImplicitOrder, pair, paths_of, salted, waits_for};
use std::collections::HashMap;
use std::path::Path;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::program::Program;
use zester_model::source::Sources;
use zester_resources::claims::{Claims, ManagedItem};

/// A state that clears a directory which another one fills, or one above it.
pub(super) fn refuse_what_others_fill(
    program: &Program,
    sources: &Sources,
    claims: &[Claims],
    implicit: &mut ImplicitOrder,
) {
    let mut fillers: HashMap<&Path, Vec<usize>> = HashMap::new();
    for (state, filling) in claims.iter().enumerate().filter(|(_, claims)| claims.fills) {
        paths_of(filling).for_each(|path| fillers.entry(path).or_default().push(state));
    }
    for (state, clearing) in claims.iter().enumerate().filter(|(_, claims)| claims.clears) {
        tell_what_others_take(program, claims, (state, clearing), implicit);
        let found = paths_of(clearing).find_map(|path| {
            let others = path.ancestors().filter_map(|above| Some((above, fillers.get(above)?)));
            let mut others =
                others.flat_map(|(above, others)| others.iter().map(move |other| (above, *other)));
            let (above, other) = others.find(|(_, other)| *other != state)?;
            Some((path, above, other))
        });
        let Some((path, above, other)) = found else { continue };
        let (Some(clears), Some(fills)) = (program.states.get(state), program.states.get(other)) else {
            continue;
        };
        // Two that decide about one directory and are not ordered contradict each other anyhow (S-57).
        let owns = |claims: &Claims| {
            claims.owned.iter().any(|owned| matches!(&owned.item, ManagedItem::Path(owned) if owned == path))
        };
        let ordered = waits_for(program, state, other) || waits_for(program, other, state);
        if path == above && owns(clearing) && claims.get(other).is_some_and(owns) && !ordered {
            continue;
        }
        let message = format!(
            "`clean` of {} removes nothing: {} fills {}, and only that one knows what is its own",
            clears.name,
            fills.name,
            above.display()
        );
        let told =
            |kind: Kind| -> Diagnostic { pair(kind, message.clone(), clears, fills).code("clean_filled") };
        match salted(clears, sources) && salted(fills, sources) {
            true => implicit.warnings.push(
                told(Kind::Lint).hint("it runs without `clean`: say what goes in the state that fills it"),
            ),
            false => implicit.diagnostics.push(
                told(Kind::State)
                    .hint("take `clean` away here, and say what goes in the state that fills it"),
            ),
        }
    }
}

/// A state that clears a directory out of which another one takes all that lies there: nobody knows what of it is meant, so
/// nothing goes.
fn tell_what_others_take(
    program: &Program,
    claims: &[Claims],
    (state, clearing): (usize, &Claims),
    implicit: &mut ImplicitOrder,
) {
    let others = claims.iter().enumerate().filter(|(other, _)| *other != state);
    let mut taken = others.flat_map(|(other, claims)| claims.takes.iter().map(move |taken| (other, taken)));
    let found = taken.find(|(_, taken)| paths_of(clearing).any(|path| path.starts_with(taken)));
    let Some((other, taken)) = found else { return };
    let (Some(clears), Some(takes)) = (program.states.get(state), program.states.get(other)) else { return };
    let message = format!(
        "`clean` of {} removes nothing: {} takes all of {} as its source",
        clears.name,
        takes.name,
        taken.display()
    );
    implicit.warnings.push(
        pair(Kind::Lint, message, clears, takes)
            .hint("take `clean` away here, or name the files that are to be taken"),
    );
}
