//! Where the parts of a Salt tree are: states, pillar, Python.

use crate::error::Error;
use std::path::{Path, PathBuf};
use zester_model::limits;

/// Directories of the tree that hold Python for minions and masters.
const PYTHON: [&str; 10] = [
    "_beacons",
    "_engines",
    "_grains",
    "_modules",
    "_outputters",
    "_renderers",
    "_returners",
    "_runners",
    "_states",
    "_utils",
];

/// The parts of one tree.
#[derive(Clone, Debug)]
pub struct Layout {
    pub states: PathBuf,
    pub settings: Option<PathBuf>,
    /// The configuration of the master.
    pub master: Option<PathBuf>,
    /// Files below the states that it names as answers to events.
    pub reactions: Vec<String>,
}

impl Layout {
    /// Looks where people keep them: what a master's configuration says, `salt` and `pillar` beside each other, or the
    /// directory itself.
    pub fn of(root: &Path) -> Layout {
        let places = ["etc/salt/master", "salt/master", "master"];
        let master = places.iter().map(|path| root.join(path)).find(|path| path.is_file());
        let configured = master
            .as_ref()
            .and_then(|path| std::fs::read_to_string(path).ok())
            .and_then(|text| crate::inputs::yaml(&text).ok());
        let named = |key: &str| {
            let path = configured.as_ref()?.get(key)?.get("base")?.get(0)?.as_str()?.to_string();
            // A tree that is looked at elsewhere lies below the directory that is given.
            [root.join(path.trim_start_matches('/')), PathBuf::from(&path)]
                .into_iter()
                .find(|path| path.is_dir())
        };
        let first = |names: &[&str]| names.iter().map(|name| root.join(name)).find(|path| path.is_dir());
        let states = named("file_roots")
            .or_else(|| if root.join("top.sls").is_file() { Some(root.to_path_buf()) } else { None })
            .or_else(|| first(&["srv/salt", "states"]))
            .or_else(|| first(&["salt"]).filter(|path| path.join("top.sls").is_file()))
            .unwrap_or_else(|| root.to_path_buf());
        let settings = named("pillar_roots").or_else(|| first(&["srv/pillar", "pillar"]));
        let beside = states.parent().map(|parent| parent.join("pillar")).filter(|path| path.is_dir());
        let reactions = configured.as_ref().map(super::apart::named_reactions).unwrap_or_default();
        Layout { settings: settings.or(beside), states, master, reactions }
    }

    /// Every state file, by its path below the states.
    pub fn state_files(&self) -> Result<Vec<String>, Error> {
        let mut found = walk(&self.states, &|path| {
            path.extension().is_some_and(|ending| ending == "sls" || ending == "zy")
        })?;
        // A pillar inside the tree of states is no state.
        if let Some(below) = self.settings.as_ref().and_then(|path| path.strip_prefix(&self.states).ok()) {
            found.retain(|path| !Path::new(path).starts_with(below));
        }
        Ok(found)
    }

    /// Every file of Python that a minion or master would load.
    pub fn python_files(&self) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        for directory in PYTHON {
            let path = self.states.join(directory);
            if path.is_dir() {
                let files = walk(&path, &|path| path.extension().is_some_and(|ending| ending == "py"))?;
                found.extend(files.into_iter().map(|file| format!("{directory}/{file}")));
            }
        }
        Ok(found)
    }
}

/// The files below a directory that fit, sorted; hidden ones are none of them.
fn walk(root: &Path, fits: &dyn Fn(&Path) -> bool) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut rest = vec![root.to_path_buf()];
    while let Some(directory) = rest.pop() {
        let fail = |error| Error::io("list", &directory, error);
        for entry in std::fs::read_dir(&directory).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let path = entry.path();
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if entry.file_type().map_err(fail)?.is_dir() {
                rest.push(path);
            } else if fits(&path) {
                found.push(path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned());
            }
        }
        if found.len() > limits::FILES_MAX {
            return Err(Error::other(format!(
                "{} holds more than {} files",
                root.display(),
                limits::FILES_MAX
            )));
        }
    }
    found.sort();
    Ok(found)
}
