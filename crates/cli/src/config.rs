//! Configuration files: the lowest layer but the defaults (C-8). Flag > environment > `--set` > file > default.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use zester_converge::Error;

/// The keys a configuration file may have. An unknown one is an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub states: Option<PathBuf>,
    pub settings: Option<PathBuf>,
    pub facts: Option<PathBuf>,
    pub id: Option<String>,
    pub data_dir: Option<PathBuf>,
    pub concurrency: Option<u32>,
    pub format: Option<String>,
    pub color: Option<bool>,
}

impl Config {
    /// `--config`, else `/etc/zester/*.yaml` in the order of their names, then the user's; then `--set`.
    pub fn read(given: Option<&Path>, sets: &[String]) -> Result<Config, Error> {
        let mut config = Config::default();
        match given {
            Some(path) => config.lay(read_file(path)?),
            None => {
                for path in system_files().into_iter().chain(user_file()) {
                    config.lay(read_file(&path)?);
                }
            }
        }
        for set in sets {
            let (key, value) =
                set.split_once('=').ok_or_else(|| Error::other(format!("--set {set}: write KEY=VALUE")))?;
            let text = format!("{key}: {value}\n");
            config.lay(parse(&text).map_err(|why| Error::other(format!("--set {set}: {why}")))?);
        }
        Ok(config)
    }

    /// What `over` says wins.
    fn lay(&mut self, over: Config) {
        let Config { states, settings, facts, id, data_dir, concurrency, format, color } = over;
        self.states = states.or(self.states.take());
        self.settings = settings.or(self.settings.take());
        self.facts = facts.or(self.facts.take());
        self.id = id.or(self.id.take());
        self.data_dir = data_dir.or(self.data_dir.take());
        self.concurrency = concurrency.or(self.concurrency.take());
        self.format = format.or(self.format.take());
        self.color = color.or(self.color.take());
    }
}

fn parse(text: &str) -> Result<Config, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Config::default());
    }
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

fn read_file(path: &Path) -> Result<Config, Error> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Error::io("read the configuration", path, error))?;
    parse(&text).map_err(|why| Error::other(format!("{}: {why}", path.display())))
}

fn system_files() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/etc/zester") else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files
}

fn user_file() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(base.join("zester/config.yaml")).filter(|path| path.is_file())
}

/// `/var/lib/zester`, or the user's state directory when not root (C-9).
pub fn default_data_dir(root: bool) -> PathBuf {
    if root {
        return PathBuf::from("/var/lib/zester");
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home =
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into())).join(".local/state");
    state.unwrap_or_else(home).join("zester")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c8_an_unknown_key_is_an_error_that_names_it() {
        let error = parse("statse: /srv\n").unwrap_err();
        assert!(error.contains("statse"), "{error}");
        assert!(error.contains("states"), "{error}");
    }

    #[test]
    fn c8_set_overrides_a_file_and_a_later_file_an_earlier() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("c.yaml");
        std::fs::write(&file, "id: from-file\nconcurrency: 3\n").unwrap();
        let config = Config::read(Some(&file), &["id=from-set".into()]).unwrap();
        assert_eq!((config.id.as_deref(), config.concurrency), (Some("from-set"), Some(3)));
        assert!(Config::read(Some(&file), &["nonsense".into()]).is_err());
    }

    #[test]
    fn c8_an_empty_file_is_fine() {
        assert!(parse("# nothing yet\n\n").is_ok());
    }
}
