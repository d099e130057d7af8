//! Check and apply agree (S-30), from whatever state earlier applies left.
//!
//! The machine of one case, then a few states of the others of its file, applied whether they succeed or not; then one more
//! is looked at. What its check says has to be what its apply does, its dry run has to end as the machine does, and its revert
//! has to lead back. A seed says which; it stands in the message of a failure.

use super::{Case, Machine, Promise, Snapshot, Went};
use std::path::PathBuf;
use std::sync::Arc;
use zester_host::overlay::Overlay;

/// Lives that are tried for each file of kinds.
const LIVES: u64 = 60;
/// Most states that are applied before.
const PRIORS_MAX: usize = 4;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % count.max(1) as u64).unwrap_or_default()
    }
}

/// Tries many random prior states for all kinds of one file.
pub fn hold_from_random_states(cases: &[Case]) {
    // What an action did nobody can see, and nothing undoes it.
    let converges = |case: &&Case| case.promise != Promise::Acts && case.bound().undoable();
    let converging: Vec<&Case> = cases.iter().filter(converges).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    for seed in 0..LIVES {
        let mut dice = Dice(seed);
        let Some(world) = converging.get(dice.below(converging.len())) else { return };
        let machine = world.machine();
        let mut told = format!("seed {seed}: the machine of {} {}", world.kind, world.params);
        let mut books = world.books.clone();
        runtime.block_on(async {
            for _ in 0..dice.below(PRIORS_MAX + 1) {
                let prior = converging[dice.below(converging.len())];
                books.extend(prior.books.iter().cloned());
                drop(machine.run_well(&*prior.bound()).await);
                told.push_str(&format!(", then {} {}", prior.kind, prior.params));
            }
            let last = converging[dice.below(converging.len())];
            books.extend(last.books.iter().cloned());
            told.push_str(&format!(", then {} {}", last.kind, last.params));
            agrees(last, &machine, &books, &told).await;
        });
    }
}

async fn agrees(case: &Case, machine: &Machine, books: &[PathBuf], told: &str) {
    let bound = case.bound();
    let before = machine.snapshot();
    let without_books = |mut snapshot: Snapshot| {
        snapshot.retain(|path, _| !books.iter().any(|book| path.starts_with(book)));
        snapshot
    };
    let drift = match machine.check(&*bound, &*machine.files, &*machine.processes).await {
        Ok(Some(drift)) => drift,
        Ok(None) | Err(_) => {
            let went = machine.run_well(&*bound).await;
            assert!(
                matches!(went, Went::Clean | Went::Failed(None)),
                "{told}: apply did what check did not say"
            );
            assert_eq!(machine.snapshot(), before, "{told}: something was written for nothing");
            return;
        }
    };
    let words = bound.explain(&drift, false).diff;
    let dry = Overlay::over(Arc::clone(&machine.files) as _);
    bound.predict(&drift, &dry).unwrap_or_else(|fault| panic!("{told}: predict failed: {fault}"));
    let clean = machine.check(&*bound, &dry, &*machine.processes).await;
    assert!(matches!(clean, Ok(None)), "{told}: check is not clean after its dry run");
    let predicted = dry.snapshot().expect("a machine in memory can be read");
    let (change, record) = match machine.run_well(&*bound).await {
        Went::Applied(change, record) => (change, record),
        // What only acting can reveal.
        Went::Failed(_) => return,
        Went::Clean => panic!("{told}: the second check found nothing"),
    };
    assert!(change.changed, "{told}: apply says that nothing changed");
    assert_eq!(
        without_books(predicted),
        without_books(machine.snapshot()),
        "{told}: the dry run said otherwise"
    );
    let again = matches!(machine.run_well(&*bound).await, Went::Clean);
    assert!(again, "{told}: check is not clean after apply");
    machine.revert_well(case.kind, &record).await;
    assert_eq!(without_books(machine.snapshot()), without_books(before), "{told}: revert did not restore");
    // What a tool wrote into its books may stand in another order: it is to be looked at through the tool.
    let back = machine.check(&*bound, &*machine.files, &*machine.processes).await;
    let back = back.ok().flatten().map(|drift| bound.explain(&drift, false).diff);
    assert_eq!(back.as_ref(), Some(&words), "{told}: revert did not lead back");
}

/// Runs a state on the machine of a case: whether it could be brought about there. What is brought about is found so by the
/// next check, and a check that fails has written nothing.
/// `furnish` puts there what the state is about.
pub fn runs_on(
    world: &Case,
    kind: &str,
    params: &serde_json::Value,
    furnish: &dyn Fn(&Arc<Overlay>),
) -> bool {
    let bound =
        super::bind_json(kind, params).unwrap_or_else(|diagnostics| panic!("{kind}: {diagnostics:?}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        let machine = world.machine();
        furnish(&machine.files);
        let before = machine.snapshot();
        match machine.run_well(&*bound).await {
            Went::Clean => true,
            // What an action did nobody can see.
            Went::Applied(..) if world.promise == Promise::Acts || !bound.undoable() => true,
            Went::Applied(..) => {
                let again = matches!(machine.run_well(&*bound).await, Went::Clean);
                assert!(again, "{kind}: its example does not settle");
                true
            }
            Went::Failed(None) => {
                assert_eq!(machine.snapshot(), before, "{kind}: a check that fails wrote something");
                false
            }
            Went::Failed(Some(_)) => false,
        }
    })
}
