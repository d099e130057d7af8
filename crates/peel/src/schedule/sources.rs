//! The two sources of a schedule as one: which entries are in force, and what is wrong.
//!
//! What a source last said well stays in force until it says something else well. Until it has spoken at all in this life, what
//! is remembered of its entries waits for it, and so do entries of the other source that it may have under the same names.

use super::looks::{Given, SourceName, SourceUpdate, given_again};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use zester_schedule::Entry;
use zester_schedule::limits::ENTRIES_MAX;

#[derive(Default)]
struct Source {
    /// What it last said well, in this life or, where it says nothing good, in an earlier one.
    said: Option<Given>,
    /// The same, as far as there is room for it.
    in_force: Option<Given>,
    /// What is kept of it on disk.
    kept: Value,
    problem: Option<String>,
    /// It has said something, good or bad.
    spoke: bool,
    /// What it says from now on is a change, and not the start of the peel.
    settled: bool,
}

impl Source {
    /// What may be in force, the best first.
    fn candidates(&self, name: SourceName, zone: &str) -> Vec<Option<Given>> {
        if !self.spoke {
            return vec![None];
        }
        let kept = given_again(&self.kept, name.word(), zone).ok();
        let known: Vec<Option<Given>> =
            [self.said.clone(), self.in_force.clone(), kept].into_iter().filter(Option::is_some).collect();
        if known.is_empty() { vec![None] } else { known }
    }
}

pub(crate) struct Sources {
    file: Source,
    settings: Source,
    zone: String,
    /// That both have more entries than may be.
    too_many: Option<String>,
}

/// The schedule of both.
pub(crate) struct Joined {
    pub(crate) entries: Vec<Entry>,
    /// One of them has none in force yet.
    pub(crate) awaited: bool,
    /// Names of entries of those for which this is the start.
    pub(crate) late: BTreeSet<String>,
}

impl Sources {
    /// With what each of them said well in an earlier life.
    pub(crate) fn new(file: Value, settings: Value, zone: &str) -> Sources {
        let source = |kept| Source { kept, ..Source::default() };
        Sources { file: source(file), settings: source(settings), zone: zone.into(), too_many: None }
    }

    /// There is no file, and there will be none.
    pub(crate) fn without_file(mut self) -> Sources {
        let none = Some(Given::default());
        self.file =
            Source { said: none.clone(), in_force: none, spoke: true, settled: true, ..Source::default() };
        self
    }

    /// What is to be kept on disk of the file and of the settings.
    pub(crate) fn kept(&self) -> (Value, Value) {
        (self.file.kept.clone(), self.settings.kept.clone())
    }

    pub(crate) fn all_spoke(&self) -> bool {
        self.file.spoke && self.settings.spoke
    }

    /// Takes what a look found, and says what is in force now.
    pub(crate) fn take(&mut self, update: SourceUpdate) -> Joined {
        let withheld: Vec<String> = self.withheld().map(|entry| entry.name.clone()).collect();
        let source = match update.source {
            SourceName::File => &mut self.file,
            SourceName::Settings => &mut self.settings,
        };
        source.spoke = true;
        let mut settles = false;
        match update.found {
            Ok(given) => {
                (source.said, source.problem) = (Some(given), None);
                settles = update.complete;
            }
            Err(why) => {
                source.problem = Some(why);
                if source.said.is_none() {
                    source.said = given_again(&source.kept, update.source.word(), &self.zone).ok();
                }
            }
        }
        self.join();
        let mut joined = self.joined();
        joined.late.extend(withheld);
        let source = match update.source {
            SourceName::File => &mut self.file,
            SourceName::Settings => &mut self.settings,
        };
        source.settled |= settles;
        joined
    }

    /// What both say comes into force, if there is room for it; else as much as possible of it beside what was.
    fn join(&mut self) {
        let wanted = count(self.file.said.as_ref(), self.settings.said.as_ref());
        self.too_many = (wanted > ENTRIES_MAX)
            .then(|| format!("file and settings together have {wanted} entries; {ENTRIES_MAX} are the most"));
        let files = self.file.candidates(SourceName::File, &self.zone);
        let settings = self.settings.candidates(SourceName::Settings, &self.zone);
        let pairs = files.iter().flat_map(|file| settings.iter().map(move |settings| (file, settings)));
        // Where nothing else has room, the file of the machine has.
        let alone = files.iter().map(|file| (file, &None));
        let fits =
            |pair: &(&Option<Given>, &Option<Given>)| count(pair.0.as_ref(), pair.1.as_ref()) <= ENTRIES_MAX;
        let Some((file, settings)) = pairs.chain(alone).find(fits) else { return };
        let (file, settings) = (file.clone(), settings.clone());
        let all_spoke = self.all_spoke();
        for (source, chosen) in [(&mut self.file, file), (&mut self.settings, settings)] {
            // Before both have spoken nobody knows whether there is room for this.
            if let Some(given) = chosen.as_ref().filter(|_| all_spoke) {
                source.kept = given.value.clone();
            }
            source.in_force = chosen;
        }
    }

    /// What settings that have not spoken may have too: it would begin as one entry and go on as another.
    fn withheld(&self) -> impl Iterator<Item = &Entry> {
        let is_expected =
            |name: &str| self.settings.in_force.is_none() && self.settings.kept.get(name).is_some();
        entries(&self.file).iter().filter(move |entry| is_expected(&entry.name))
    }

    /// Of two entries of one name that of the settings counts.
    pub(crate) fn joined(&self) -> Joined {
        let withheld: BTreeSet<&str> = self.withheld().map(|entry| entry.name.as_str()).collect();
        let file = entries(&self.file).iter().filter(|entry| !withheld.contains(entry.name.as_str()));
        let by_name: BTreeMap<&str, &Entry> =
            file.chain(entries(&self.settings)).map(|entry| (entry.name.as_str(), entry)).collect();
        let starting = [&self.file, &self.settings].into_iter().filter(|source| !source.settled);
        Joined {
            late: starting.flat_map(entries).map(|entry| entry.name.clone()).collect(),
            awaited: self.file.in_force.is_none() || self.settings.in_force.is_none(),
            entries: by_name.into_values().cloned().collect(),
        }
    }

    /// What is wrong with them now.
    pub(crate) fn problem(&self) -> Option<String> {
        let told = [&self.file.problem, &self.settings.problem, &self.too_many];
        let told: Vec<&str> = told.into_iter().filter_map(Option::as_deref).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

fn entries(source: &Source) -> &[Entry] {
    source.in_force.as_ref().map_or(&[], |given| &given.entries)
}

/// How many entries two sources make.
fn count(file: Option<&Given>, settings: Option<&Given>) -> usize {
    let both = file.into_iter().chain(settings).flat_map(|given| &given.entries);
    both.map(|entry| entry.name.as_str()).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    /// Entries that run every so many hours.
    fn value(names: impl IntoIterator<Item = String>, hours: u64) -> Value {
        let entry = json!({"function": "test.ping", "hours": hours});
        Value::Object(names.into_iter().map(|name| (name, entry.clone())).collect())
    }

    fn many(letter: char, count: usize) -> Value {
        value((0..count).map(|number| format!("{letter}{number}")), 1)
    }

    fn update(source: SourceName, found: Result<&Value, &str>) -> SourceUpdate {
        let found = found.map(|value| given_again(value, source.word(), "UTC").unwrap());
        SourceUpdate { source, found: found.map_err(str::to_string), complete: true }
    }

    fn names(joined: &Joined) -> Vec<String> {
        joined.entries.iter().map(|entry| format!("{} {}", entry.name, entry.when.text())).collect()
    }

    #[test]
    #[rule("D-10")]
    fn d10_a_source_that_has_not_spoken_holds_nothing_up_and_loses_nothing() {
        let kept = value(["b".into(), "c".into()], 2);
        let mut sources = Sources::new(Value::Null, kept.clone(), "UTC");
        let file = value(["a".into(), "b".into()], 1);
        let joined = sources.take(update(SourceName::File, Ok(&file)));
        // `b` is of the settings, as far as anybody knows.
        assert_eq!((names(&joined), joined.awaited), (vec!["a every 1h".to_string()], true));
        assert_eq!(sources.kept().1, kept, "what the settings last said stays on disk");
        let joined = sources.take(update(SourceName::Settings, Err("they hang")));
        assert_eq!(names(&joined), ["a every 1h", "b every 2h", "c every 2h"]);
        assert_eq!((joined.awaited, sources.problem().as_deref()), (false, Some("they hang")));
        assert_eq!(sources.kept(), (file, kept));
        let joined = sources.take(update(SourceName::Settings, Ok(&Value::Null)));
        assert_eq!(
            (names(&joined), sources.problem()),
            (vec!["a every 1h".into(), "b every 1h".into()], None)
        );
    }

    #[test]
    #[rule("D-10")]
    fn d10_an_entry_that_waited_for_the_settings_still_has_its_start() {
        let mut sources = Sources::new(Value::Null, many('a', 1), "UTC");
        let joined = sources.take(update(SourceName::File, Ok(&many('a', 1))));
        assert!(joined.entries.is_empty());
        let joined = sources.take(update(SourceName::Settings, Ok(&Value::Null)));
        assert_eq!((joined.entries.len(), joined.late.contains("a0")), (1, true));
    }

    #[test]
    #[rule("D-10")]
    fn d10_the_first_that_a_source_says_is_the_start_and_what_it_says_later_is_not() {
        let mut sources = Sources::new(Value::Null, Value::Null, "UTC");
        let joined = sources.take(update(SourceName::File, Ok(&many('a', 1))));
        assert!(joined.late.contains("a0"));
        // Of settings that no master has confirmed nobody knows whether they are all.
        let first = SourceUpdate { complete: false, ..update(SourceName::Settings, Ok(&Value::Null)) };
        assert!(sources.take(first).late.is_empty(), "the file has had its start");
        let joined = sources.take(update(SourceName::Settings, Ok(&many('b', 1))));
        assert_eq!(joined.late.into_iter().collect::<Vec<_>>(), ["b0"]);
        assert!(sources.take(update(SourceName::Settings, Ok(&many('b', 2)))).late.is_empty());
    }

    #[test]
    #[rule("D-10")]
    fn d10_too_many_entries_change_nothing_and_empty_nothing() {
        let (file, settings) = (many('f', 200), many('s', 50));
        let mut sources = Sources::new(file.clone(), settings.clone(), "UTC");
        sources.take(update(SourceName::File, Ok(&file)));
        let joined = sources.take(update(SourceName::Settings, Ok(&many('s', 100))));
        // At the start: those of the last life.
        assert_eq!((joined.entries.len(), joined.awaited), (250, false));
        assert_eq!(sources.kept(), (file.clone(), settings.clone()));
        let told = sources.problem().unwrap();
        assert!(told.contains("together have 300 entries; 256 are the most"), "{told}");
        // Whichever speaks first.
        let mut other = Sources::new(file.clone(), settings.clone(), "UTC");
        other.take(update(SourceName::Settings, Ok(&many('s', 100))));
        assert_eq!(other.take(update(SourceName::File, Ok(&file))).entries.len(), 250);
        assert_eq!(other.kept(), (file.clone(), settings.clone()));
        // Once there is room they come into force.
        let joined = sources.take(update(SourceName::File, Ok(&many('f', 10))));
        assert_eq!((joined.entries.len(), sources.problem()), (110, None));
        let joined = sources.take(update(SourceName::File, Ok(&file)));
        assert_eq!(joined.entries.len(), 110);
        assert_eq!(sources.kept(), (many('f', 10), many('s', 100)));
        // Where there never was less, the file alone; what was kept of the settings is not touched.
        let mut sources = Sources::new(Value::Null, many('s', 100), "UTC");
        sources.take(update(SourceName::Settings, Err("no")));
        let joined = sources.take(update(SourceName::File, Ok(&file)));
        assert_eq!((joined.entries.len(), sources.kept().1), (100, many('s', 100)));
    }
}
