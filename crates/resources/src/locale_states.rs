//! `locale.present`, `locale.system`: locales that are made, and the one that everybody gets.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::config_text::{self, ConfigText};
use crate::context::{Checking, Explanation};
use crate::file_change::{FileChange, FileWish};
use crate::file_resource::FileResource;
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::{Read, State, Step, Write, slot};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::read_tools::LOCALES;
use zester_host::{Fault, FaultKind, HostRead};

const LOCALE_GEN: &str = "/etc/locale.gen";
const SUPPORTED: &str = "/usr/share/i18n/SUPPORTED";

/// One locale.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Locale {
    /// It can be used.
    made: bool,
    /// The list of those that are made; none where this machine makes none by a list.
    list: ConfigText,
}

/// As `locale -a` spells it: `de_DE.UTF-8` is `de_DE.utf8`.
fn plain(name: &str) -> String {
    let (language, rest) = name.split_once('.').unwrap_or((name, ""));
    let (charset, modifier) =
        rest.split_once('@').map_or((rest, None), |(charset, modifier)| (charset, Some(modifier)));
    let charset: String = charset
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    let dot = if charset.is_empty() { "" } else { "." };
    let modifier = modifier.map(|modifier| format!("@{modifier}")).unwrap_or_default();
    format!("{language}{dot}{charset}{modifier}")
}

/// The line of the list for a locale: its name, and the charset.
fn line_of(name: &str, supported: Option<&str>) -> String {
    let words = name.split_whitespace().collect::<Vec<_>>();
    if let [name, charset] = words.as_slice() {
        return format!("{name} {charset}");
    }
    let known = supported.into_iter().flat_map(str::lines).map(|line| line.trim().replace('/', " "));
    let known = known
        .into_iter()
        .find(|line| line.split_whitespace().next().is_some_and(|own| plain(own) == plain(name)));
    known.unwrap_or_else(|| {
        let charset = name
            .split_once('.')
            .map_or("ISO-8859-1", |(_, charset)| charset.split('@').next().unwrap_or(charset));
        format!("{name} {charset}")
    })
}

/// The list with this locale: a line that was commented out counts again.
fn listed(list: &str, line: &str) -> String {
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let wanted = words(line);
    let mut lines: Vec<String> = list.lines().map(str::to_string).collect();
    if lines.iter().any(|own| words(own) == wanted) {
        return list.to_string();
    }
    let commented = |own: &String| own.trim_start().strip_prefix('#').is_some_and(|own| words(own) == wanted);
    match lines.iter_mut().find(|own| commented(own)) {
        Some(own) => *own = line.to_string(),
        None => lines.push(line.to_string()),
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

impl State for Locale {
    type Key = String;
    type How = ();

    fn item(name: &String) -> ManagedItem {
        ManagedItem::Named("locale", name.clone())
    }

    async fn current(name: &String, cx: &Read<'_>) -> Result<Locale, Fault> {
        let exit = cx.ask(LOCALES, &[]).await?;
        if exit.code != Some(0) {
            return Err(exit.failure("`locale -a`"));
        }
        let name = name.split_whitespace().next().unwrap_or(name);
        let made = exit.stdout.text.lines().any(|own| plain(own.trim()) == plain(name));
        Ok(Locale { made, list: config_text::read(cx.host, Path::new(LOCALE_GEN))? })
    }

    async fn enforce(step: &Step<'_, Locale>, cx: &Write<'_, Locale>) -> Result<(), Fault> {
        let Step { key: name, from, to, .. } = step;
        config_text::write(Path::new(LOCALE_GEN), &from.list, &to.list, cx)?;
        if from.made == to.made && from.list == to.list {
            return Ok(());
        }
        match &to.list {
            Some(_) => cx.run(&["locale-gen"]).await.map(drop),
            None if to.made => {
                let (language, charset) = name.split_once('.').unwrap_or((name, "ISO-8859-1"));
                cx.run(&["localedef", "-i", language, "-f", charset, name]).await.map(drop)
            }
            None => cx.run(&["localedef", "--delete-from-archive", &plain(name)]).await.map(drop),
        }
    }

    fn describe(step: &Step<'_, Locale>, _: bool) -> Explanation {
        let Step { key: name, from, to, .. } = step;
        let mut told = Explanation::default();
        if from.made != to.made {
            let word = |made: bool| if made { "there" } else { "not there" };
            told.diff = format!("the locale {name}: {} → {}\n", word(from.made), word(to.made));
            told.details.insert("locale".into(), json!(name));
        }
        config_text::explain(Path::new(LOCALE_GEN), &from.list, &to.list, &mut told);
        told
    }

    fn predicted(name: &String, host: &dyn HostRead) -> Option<Locale> {
        let made = host.predicted_state(&slot::<Locale>(name))?.downcast_ref::<Locale>()?.made;
        Some(Locale { made, list: config_text::read(host, Path::new(LOCALE_GEN)).ok()? })
    }

    fn predict(name: &String, to: &Locale, overlay: &Overlay) -> Result<(), Fault> {
        overlay.predict_state(slot::<Locale>(name), Arc::new(to.clone()));
        config_text::predict(Path::new(LOCALE_GEN), &to.list, overlay)
    }
}

/// A locale that can be used.
#[params(kind = "locale.present", primary = "name", manual = "locale_present.md")]
pub struct Present {
    /// The locale: `de_DE.UTF-8`.
    name: String,
}

impl Resource for Present {
    type State = Locale;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &Locale, cx: &Checking<'_>) -> Result<Want<Locale>, Fault> {
        // What is compiled into the C library is on no list.
        if now.made && matches!(plain(&self.name).as_str(), "C" | "POSIX" | "C.utf8") {
            return Ok(Want::Same);
        }
        let supported = config_text::read(cx.host, Path::new(SUPPORTED))?;
        let line = line_of(&self.name, supported.as_deref());
        let list = now.list.as_ref().map(|list| listed(list, &line));
        Ok(Want::Be(Locale { made: true, list }))
    }

    fn validate(&self) -> Vec<Invalid> {
        odd_locale(&self.name)
    }

    fn claims(&self) -> Claims {
        Claims::of(Claim::new(Locale::item(&self.key()), "present")).edits(Path::new(LOCALE_GEN))
    }
}

fn odd_locale(name: &str) -> Vec<Invalid> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.@- ".contains(letter);
    let odd = !name.starts_with(|first: char| first.is_ascii_alphabetic()) || !name.chars().all(plain);
    if odd { vec![Invalid::new("name", format!("`{name}` is no locale"))] } else { Vec::new() }
}

/// The locale that everybody gets.
#[params(kind = "locale.system", primary = "name", manual = "locale_system.md")]
pub struct System {
    /// The locale: `de_DE.UTF-8`.
    name: String,
}

/// Where the machine keeps it: Debian at the one place, most others at the other.
fn file(host: &dyn HostRead) -> Result<&'static Path, Fault> {
    let debian = Path::new("/etc/default/locale");
    let others = Path::new("/etc/locale.conf");
    if host.stat_followed(debian)?.is_some()
        || host.stat_followed(Path::new("/etc/debian_version"))?.is_some()
    {
        return Ok(debian);
    }
    Ok(others)
}

/// The text with `LANG` set to this.
fn with_language(text: &str, name: &str) -> String {
    let value = |line: &str| Some(line.trim().strip_prefix("LANG=")?.trim_matches('"').to_string());
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    match lines.iter_mut().find(|line| value(line).is_some()) {
        Some(line) if value(line).as_deref() == Some(name) => return text.to_string(),
        Some(line) => *line = format!("LANG={name}"),
        None => lines.push(format!("LANG={name}")),
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

impl FileResource for System {
    type Drift = FileChange;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        let path = file(cx.host)?;
        let content = |old: Option<&[u8]>| {
            let text = std::str::from_utf8(old.unwrap_or_default()).map_err(|_| {
                Fault::new(FaultKind::Unsupported, format!("{} is not UTF-8 text", path.display()))
            })?;
            let set = with_language(text, &self.name);
            Ok((set != text).then(|| set.into_bytes().into()))
        };
        FileWish { edits: true, makedirs: true, ..FileWish::new(path, &content) }.find(cx)
    }

    fn validate(&self) -> Vec<Invalid> {
        odd_locale(&self.name)
    }

    fn claims(&self) -> Claims {
        let item = ManagedItem::Named("locale of", "the system".to_string());
        Claims::of(Claim::new(item, "set").with("name", Some(&self.name)))
            .edits(Path::new("/etc/default/locale"))
            .edits(Path::new("/etc/locale.conf"))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish, put_text};
    use zester_host::process::fake::{Scripted, command_line, exit};
    // `locale -a` and `locale-gen`, which keep what was made in a file.
    let present = |params, promise, list: &'static str| {
        Case::new("locale.present", params, promise, move |host| {
            furnish(host, "d /etc 0755\nd /books 0755");
            put_text(host, LOCALE_GEN, list);
            put_text(host, "/books/made", "C\nC.utf8\nPOSIX\nen_US.utf8\n");
            let host = Arc::downgrade(host);
            Arc::new(Scripted::new().with(move |launch| {
                let host = host.upgrade()?;
                let read = |path: &str| String::from_utf8(host.read(Path::new(path), 9999).unwrap()).unwrap();
                match command_line(launch).as_str() {
                    "locale -a" => Some(Ok(exit(0, &read("/books/made"), ""))),
                    "locale-gen" => {
                        let list = read(LOCALE_GEN);
                        let names = list
                            .lines()
                            .filter(|line| !line.starts_with('#'))
                            .filter_map(|line| line.split(' ').next());
                        let made: String = ["C", "C.utf8", "POSIX"]
                            .into_iter()
                            .map(str::to_string)
                            .chain(names.map(plain))
                            .map(|name| name + "\n")
                            .collect();
                        put_text(&host, "/books/made", &made);
                        Some(Ok(exit(0, "Generating locales\n", "")))
                    }
                    _ => None,
                }
            }))
        })
        .with_books(&["/books"])
    };
    let system = |promise, world: &'static str| {
        Case::new("locale.system", json!({ "name": "de_DE.UTF-8" }), promise, move |host| {
            furnish(host, world)
        })
    };
    const LIST: &str = "# a list\n# de_DE.UTF-8 UTF-8\nen_US.UTF-8 UTF-8\n";
    vec![
        present(json!({ "name": "de_DE.UTF-8" }), Promise::Converges, LIST),
        present(json!({ "name": "fr_FR.UTF-8" }), Promise::Converges, LIST),
        present(json!({ "name": "en_US.UTF-8" }), Promise::Clean, LIST),
        present(json!({ "name": "C.UTF-8" }), Promise::Clean, LIST),
        system(Promise::Converges, "d /etc 0755"),
        system(Promise::Converges, "d /etc 0755\nd /etc/default 0755\nf /etc/default/locale 0644 LANG=C"),
        system(Promise::Clean, "d /etc 0755\nf /etc/locale.conf 0644 LANG=\"de_DE.UTF-8\""),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_is_the_same_however_its_charset_is_spelt() {
        assert_eq!(plain("de_DE.UTF-8"), plain("de_DE.utf8"));
        assert_eq!(plain("de_DE.ISO-8859-15@euro"), "de_DE.iso885915@euro");
        assert_eq!(line_of("de_DE.UTF-8", None), "de_DE.UTF-8 UTF-8");
        assert_eq!(line_of("de_DE", Some("de_DE.UTF-8 UTF-8\nde_DE ISO-8859-1\n")), "de_DE ISO-8859-1");
    }
}
