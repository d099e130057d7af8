//! References to files below the states dir (S-4): `web`, `web.config`, `.config`, `web/config.zy`, `salt://…`.

use crate::Tree;
use zester_model::suggest::did_you_mean;

const ENDINGS: [&str; 2] = [".zy", ".sls"];
const PATH_ENDINGS: [&str; 4] = [".zy", ".yaml", ".yml", ".sls"];

/// Takes `.` and `..` out of a path; `None` if it is absolute, empty, or leaves the dir.
pub fn normalise(path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains('\0') || path.contains('\\') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// The reference that names a path: `web/init.zy` is `web`, `web/config.zy` is `web.config`.
pub fn name_of(path: &str) -> String {
    let bare = PATH_ENDINGS.iter().find_map(|ending| path.strip_suffix(ending)).unwrap_or(path);
    let bare = bare.strip_suffix("/init").unwrap_or(bare);
    bare.replace('/', ".")
}

pub fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn is_path(reference: &str) -> bool {
    reference.contains('/') || PATH_ENDINGS.iter().any(|ending| reference.ends_with(ending))
}

/// Finds the one file that a reference names. `from` is the path of the file that names it.
pub fn find(tree: &dyn Tree, reference: &str, from: Option<&str>) -> Result<String, Failure> {
    if reference.is_empty() {
        let hint = "name a file, as in `web.config` or `web/config.zy`";
        return Err(Failure::new("an empty word is no reference".into()).hint(hint.to_string()));
    }
    let outside = || {
        Failure::new(format!("`{reference}` leaves the {}", tree.called()))
            .hint("name a file below it, as in `web.config` or `web/config.zy`".to_string())
    };
    let scheme = ["salt://", "zester://"].iter().find_map(|scheme| reference.strip_prefix(scheme));
    if let Some(bare) = scheme.or_else(|| is_path(reference).then_some(reference)) {
        let path = normalise(bare).ok_or_else(outside)?;
        if PATH_ENDINGS.iter().any(|ending| path.ends_with(ending)) {
            return match tree.exists(&path) {
                true => Ok(path),
                false => Err(Failure::new(format!("there is no file `{path}`")).suggest(tree, &path, false)),
            };
        }
        return dotted(tree, reference, &path);
    }
    let stem = relative(reference, from).ok_or_else(outside)?;
    dotted(tree, reference, &stem)
}

/// The path without its ending that a dotted reference stands for.
fn relative(reference: &str, from: Option<&str>) -> Option<String> {
    let bare = reference.trim_start_matches('.');
    let dots = reference.len() - bare.len();
    let below = bare.replace('.', "/");
    if dots == 0 {
        return normalise(&below);
    }
    let mut directory = directory_of(from.unwrap_or(""));
    for _ in 1..dots {
        if directory.is_empty() {
            return None;
        }
        directory = directory_of(directory);
    }
    normalise(&format!("./{directory}/{below}"))
}

fn dotted(tree: &dyn Tree, reference: &str, stem: &str) -> Result<String, Failure> {
    let candidates: Vec<String> = ENDINGS
        .iter()
        .flat_map(|ending| [format!("{stem}{ending}"), format!("{stem}/init{ending}")])
        .collect();
    let found: Vec<&String> = candidates.iter().filter(|path| tree.exists(path)).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let message = format!(
                "there is no file for `{reference}`: looked for `{stem}.zy` and `{stem}/init.zy`, and the same with \
                 `.sls`"
            );
            Err(Failure::new(message).suggest(tree, &name_of(stem), true))
        }
        // Salt looks for the file before the directory, and so do its trees.
        [file, init] if file.ends_with(".sls") && init.ends_with("/init.sls") => Ok((*file).clone()),
        several => {
            let names: Vec<String> = several.iter().map(|path| format!("`{path}`")).collect();
            Err(Failure::new(format!("`{reference}` is ambiguous: {} exist", names.join(" and ")))
                .hint("keep one of them".to_string()))
        }
    }
}

/// Why a reference names no file.
#[derive(Debug, PartialEq)]
pub struct Failure {
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    fn new(message: String) -> Failure {
        Failure { message, hint: None }
    }

    fn hint(mut self, hint: String) -> Failure {
        self.hint = Some(hint);
        self
    }

    fn suggest(mut self, tree: &dyn Tree, wrong: &str, as_reference: bool) -> Failure {
        let files = tree.files();
        let states = files.iter().filter(|path| PATH_ENDINGS.iter().any(|ending| path.ends_with(ending)));
        let known: Vec<String> =
            states.map(|path| if as_reference { name_of(path) } else { path.clone() }).collect();
        self.hint = did_you_mean(wrong, known.iter().map(String::as_str));
        self
    }
}
