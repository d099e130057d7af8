//! The settings of each peel as its facts make them, for `I@` targets (D-8): of the revision that the peels have; of this master's
//! own directory only where it is known that none is published. Nothing is opened here: a value that is sealed in the files stays
//! sealed. Whoever may publish wrote the templates, so they see nothing of this machine.

use super::external::External;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_converge::functions::{Access, CallContext, TemplateFunctions};
use zester_converge::inputs::Renderers;
use zester_converge::local_host::LocalHost;
use zester_converge::settings::{Reading, SettingsRequest, resolve};
use zester_health::Health;
use zester_link::Link;
use zester_master::{ExternalSettings, SettingsOf};
use zester_model::merge::Merge;
use zester_peel::published::{DiskCache, Freshness, Learned, Pinned};
use zester_publish::Cache;
use zester_wire::{PeelId, Published, Revision};

/// The name of its copy in `/readyz`.
const CHECK: &str = "settings copy";

/// How often the directory is looked at for changes.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Files that are looked at for changes; a directory with more is one that nobody meant.
const FILES_LOOKED_AT: usize = 10_000;
/// Peels whose settings are kept; beyond, they are rendered again.
const KEPT_MAX: usize = 20_000;

pub struct Rendered {
    /// The revision that counts.
    published: Option<Arc<DiskCache>>,
    /// Whether that is known, once there is a bus.
    freshness: OnceLock<Freshness>,
    /// What this master has of its own.
    path: Option<PathBuf>,
    merge: Merge,
    external: Option<Arc<External>>,
    local_host: LocalHost,
    never: CancellationToken,
    cache: Mutex<SettingsCache>,
}

#[derive(Default)]
struct SettingsCache {
    looked: Option<Instant>,
    /// When the newest file was changed, and how many there are.
    stamp: [Option<(SystemTime, usize)>; 2],
    counts: Option<Revision>,
    peels: BTreeMap<PeelId, (Value, Result<Value, String>)>,
}

impl Rendered {
    pub fn new(
        published: Option<Arc<DiskCache>>,
        path: Option<PathBuf>,
        merge: Merge,
        external: Option<Arc<External>>,
        local_host: LocalHost,
    ) -> Rendered {
        let (never, cache, freshness) = (CancellationToken::new(), Mutex::default(), OnceLock::new());
        Rendered { published, freshness, path, merge, external, local_host, never, cache }
    }

    /// Keeps the revision that counts up to date. Never ends by itself.
    pub async fn follow(&self, link: Link, health: Arc<Health>) {
        if let Some(cache) = self.published.clone() {
            let freshness = self.freshness.get_or_init(|| Freshness::new(link.bus().clone())).clone();
            freshness.follow(link, Published::Settings, CHECK, cache, health).await;
        }
        std::future::pending().await
    }

    /// Where the settings of the peels are, and whether they are published. None: there are none.
    fn tree(&self) -> Result<Option<(PathBuf, Option<Pinned>)>, String> {
        let Some(published) = &self.published else { return Ok(self.path.clone().map(|own| (own, None))) };
        if let Some(pinned) = published.pin() {
            return Ok(Some((pinned.path.clone(), Some(pinned))));
        }
        match self.freshness.get().and_then(Freshness::learned) {
            Some(Learned::Nothing) => Ok(self.path.clone().map(|own| (own, None))),
            Some(Learned::Failed(why)) => Err(why),
            Some(Learned::InPlace) | None => {
                Err("this master does not know yet which settings are published".into())
            }
        }
    }

    /// Forgets everything when the files have changed.
    fn cache(&self) -> MutexGuard<'_, SettingsCache> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            let external = self.external.as_ref().and_then(|external| stamp(external.kept()));
            let stamp = [self.path.as_deref().and_then(stamp), external];
            if stamp != cache.stamp {
                cache.peels.clear();
                cache.stamp = stamp;
            }
            cache.looked = Some(Instant::now());
        }
        let counts = self.published.as_ref().and_then(|published| published.current());
        if counts != cache.counts {
            cache.peels.clear();
            cache.counts = counts;
        }
        cache
    }

    fn render(&self, peel: &PeelId, facts: &Value) -> Result<Value, String> {
        let none = Value::Object(Map::new());
        let place = CallContext::here(&self.local_host, facts, &none, &self.never);
        let functions = TemplateFunctions { place, allowed: Access::Told, renderers: Renderers::default() };
        let Some((path, pinned)) = self.tree()? else { return Ok(none) };
        // What is said from outside is published with the settings.
        let external = self.external.as_ref().filter(|_| pinned.is_none());
        let external = external.and_then(|external| external.text(peel));
        let external = external.as_deref();
        let reading = Reading { facts, functions: &functions, id: peel.as_str(), external };
        let request = SettingsRequest {
            path: Some(path),
            merge: self.merge,
            published: pinned.is_some(),
            ..SettingsRequest::default()
        };
        let rendered = resolve(&request, None, &reading);
        rendered.map(|settings| settings.values).map_err(|error| {
            let why = match &error {
                zester_converge::Error::Diagnostics { diagnostics, sources } => diagnostics
                    .first()
                    .map(|diagnostic| diagnostic.report(sources).message)
                    .unwrap_or_default(),
                other => other.to_string(),
            };
            tracing::warn!(%peel, "its settings do not render, so no target with `I@` means it: {why}");
            why
        })
    }
}

impl SettingsOf for Rendered {
    fn unknown(&self) -> Option<String> {
        self.tree().err()
    }

    fn settings(&self, peel: &PeelId, facts: &Value) -> Result<Value, String> {
        let counts = {
            let cache = self.cache();
            if let Some((of, settings)) = cache.peels.get(peel)
                && of == facts
            {
                return settings.clone();
            }
            cache.counts.clone()
        };
        let settings = self.render(peel, facts);
        let mut cache = self.cache();
        // Of which revision it is, nobody knows; nor whether it stays so, before a revision counts.
        if cache.counts != counts || (settings.is_err() && cache.counts.is_none()) {
            return settings;
        }
        if cache.peels.len() >= KEPT_MAX {
            cache.peels.clear();
        }
        cache.peels.insert(peel.clone(), (facts.clone(), settings.clone()));
        settings
    }

    fn external(&self) -> Option<Arc<dyn ExternalSettings>> {
        self.external.clone().map(|external| external as Arc<dyn ExternalSettings>)
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, usize)> {
    let (mut newest, mut count) = (SystemTime::UNIX_EPOCH, 0);
    let mut left = vec![path.to_path_buf()];
    while let Some(path) = left.pop() {
        let meta = std::fs::metadata(&path).ok()?;
        newest = newest.max(meta.modified().ok()?);
        count += 1;
        if meta.is_dir() && count < FILES_LOOKED_AT {
            left.extend(std::fs::read_dir(&path).ok()?.filter_map(|entry| Some(entry.ok()?.path())));
        }
    }
    Some((newest, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    #[tokio::test(start_paused = true)]
    #[rule("D-8")]
    async fn d8_settings_follow_the_facts_of_each_peel_and_the_files() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("a.zy");
        std::fs::write(&file, "role: {{ grains.role }}\n").unwrap();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: tokio::runtime::Handle::current(),
            events: None,
        };
        let own = Some(temp.path().to_path_buf());
        let rendered = Rendered::new(None, own, Merge::Smart, None, local_host);
        let peel = PeelId::parse("web-1").unwrap();
        assert_eq!(rendered.settings(&peel, &json!({"role": "db"})), Ok(json!({"role": "db"})));
        assert_eq!(rendered.settings(&peel, &json!({"role": "web"})), Ok(json!({"role": "web"})));
        // A second file changes the count, whatever the clock of the file system says.
        std::fs::write(temp.path().join("b.zy"), "more: 1\n").unwrap();
        tokio::time::advance(LOOK_EVERY).await;
        let settings = rendered.settings(&peel, &json!({"role": "web"}));
        assert_eq!(settings, Ok(json!({"role": "web", "more": 1})));
        std::fs::write(&file, "role: {{ broken\n").unwrap();
        std::fs::write(temp.path().join("c.zy"), "").unwrap();
        tokio::time::advance(LOOK_EVERY).await;
        assert!(rendered.settings(&peel, &json!({"role": "web"})).is_err());
    }

    #[tokio::test]
    #[rule("D-12")]
    async fn d12_a_template_of_the_settings_sees_nothing_of_the_master() {
        let temp = tempfile::tempdir().unwrap();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: tokio::runtime::Handle::current(),
            events: None,
        };
        let own = Some(temp.path().to_path_buf());
        let rendered = Rendered::new(None, own, Merge::Smart, None, local_host);
        for (n, call) in ["file.read']('/etc/passwd", "environ.get']('PATH"].into_iter().enumerate() {
            std::fs::write(temp.path().join("a.zy"), format!("leak: {{{{ salt['{call}') }}}}\n")).unwrap();
            let peel = PeelId::parse(&format!("web-{n}")).unwrap();
            assert!(rendered.settings(&peel, &json!({})).is_err(), "{call}");
        }
    }

    const PATIENCE: Duration = Duration::from_secs(20);

    struct Held;

    impl zester_publish::Fence for Held {
        fn holds(&self) -> bool {
            true
        }
    }

    /// What the directory of this master holds may be refused, or not yet published, or another master publishes.
    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-8")]
    async fn d8_the_revision_that_the_peels_have_counts_and_not_the_directory_of_this_master() {
        use zester_bus::memory::{Net, TokioClock};
        use zester_publish::{About, Publisher, Reader, Tree, TreePath, file_of};
        use zester_wire::{MasterId, Published};
        let temp = tempfile::tempdir().unwrap();
        let own = temp.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("a.zy"), "role: mine\n").unwrap();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: tokio::runtime::Handle::current(),
            events: None,
        };
        let cache = Arc::new(DiskCache::open(&temp.path().join("published")).unwrap());
        let rendered = Rendered::new(Some(cache.clone()), Some(own), Merge::Smart, None, local_host);
        let (peel, facts) = (PeelId::parse("web-1").unwrap(), json!({}));
        // Not to know is not to know that there are none.
        let unknown = rendered.settings(&peel, &facts).unwrap_err();
        assert!(unknown.contains("does not know yet"), "{unknown}");
        let bus = Net::new(Arc::new(TokioClock::new())).connect("test");
        zester_bus::storage::ensure_all(&bus, &zester_bus::storage::table(), 1).await.unwrap();
        let (link, published) = (zester_link::Link::new(Arc::new(bus)), Published::Settings);
        let rendered = Arc::new(rendered);
        let (follower, health) = (rendered.clone(), Arc::new(Health::new()));
        let following = tokio::spawn({
            let (link, health) = (link.clone(), health.clone());
            async move { follower.follow(link, health).await }
        });
        let mine = || rendered.settings(&peel, &facts) == Ok(json!({"role": "mine"}));
        let known = || std::future::ready(mine().then_some(()));
        zester_testkit::wait_until("it is known that nothing is published", PATIENCE, known).await;
        assert_eq!(health.state(CHECK), Some(zester_health::State::Up));
        following.abort();
        let about = About {
            master: MasterId::parse("m2.boot").unwrap(),
            user: String::new(),
            source: String::new(),
            commit: String::new(),
            allow_empty: false,
            uploaded: false,
        };
        for (role, rack) in [("theirs", "a"), ("theirs", "b")] {
            let files: BTreeMap<TreePath, Vec<u8>> =
                [("a.zy", format!("role: {role}\n")), ("_ext/web-1.zy", format!("#!yaml\nrack: {rack}\n"))]
                    .into_iter()
                    .map(|(name, text)| (TreePath::parse(name).unwrap(), text.into_bytes()))
                    .collect();
            let tree = files.iter().map(|(path, content)| (path.clone(), file_of(content, 0o644)));
            let tree = Tree { files: tree.collect() };
            let publisher = Publisher { link: &link, published, fence: &Held };
            publisher.publish(&tree, &files, &about).await.unwrap();
            Reader { link: &link, published, cache: cache.as_ref() }.look().await.unwrap();
            assert_eq!(rendered.settings(&peel, &facts), Ok(json!({"role": role, "rack": rack})));
        }
    }
}
