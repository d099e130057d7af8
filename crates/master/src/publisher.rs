//! Publishes trees to the peels while this master holds the lease (D-2): its own when it gets the lease, when a file changes and
//! every few minutes in case something was missed; what operators bring, or take back, when they ask. Without the lease it
//! says where its own files differ (D-14).

mod compile;
mod first_rules;
mod lint;
mod orders;
mod report;
mod rest;
mod source;
mod sweep;
mod usable;

pub use lint::{LintRequest, Linter, NamedTree, NoLint};
pub use orders::{Order, Orders};
pub use source::{Checkout, OriginTree, Source, TreeOrigin};

use crate::core::Core;
use crate::held_lease::{HeldLease, LeaseKeeper};
use crate::limits::{
    CHANGES_NAMED, INDEX_POLL, INDEX_WAIT, PUBLISH_LOOK, PUBLISH_QUIET, PUBLISH_RESTLESS, PUBLISH_TOLD,
};
use first_rules::FirstRules;
use report::{
    bare, by_hand_words, changes, changes_now, first_words, published_event, refusal, report, told, told_with,
};
use rest::{Calm, Changes, Rest, watch};
use source::Ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sweep::Sweeping;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};
use zester_health::State;
use zester_publish::{About, Error, Fence, Outcome, Publisher, changes_of, fetch_tree};
use zester_wire::{
    AdminReply, BadName, ContentHash, Key, Manifest, PublishReport, PublishRequest, PublishStatus, Published,
    Refusal, RefusalKind, Revision, Rollback, UploadedTree,
};

/// The key of the lease.
pub const LEASE: &str = "publisher";

/// What a master publishes, and with what.
pub struct Publishing {
    pub sources: Vec<Source>,
    pub linter: Arc<dyn Linter>,
    /// Where trees lie that operators brought, until they are published.
    pub staging: PathBuf,
}

impl Default for Publishing {
    /// Nothing of its own.
    fn default() -> Publishing {
        Publishing { sources: Vec::new(), linter: Arc::new(NoLint), staging: std::env::temp_dir() }
    }
}

/// The readiness check of what is published. Whoever reacts by rules has a check of its own.
fn check_of(published: Published) -> &'static str {
    match published {
        Published::Reactor => "rules",
        other => other.as_str(),
    }
}

impl Fence for HeldLease {
    fn holds(&self) -> bool {
        self.is_held()
    }
}

pub struct PublisherTask {
    core: Arc<Core>,
    sources: Vec<Tracked>,
    linter: Arc<dyn Linter>,
    staging: PathBuf,
    orders: mpsc::Receiver<Order>,
    lease: HeldLease,
    sweeping: Sweeping,
    rules: FirstRules,
}

/// A source, and what is known of it.
struct Tracked {
    source: Source,
    /// The tree that it had when it was last looked at.
    last: Option<ContentHash>,
    /// The revision that an operator chose, and the tree that this one had when that was first seen.
    beside: Option<(u64, ContentHash)>,
    next: Instant,
    /// It did not compile for the peels as the index knew them then: with others, or other facts, it may.
    refused_at: Option<u64>,
    changes: Changes,
    rest: Rest,
    calm: Calm,
}

impl Tracked {
    fn new(source: Source) -> Tracked {
        Tracked {
            source,
            last: None,
            beside: None,
            next: Instant::now(),
            refused_at: None,
            changes: Changes::default(),
            rest: Rest::default(),
            calm: Calm::Rests,
        }
    }

    /// Looks whether its directories rest. Once they do after a change, the tree is due.
    fn look_for_rest(&mut self) {
        self.calm = self.rest.look(self.changes.load(Ordering::Relaxed), Instant::now());
        if self.calm == Calm::Settled {
            self.next = Instant::now();
        }
    }

    fn rests(&self) -> bool {
        matches!(self.calm, Calm::Rests | Calm::Settled)
    }

    /// Why it waits, where it changes for longer than anything takes.
    fn restless(&self) -> Option<String> {
        (self.calm == Calm::NeverRests).then(|| {
            let (what, seconds) = (self.source.published.as_str(), PUBLISH_RESTLESS.as_secs());
            format!("{what} are not published: files changed all the time for more than {seconds} s")
        })
    }

    /// What an operator chose stays until this tree is another than it was then, whoever held the lease meanwhile.
    fn leaves_alone(&mut self, chosen: &Manifest, ready: &Ready, holds: bool) -> bool {
        let was = match self.beside.take() {
            Some((revision, was)) if revision == chosen.revision => was,
            // Who published it looks at once; whoever did not may have missed a change since.
            _ if holds => ready.own.clone(),
            _ => self.last.clone().unwrap_or_else(|| ready.own.clone()),
        };
        let stays = was == ready.own;
        self.beside = Some((chosen.revision, was));
        stays
    }
}

/// How a tree is to be published.
#[derive(Clone, Default)]
struct How {
    user: String,
    allow_empty: bool,
    force: bool,
    dry_run: bool,
    /// The settings that come along with the states.
    settings: Option<NamedTree>,
    /// The states that come along with the settings.
    states: Option<NamedTree>,
}

impl How {
    fn asked(request: &PublishRequest) -> How {
        How {
            user: request.user.clone(),
            allow_empty: request.allow_empty,
            force: request.force,
            dry_run: request.dry_run,
            ..How::default()
        }
    }
}

impl PublisherTask {
    pub fn new(
        core: Arc<Core>,
        publishing: Publishing,
        orders: mpsc::Receiver<Order>,
    ) -> Result<(PublisherTask, LeaseKeeper), BadName> {
        let lease = core.orders.lease().clone();
        let keeper = LeaseKeeper::new(core.clone(), LEASE)?.telling(lease.clone());
        let Publishing { sources, linter, staging } = publishing;
        let sources = sources.into_iter().map(Tracked::new).collect();
        let sweeping = Sweeping::default();
        let rules = FirstRules::default();
        Ok((PublisherTask { core, sources, linter, staging, orders, lease, sweeping, rules }, keeper))
    }

    /// Ends only with its task.
    pub async fn run(mut self) {
        let changed = Arc::new(Notify::new());
        let watched = |tracked: &Tracked| {
            let watch = |directory| watch(directory, &tracked.changes, &changed);
            tracked.source.watched().filter_map(watch).collect::<Vec<_>>()
        };
        let _watching: Vec<_> = self.sources.iter().flat_map(watched).collect();
        self.peels_known().await;
        let mut held = false;
        loop {
            let holds = self.lease.is_held();
            if holds && !held {
                self.sweeping.lease_came();
            }
            for at in 0..self.sources.len() {
                let facts = self.core.index.facts_version();
                let Some(tracked) = self.sources.get_mut(at) else { continue };
                tracked.look_for_rest();
                if !tracked.rests() {
                    // The lease that came meanwhile is no reason to take half a tree either.
                    tracked.next = Instant::now();
                    let (source, restless) = (tracked.source.clone(), tracked.restless());
                    restless.inspect(|why| self.complain(&source, why));
                    continue;
                }
                let others = holds && tracked.refused_at.is_some_and(|known| known != facts);
                if others || Instant::now() >= tracked.next || holds != held {
                    self.look(at, holds).await;
                }
            }
            held = holds;
            self.name_rules(holds).await;
            self.sweep_if_due(holds).await;
            let pause = match self.sources.iter().all(Tracked::rests) {
                _ if self.sources.is_empty() => self.sweeping.pause().min(self.rules.pause()),
                true => PUBLISH_LOOK,
                false => PUBLISH_QUIET,
            };
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => self.carry_out(order).await,
                    None => sleep(pause).await,
                },
                // One that changes all the time is not looked at for each change.
                () = changed.notified() => sleep(PUBLISH_QUIET / 2).await,
                () = sleep(pause) => {}
            }
        }
    }

    /// A tree is compiled for the peels that are known, so they should be.
    async fn peels_known(&self) {
        let known = async {
            while !self.core.index.is_current() {
                sleep(INDEX_POLL).await;
            }
        };
        let _without_them = timeout(INDEX_WAIT, known).await;
    }

    async fn look(&mut self, at: usize, holds: bool) {
        let Some(source) = self.sources.get(at).map(|tracked| tracked.source.clone()) else { return };
        let what = source.published.as_str();
        let counted = self.changes_of(at);
        let read = Ready::of(&source).await;
        if self.changed_since(at, counted).await {
            // Part of it may be of before and part of after. It is looked at once it rests again.
            if let Some(tracked) = self.sources.get_mut(at) {
                tracked.next = Instant::now();
            }
            return;
        }
        let state = match read {
            Ok(ready) => self.look_at(at, &ready, holds).await,
            Err(why) => Err(format!("{what} are not published: {why}")),
        };
        if let Some(tracked) = self.sources.get_mut(at) {
            tracked.next = Instant::now() + source.origin.every();
        }
        match state {
            Ok(()) => self.core.health.set(check_of(source.published), State::Up),
            Err(why) => self.complain(&source, &why),
        }
    }

    fn changes_of(&self, at: usize) -> u64 {
        self.sources.get(at).map_or(0, |tracked| tracked.changes.load(Ordering::Relaxed))
    }

    /// Whether a directory changed while it was read; a moment later, because the system tells of a change behind it.
    async fn changed_since(&self, at: usize, counted: u64) -> bool {
        if self.sources.get(at).is_some_and(|tracked| tracked.source.watched().next().is_some()) {
            sleep(PUBLISH_TOLD).await;
        }
        self.changes_of(at) != counted
    }

    fn complain(&self, source: &Source, why: &str) {
        let (check, why) = (check_of(source.published), format!("{why} ({})", source.origin.words()));
        if self.core.health.state(check) != Some(State::Degraded(why.clone())) {
            tracing::warn!("{why}");
        }
        self.core.health.set(check, State::Degraded(why));
    }

    async fn look_at(&mut self, at: usize, ready: &Ready, holds: bool) -> Result<(), String> {
        let what = ready.published.as_str();
        let counts = match self.publisher(ready.published).manifest().await {
            Ok(counts) => counts,
            // What is there is not whole, or of nobody who counts any more; what comes takes its place.
            Err(Error::Torn(_)) => None,
            Err(error) => return Err(format!("{what} are not published: {error}")),
        };
        let by_hand = counts.filter(Manifest::is_by_hand);
        let mut stays = false;
        if let Some(tracked) = self.sources.get_mut(at) {
            stays = by_hand.as_ref().is_some_and(|manifest| tracked.leaves_alone(manifest, ready, holds));
            tracked.last = Some(ready.own.clone());
        }
        match by_hand {
            _ if !holds => self.compare(ready).await,
            Some(manifest) if stays && manifest.root != ready.root => Err(by_hand_words(what, &manifest)),
            _ => self.publish_unasked(at, ready).await,
        }
    }

    /// Of its own accord.
    async fn publish_unasked(&mut self, at: usize, ready: &Ready) -> Result<(), String> {
        let what = ready.published.as_str();
        let known = self.core.index.facts_version();
        let settings = self.settings_for(ready.published).await;
        let settings = settings.map_err(|why| format!("{what} are not published: {why}"))?;
        let states = self.states_for(ready.published, false).await;
        let published = self.publish(ready, &How { settings, states, ..How::default() }).await;
        let uncompiled = published
            .as_ref()
            .is_ok_and(|report| report.status == PublishStatus::Refused && report.problems.is_some());
        if let Some(tracked) = self.sources.get_mut(at) {
            tracked.refused_at = uncompiled.then_some(known);
        }
        match published {
            Ok(PublishReport {
                status: PublishStatus::Refused, problems: Some(problems), reason, ..
            }) => {
                tracing::warn!("{what} of {} are not published:\n{}", ready.source, problems.text);
                Err(format!("{what} are not published: {reason}, {}", first_words(&problems)))
            }
            Ok(PublishReport { status: PublishStatus::Refused, reason, .. }) => {
                Err(format!("{what} are not published: {reason}"))
            }
            // Of a lease that was lost, the next holder does it.
            Ok(_) | Err(Error::Superseded) => Ok(()),
            Err(error) => Err(format!("{what} are not published: {error}")),
        }
    }

    fn publisher(&self, published: Published) -> Publisher<'_> {
        Publisher { link: &self.core.link, published, fence: &self.lease }
    }

    /// The settings of this master, which its states are compiled with. None is not the same as some that cannot be read.
    async fn settings_for(&self, published: Published) -> Result<Option<NamedTree>, String> {
        let of_settings = |tracked: &&Tracked| tracked.source.published == Published::Settings;
        match self.sources.iter().find(of_settings) {
            Some(tracked) if published == Published::States => {
                let origin = &tracked.source.origin;
                let checkout = origin.checkout().await;
                let checkout = checkout.map_err(|why| format!("the settings cannot be read: {why}"))?;
                Ok(Some(NamedTree { directory: checkout.directory, name: origin.words() }))
            }
            _ => Ok(None),
        }
    }

    /// The states of this master, which come right after its settings. What an operator chose does not give way to them
    /// unless somebody asks.
    async fn states_for(&self, published: Published, asked: bool) -> Option<NamedTree> {
        if published != Published::Settings {
            return None;
        }
        let of_states = |tracked: &&Tracked| tracked.source.published == Published::States;
        let origin = &self.sources.iter().find(of_states)?.source.origin;
        if !asked && self.publisher(Published::States).manifest().await.ok()??.is_by_hand() {
            return None;
        }
        let directory = origin.checkout().await.ok()?.directory;
        Some(NamedTree { directory, name: origin.words() })
    }

    /// A directory that goes when it is dropped.
    fn staging(&self, prefix: &str) -> Result<tempfile::TempDir, Error> {
        let made = std::fs::create_dir_all(&self.staging)
            .and_then(|()| tempfile::Builder::new().prefix(prefix).tempdir_in(&self.staging));
        made.map_err(|error| Error::Disk(format!("cannot write to {}: {error}", self.staging.display())))
    }

    /// Publishes a tree that differs from what counts, if it compiles.
    async fn publish(&self, ready: &Ready, how: &How) -> Result<PublishReport, Error> {
        let publisher = self.publisher(ready.published);
        let before = match publisher.current().await {
            Ok(before) => before,
            Err(Error::Bus(error)) => return Err(Error::Bus(error)),
            // What is there is not whole; what comes makes it so.
            Err(_) => None,
        };
        let revision = before.as_ref().map_or(0, |(manifest, _)| manifest.revision);
        let diff = changes(&changes_of(ready.tree(), before.as_ref().map(|(_, tree)| tree)));
        let is_new = before.as_ref().is_none_or(|(manifest, _)| manifest.root != ready.root);
        let refused = |reason: String| PublishReport {
            reason,
            changes: diff.clone(),
            ..report(ready, PublishStatus::Refused, revision)
        };
        if ready.holds_nothing(before.as_ref().map(|(_, tree)| tree)) && !how.allow_empty {
            let populated = before.as_ref().is_some_and(|(_, tree)| !tree.is_empty());
            return Ok(match populated {
                true => refused(Error::Empty.to_string()),
                false => report(ready, PublishStatus::Nothing, revision),
            });
        }
        // With no peel left, nobody misses what was said of them.
        let index = &self.core.index;
        let nobody = index.is_current() && index.snapshot().is_empty();
        let silent = before.as_ref().and_then(|(_, tree)| ready.fell_silent(tree));
        if let Some(silent) = silent.filter(|_| !how.allow_empty && !nobody) {
            return Ok(refused(format!(
                "nothing is known for `{silent}` yet, and files of it are published: they stay"
            )));
        }
        if ready.published == Published::Settings {
            let unsealed = self.unsealed(ready).await?;
            if !unsealed.is_empty() {
                return Ok(refused(format!("a secret is not sealed: {}", unsealed.join(", "))));
            }
        }
        let unassigned = usable::unassigned(ready.published, ready.tree());
        let (mut problems, mut forced) = (None, String::new());
        if let Some(reason) = unassigned {
            if !how.force {
                return Ok(refused(reason));
            }
            forced = reason;
        }
        if is_new {
            let verdict = self.compile(ready, how).await?;
            problems = Some(verdict.problems);
            match verdict.reason {
                Some(reason) if !how.force => return Ok(PublishReport { problems, ..refused(reason) }),
                Some(reason) => forced = reason,
                None => {}
            }
        }
        if how.dry_run {
            let status = if is_new { PublishStatus::Published } else { PublishStatus::Unchanged };
            let told = report(ready, status, revision);
            return Ok(PublishReport { changes: diff, problems, reason: forced, ..told });
        }
        let about = About {
            master: self.core.id.clone(),
            user: how.user.clone(),
            source: ready.source.clone(),
            commit: ready.origin.checkout.commit.clone(),
            allow_empty: how.allow_empty,
            uploaded: ready.uploaded,
        };
        let outcome = publisher.publish(ready.tree(), ready.origin.content.as_ref(), &about).await?;
        self.tell(ready.published, &outcome, &about);
        if !forced.is_empty() {
            tracing::warn!(
                user = how.user,
                "{} are published all the same: {forced}",
                ready.published.as_str()
            );
        }
        Ok(PublishReport { changes: diff, problems, reason: forced, ..told(ready, &outcome) })
    }

    /// Where secrets stand that nobody sealed, in files that are given to somebody or to nobody.
    async fn unsealed(&self, ready: &Ready) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        for path in ready.tree().files.keys() {
            let content = ready.origin.content.read(path).await?;
            let Ok(text) = std::str::from_utf8(&content) else { continue };
            let lines = self.linter.unsealed(path.as_str(), text);
            found.extend(lines.into_iter().map(|line| format!("{path}:{line}")));
        }
        found.truncate(CHANGES_NAMED);
        Ok(found)
    }

    /// Does what an operator asked for, and says what became of it.
    async fn carry_out(&mut self, order: Order) {
        let answered = self.answer(&order.request).await;
        // What `/readyz` says of it is looked at again.
        self.sources.iter_mut().for_each(|tracked| tracked.next = Instant::now());
        self.sweeping.expect();
        let reply = match answered {
            Ok(published) => AdminReply { published, ..AdminReply::done("") },
            Err(refusal) => AdminReply::refusing(refusal),
        };
        order.done.send_replace(Some(reply));
    }

    async fn answer(&mut self, request: &PublishRequest) -> Result<Vec<PublishReport>, Refusal> {
        if !self.lease.is_held() {
            let why = "this master does not publish any more; ask again";
            return Err(Refusal::new(RefusalKind::Unavailable, why));
        }
        if let Some(rollback) = &request.rollback {
            let done = self.roll_back(rollback, request).await;
            return done.map(|report| vec![report]).map_err(refusal);
        }
        if !request.trees.is_empty() {
            return self.publish_uploaded(request).await;
        }
        self.publish_own(request).await
    }

    async fn publish_own(&mut self, request: &PublishRequest) -> Result<Vec<PublishReport>, Refusal> {
        if self.sources.is_empty() {
            let why = format!("the master {} publishes and has no directory of its own", self.core.id.name());
            let hint = "upload one: `zester publish --states DIR`".to_string();
            return Err(Refusal { hint, ..Refusal::new(RefusalKind::Invalid, why) });
        }
        self.sources.iter_mut().for_each(Tracked::look_for_rest);
        if let Some(changes) = self.sources.iter().find(|tracked| !tracked.rests()) {
            return Err(changes_now(&changes.source));
        }
        // Whoever only asks what would be takes nothing from later looks.
        let allow_empty = request.allow_empty && !request.dry_run;
        self.sources.iter().for_each(|tracked| tracked.source.origin.look_anew(allow_empty));
        let mut reports = Vec::new();
        for at in 0..self.sources.len() {
            let Some(source) = self.sources.get(at).map(|tracked| tracked.source.clone()) else { continue };
            let counted = self.changes_of(at);
            let ready = match self.settings_for(source.published).await {
                Ok(settings) => Ready::of(&source).await.map(|ready| (ready, settings)),
                Err(why) => Err(why),
            };
            let ready = match self.changed_since(at, counted).await {
                true if reports.is_empty() => return Err(changes_now(&source)),
                true => Err(changes_now(&source).message),
                false => ready,
            };
            let report = match ready {
                Ok((ready, settings)) => {
                    let states = self.states_for(source.published, true).await;
                    let how = How { settings, states, ..How::asked(request) };
                    let report = told_with(&reports, &ready, self.publish(&ready, &how).await)?;
                    let done = matches!(report.status, PublishStatus::Published | PublishStatus::Unchanged);
                    if done && !request.dry_run {
                        self.core.health.set(check_of(source.published), State::Up);
                    }
                    report
                }
                Err(reason) => PublishReport {
                    reason,
                    source: source.origin.words(),
                    ..bare(source.published, PublishStatus::Refused, 0)
                },
            };
            reports.push(report);
        }
        Ok(reports)
    }

    /// Trees that operators brought: fetched, verified and compiled like any other.
    async fn publish_uploaded(&self, request: &PublishRequest) -> Result<Vec<PublishReport>, Refusal> {
        let staging = self.staging("upload-").map_err(refusal)?;
        let (all, how) = self.uploaded(request, staging.path()).await.map_err(refusal)?;
        let mut reports = Vec::new();
        for ready in &all {
            reports.push(told_with(&reports, ready, self.publish(ready, &how).await)?);
        }
        Ok(reports)
    }

    /// The trees that operators brought, in the order they are published in.
    async fn uploaded(&self, request: &PublishRequest, staging: &Path) -> Result<(Vec<Ready>, How), Error> {
        let disk =
            |error: std::io::Error| Error::Disk(format!("cannot write to {}: {error}", staging.display()));
        let brings = |published| request.trees.iter().any(|tree| tree.published == published);
        let mut how = How::asked(request);
        if brings(Published::States) && !brings(Published::Settings) {
            how.settings = self.settings_for(Published::States).await.map_err(Error::Disk)?;
        }
        let mut all = Vec::new();
        for UploadedTree { published, pages, source } in &request.trees {
            let into = staging.join(published.as_str());
            std::fs::create_dir_all(&into).map_err(disk)?;
            let directory = fetch_tree(&self.core.link, *published, pages, &into).await?;
            let named = NamedTree { directory: into, name: source.clone() };
            match published {
                Published::Settings => how.settings = Some(named),
                Published::States => how.states = Some(named),
                Published::Reactor => {}
            }
            let ready = Ready::uploaded(*published, directory, source.clone())?;
            let over = self.sources.iter().find(|tracked| tracked.source.published == *published);
            all.push(match over {
                Some(tracked) => tracked.source.lay_over(ready).await.map_err(Error::Disk)?,
                None => ready,
            });
        }
        // States never come before the settings that they were written for.
        all.sort_by_key(|ready| ready.published != Published::Settings);
        Ok((all, how))
    }

    async fn roll_back(&self, rollback: &Rollback, request: &PublishRequest) -> Result<PublishReport, Error> {
        let Rollback { published, revision } = *rollback;
        let publisher = self.publisher(published);
        let (manifest, tree) = publisher.revision(revision).await?;
        let before = publisher.current().await.ok().flatten();
        let diff = changes(&changes_of(&tree, before.as_ref().map(|(_, tree)| tree)));
        let told = |status, revision| PublishReport {
            files: manifest.files,
            source: manifest.source.clone(),
            commit: manifest.commit.clone(),
            changes: diff.clone(),
            ..bare(published, status, revision)
        };
        if request.dry_run {
            let (counts, root) = before.map_or((0, None), |(now, _)| (now.revision, Some(now.root)));
            let same = root == Some(manifest.root.clone());
            let status = if same { PublishStatus::Unchanged } else { PublishStatus::Published };
            return Ok(told(status, counts));
        }
        let about = About {
            master: self.core.id.clone(),
            user: request.user.clone(),
            source: String::new(),
            commit: String::new(),
            allow_empty: true,
            uploaded: false,
        };
        let outcome = publisher.roll_back(revision, &about).await?;
        self.tell(published, &outcome, &about);
        Ok(match outcome {
            Outcome::Published { revision: new, moved, bytes } => {
                tracing::info!(
                    revision = new,
                    of = revision,
                    user = request.user,
                    "went back to earlier {}",
                    published.as_str()
                );
                PublishReport { moved: moved as u64, bytes, ..told(PublishStatus::Published, new) }
            }
            Outcome::Unchanged { revision } => told(PublishStatus::Unchanged, revision),
            Outcome::Nothing => told(PublishStatus::Nothing, 0),
        })
    }

    /// The fleet hears of what is new.
    fn tell(&self, published: Published, outcome: &Outcome, about: &About) {
        if let Outcome::Published { revision, .. } = outcome {
            self.core.events.tell(published_event(published, *revision, about, self.core.link.now()));
        }
    }

    /// Another publishes: where its files are not ours, somebody should know (D-14).
    async fn compare(&self, ready: &Ready) -> Result<(), String> {
        let key = Key::Revision(ready.published);
        let found = self.core.link.get::<Revision>(&key).await.map_err(|error| error.to_string())?;
        match found {
            Some(found) if found.value.root != ready.root => {
                let (what, revision) = (ready.published.as_str(), found.value.revision);
                Err(format!("{what} differ from revision {revision}, which another master published"))
            }
            _ => Ok(()),
        }
    }
}
