//! `settings_ext` of a master: a program or a directory that says more of each peel than the settings files do (D-6).
//!
//! What it says is kept below the data directory, a file a peel, and published with the settings as `_ext/<peel>.zy`. It counts
//! only whole: what is no map of settings changes nothing.

use std::collections::BTreeSet;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_converge::data_dir::replace_file;
use zester_converge::local_host::LocalHost;
use zester_converge::settings::{EXTERNAL_DIR, external_file};
use zester_host::Launch;
use zester_master::{ExternalSettings, Refreshing};
use zester_model::source::FileId;
use zester_wire::PeelId;

/// How long the program may take for one peel.
const TIME_MAX: Duration = Duration::from_secs(10);
/// How much it may say of one peel.
const BYTES_MAX: usize = 1 << 20;
/// Where it is kept, below the data directory.
const KEPT: &str = "settings_ext";
/// What the files of a directory may end in.
const ENDINGS: [&str; 4] = ["zy", "yaml", "yml", "json"];

pub struct External {
    /// The program, or the directory.
    from: PathBuf,
    kept: PathBuf,
    /// How long the program may take for one peel.
    time_max: Duration,
    local_host: LocalHost,
    never: CancellationToken,
}

impl External {
    pub fn open(from: PathBuf, data_dir: &Path, local_host: LocalHost) -> Result<External, String> {
        let found = std::fs::metadata(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        if !found.is_dir() && found.permissions().mode() & 0o111 == 0 {
            return Err(format!("{} is neither a directory nor a program", from.display()));
        }
        let from = std::path::absolute(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        let kept = data_dir.join(KEPT);
        let files = kept.join(EXTERNAL_DIR);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&files);
        made.map_err(|error| format!("{}: {error}", files.display()))?;
        Ok(External { from, kept, time_max: TIME_MAX, local_host, never: CancellationToken::new() })
    }

    /// The directory that is published with the settings.
    pub fn kept(&self) -> &Path {
        &self.kept
    }

    /// What is known of a peel.
    pub fn text(&self, peel: &PeelId) -> Option<String> {
        std::fs::read_to_string(self.kept.join(external_file(peel.as_str())?)).ok()
    }

    async fn said(&self, peel: &PeelId) -> Result<Option<String>, String> {
        match self.from.is_dir() {
            true => self.by_directory(peel),
            false => self.by_program(peel).await.map(Some),
        }
    }

    /// Disks that are not mounted look like directories without a file: then nothing that was known is taken back (D-2).
    fn by_directory(&self, peel: &PeelId) -> Result<Option<String>, String> {
        let said = in_directory(&self.from, peel)?;
        if said.is_none() && self.text(peel).is_some() && holds_no_file(&self.from)? {
            return Err(format!("{} holds no file of any peel", self.from.display()));
        }
        Ok(said)
    }

    async fn by_program(&self, peel: &PeelId) -> Result<String, String> {
        let launch = Launch {
            cwd: Some("/".into()),
            timeout: Some(self.time_max),
            output_kept: BYTES_MAX,
            leaves_nothing: true,
            ..Launch::argv([self.from.display().to_string(), peel.to_string()])
        };
        let exit = self.local_host.processes.run(&launch, None, &self.never).await;
        let exit = exit.map_err(|fault| format!("cannot be started: {}", fault.message))?;
        let last = exit.stderr.text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        match exit.code {
            _ if exit.timed_out => Err(format!("took longer than {} s", self.time_max.as_secs_f32())),
            _ if exit.stdout.truncated => Err(format!("printed more than {BYTES_MAX} bytes")),
            Some(0) if exit.stdout.lossy => Err("printed what is not UTF-8".to_string()),
            Some(0) => Ok(exit.stdout.text),
            Some(code) => Err(format!("failed (exit code {code}) {last}").trim_end().to_string()),
            None => Err(format!("was killed {last}").trim_end().to_string()),
        }
    }

    fn put(&self, peel: &PeelId, said: Option<String>) -> Result<(), String> {
        let Some(file) = external_file(peel.as_str()) else { return Ok(()) };
        let path = self.kept.join(file);
        let Some(said) = said else {
            return match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
                _ => Ok(()),
            };
        };
        let text = settings_file(&said)?;
        if std::fs::read_to_string(&path).is_ok_and(|held| held == text) {
            return Ok(());
        }
        replace_file(&path, text.as_bytes()).map_err(|error| error.to_string())
    }
}

/// The file of a peel, if there is one.
fn in_directory(directory: &Path, peel: &PeelId) -> Result<Option<String>, String> {
    let paths = ENDINGS.map(|ending| directory.join(format!("{peel}.{ending}")));
    let found: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
    match found.as_slice() {
        [] => Ok(None),
        [path] => {
            let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
            if size > BYTES_MAX as u64 {
                return Err(format!("{} has more than {BYTES_MAX} bytes", path.display()));
            }
            std::fs::read_to_string(path).map(Some).map_err(|error| format!("{}: {error}", path.display()))
        }
        [first, second, ..] => Err(format!("both {} and {} exist", first.display(), second.display())),
    }
}

/// Whether it says nothing of anybody.
fn holds_no_file(directory: &Path) -> Result<bool, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A settings file that says this and is no template, whatever stands in it; an error where it is no map.
fn settings_file(said: &str) -> Result<String, String> {
    let node = zester_compile::parse_yaml(FileId(0), said).map_err(|diagnostics| {
        let first = diagnostics.first();
        let line = first.and_then(|first| first.span).map_or(1, |span| span.line);
        format!("line {line}: {}", first.map_or("not YAML", |first| first.message.as_str()))
    })?;
    match node.is_null() || node.as_map().is_some() {
        true => Ok(format!("#!yaml\n{said}")),
        false => Err(format!("settings must be a map of names to values, not {}", node.describe())),
    }
}

impl ExternalSettings for External {
    fn refresh(&self, peel: PeelId) -> Refreshing<'_> {
        Box::pin(async move {
            let said = self.said(&peel).await?;
            self.put(&peel, said)
        })
    }

    fn keep_only(&self, known: &BTreeSet<PeelId>) {
        let wanted: BTreeSet<String> = known.iter().filter_map(|peel| external_file(peel.as_str())).collect();
        let Ok(entries) = std::fs::read_dir(self.kept.join(EXTERNAL_DIR)) else { return };
        for entry in entries.flatten() {
            let below = format!("{EXTERNAL_DIR}/{}", entry.file_name().to_string_lossy());
            if !wanted.contains(&below) {
                let _stays_until_the_next_round = std::fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use zester_rule::rule;

    struct Place {
        temp: tempfile::TempDir,
    }

    impl Place {
        fn program(body: &str) -> (Place, External) {
            let place = Place { temp: tempfile::tempdir().unwrap() };
            place.write_program(body);
            let external = place.open("program");
            (place, external)
        }

        fn write_program(&self, body: &str) {
            let path = self.temp.path().join("program");
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn open(&self, from: &str) -> External {
            let local_host = LocalHost {
                files: Arc::new(zester_host::real::Real::new()),
                processes: Arc::new(zester_host::process::Runner::new()),
                handle: tokio::runtime::Handle::current(),
                events: None,
            };
            External::open(self.temp.path().join(from), &self.temp.path().join("data"), local_host).unwrap()
        }
    }

    fn peel() -> PeelId {
        PeelId::parse("web-1").unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-6")]
    async fn d6_what_a_program_says_is_kept_and_what_is_wrong_changes_nothing() {
        let (place, external) = Place::program("echo \"peel: $1\"; echo \"t: '{{ x }}'\"");
        external.refresh(peel()).await.unwrap();
        let good = "#!yaml\npeel: web-1\nt: '{{ x }}'\n";
        assert_eq!(external.text(&peel()).as_deref(), Some(good));
        for (body, why) in [
            ("echo oops >&2; exit 3", "failed (exit code 3) oops"),
            ("echo '- a list'", "settings must be a map of names to values, not a list"),
            ("echo 'a: [1'", "line 1: a `[` is never closed"),
            ("head -c 2000000 /dev/zero | tr '\\0' x", "printed more than 1048576 bytes"),
        ] {
            place.write_program(body);
            let told = external.refresh(peel()).await.unwrap_err();
            assert!(told.starts_with(why), "{told}");
            assert_eq!(external.text(&peel()).as_deref(), Some(good), "{body}");
        }
        external.keep_only(&BTreeSet::new());
        assert_eq!(external.text(&peel()), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-6")]
    async fn d6_a_program_that_does_not_end_is_ended_and_what_was_known_stays() {
        let (place, mut external) = Place::program("echo 'a: 1'");
        external.refresh(peel()).await.unwrap();
        place.write_program("exec sleep 600");
        external.time_max = Duration::from_millis(500);
        let told = external.refresh(peel()).await.unwrap_err();
        assert_eq!(told, "took longer than 0.5 s");
        assert_eq!(external.text(&peel()).as_deref(), Some("#!yaml\na: 1\n"));
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-6")]
    async fn d6_a_directory_has_a_file_a_peel() {
        let place = Place { temp: tempfile::tempdir().unwrap() };
        let directory = place.temp.path().join("dir");
        std::fs::create_dir(&directory).unwrap();
        let external = place.open("dir");
        external.refresh(peel()).await.unwrap();
        assert_eq!(external.text(&peel()), None);
        std::fs::write(directory.join("web-1.yaml"), "a: 1\n").unwrap();
        external.refresh(peel()).await.unwrap();
        assert_eq!(external.text(&peel()).as_deref(), Some("#!yaml\na: 1\n"));
        std::fs::write(directory.join("web-1.zy"), "a: 2\n").unwrap();
        assert!(external.refresh(peel()).await.unwrap_err().starts_with("both "));
        std::fs::write(directory.join("web-2.json"), "").unwrap();
        for name in ["web-1.yaml", "web-1.zy"] {
            std::fs::remove_file(directory.join(name)).unwrap();
        }
        external.refresh(peel()).await.unwrap();
        assert_eq!(external.text(&peel()), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-2", "D-6")]
    async fn d2_a_directory_that_lost_all_its_files_or_is_gone_takes_nothing_back() {
        let place = Place { temp: tempfile::tempdir().unwrap() };
        let directory = place.temp.path().join("dir");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("web-1.yaml"), "a: 1\n").unwrap();
        let external = place.open("dir");
        external.refresh(peel()).await.unwrap();
        std::fs::remove_file(directory.join("web-1.yaml")).unwrap();
        std::fs::write(directory.join("README"), "").unwrap();
        let told = external.refresh(peel()).await.unwrap_err();
        assert_eq!(told, format!("{} holds no file of any peel", directory.display()));
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(external.refresh(peel()).await.is_err());
        assert_eq!(external.text(&peel()).as_deref(), Some("#!yaml\na: 1\n"));
    }
}
