//! `debconf.set`, `debconf.set_file`: answers to the questions that packages of Debian ask.

mod set_file;

pub use set_file::SetFile;

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::{Checking, Explanation};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::{Read, State, Step, Write};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use zester_host::digest::sha256_hex;
use zester_host::{Fault, FaultKind, HostRead, Launch};
use zester_model::limits::FILE_BYTES_MAX;

/// Where debconf keeps answers; those to questions for a password apart.
const ANSWERS: &str = "/var/cache/debconf/config.dat";
const PASSWORDS: &str = "/var/cache/debconf/passwords.dat";
/// The types of questions.
const SORTS: [&str; 9] =
    ["string", "boolean", "select", "multiselect", "note", "text", "password", "title", "error"];
/// What stands for a password in a record, so that a revert tells it again.
const HIDDEN: &str = "password with the hash ";

/// One answer, as a state gives it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    #[serde(rename = "type")]
    sort: String,
    value: Json,
}

impl Answer {
    /// In one line, as debconf writes it.
    fn text(&self) -> String {
        let one = |value: &Json| match value {
            Json::String(text) => text.clone(),
            Json::Null => String::new(),
            other => other.to_string(),
        };
        let text = match &self.value {
            Json::Array(items) => items.iter().map(one).collect::<Vec<_>>().join(", "),
            other => one(other),
        };
        text.replace('\n', "\\n")
    }

    fn is_password(&self) -> bool {
        self.sort == "password"
    }

    /// As it is compared and recorded.
    fn recorded(&self) -> String {
        if self.is_password() { hidden(&self.text()) } else { self.text() }
    }
}

fn shown(answer: Option<&String>) -> Json {
    answer.map_or(
        Json::Null,
        |answer| if answer.starts_with(HIDDEN) { "***".into() } else { answer.clone().into() },
    )
}

fn hidden(password: &str) -> String {
    format!("{HIDDEN}{}", sha256_hex(password.as_bytes()))
}

/// Answers by their questions.
#[derive(Clone, Debug)]
pub struct Answers(BTreeMap<String, Answer>);

impl Answers {
    /// Only root can have answers written down.
    fn wanted(&self, cx: &Checking<'_>) -> Result<Want<Answered>, Fault> {
        if cx.host.me().uid != 0 {
            let message = "only root can answer for packages";
            return Err(Fault::new(FaultKind::Denied, message).hint("run it as root"));
        }
        let answers = self.0.iter().map(|(question, answer)| (question.clone(), Some(answer.recorded())));
        Ok(Want::Be(Answered(answers.collect())))
    }

    fn to_write(&self) -> BTreeMap<String, (String, String)> {
        let one =
            |(question, answer): (&String, &Answer)| (question.clone(), (answer.sort.clone(), answer.text()));
        self.0.iter().map(one).collect()
    }
}

impl<'de> Deserialize<'de> for Answers {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Answers, D::Error> {
        BTreeMap::deserialize(deserializer).map(Answers)
    }
}

impl schemars::JsonSchema for Answers {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Answers".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object", "x-takes": "map of questions to `type` and `value`" })
    }
}

/// Whose questions, and which.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Questions {
    package: String,
    questions: Vec<String>,
    /// Questions of other packages, and whose they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    owners: BTreeMap<String, String>,
}

impl Questions {
    fn owner(&self, question: &str) -> &str {
        self.owners.get(question).unwrap_or(&self.package)
    }
}

/// The answers that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered(BTreeMap<String, Option<String>>);

impl State for Answered {
    type Key = Questions;
    /// What is to be written, which no record holds.
    type How = BTreeMap<String, (String, String)>;

    fn item(key: &Questions) -> ManagedItem {
        ManagedItem::Named("debconf answers of", key.package.clone())
    }

    async fn current(key: &Questions, cx: &Read<'_>) -> Result<Answered, Fault> {
        let mut found = key.questions.iter().map(|question| (question.clone(), None)).collect();
        for (path, hides) in [(ANSWERS, false), (PASSWORDS, true)] {
            read(cx.host, path, hides, &mut found)?;
        }
        Ok(Answered(found))
    }

    /// Neither a password nor its hash is shown: who knows the hash can try passwords.
    fn describe(step: &Step<'_, Answered>, _: bool) -> Explanation {
        let item = Answered::item(step.key);
        let mut told = Explanation::default();
        for (question, new) in &step.to.0 {
            let old = step.from.0.get(question).and_then(Option::as_ref);
            if old != new.as_ref() {
                told.tell(&item, question, &shown(old), &shown(new.as_ref()));
            }
        }
        told
    }

    async fn enforce(step: &Step<'_, Answered>, cx: &Write<'_, Answered>) -> Result<(), Fault> {
        let Step { key, from, to, how, .. } = step;
        let mut selections = String::new();
        let mut orders: BTreeMap<&str, String> = BTreeMap::new();
        for (question, answer) in
            to.0.iter().filter(|(question, answer)| from.0.get(*question) != Some(answer))
        {
            let package = key.owner(question);
            let mut order = |order: String| orders.entry(package).or_default().push_str(&order);
            match (how.get(question), answer) {
                (Some((sort, value)), Some(_)) => {
                    selections.push_str(&format!("{package} {question} {sort} {value}\n"));
                }
                (None, Some(former)) if former.starts_with(HIDDEN) => {
                    let message = format!("the former password for {question} is not kept anywhere");
                    return Err(Fault::new(FaultKind::Unsupported, message).hint("set it by a state"));
                }
                (None, Some(former)) => order(format!("SET {question} {former}\n")),
                (_, None) => order(format!("UNREGISTER {question}\n")),
            }
        }
        let selections = (!selections.is_empty()).then_some((vec!["debconf-set-selections"], selections));
        let orders =
            orders.into_iter().map(|(package, orders)| (vec!["debconf-communicate", package], orders));
        for (argv, words) in selections.into_iter().chain(orders) {
            let mut launch = Launch::argv(argv);
            launch.stdin = Some(words.into_bytes());
            cx.launch(launch).await?;
        }
        Ok(())
    }
}

/// Paragraphs of `Name:`, `Value:` and others.
fn read(
    host: &dyn HostRead,
    path: &str,
    hides: bool,
    found: &mut BTreeMap<String, Option<String>>,
) -> Result<(), Fault> {
    let path = host.real_path(path.as_ref())?;
    if host.stat(&path)?.is_none() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&host.read(&path, FILE_BYTES_MAX)?).into_owned();
    for paragraph in text.split("\n\n") {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if let Some(place) = field("Name:").and_then(|name| found.get_mut(name)) {
            let value = field("Value:").unwrap_or_default();
            *place = Some(if hides { hidden(value) } else { value.to_string() });
        }
    }
    Ok(())
}

/// Answers to the questions that a package asks when it is installed.
#[params(kind = "debconf.set", primary = "name", manual = "debconf_set.md")]
pub struct Set {
    /// The package that asks.
    name: String,
    /// The answers: `question: {type: string, value: the answer}`. Types are those of debconf: string, boolean, select,
    /// multiselect, note, text, password.
    data: Answers,
}

impl Resource for Set {
    type State = Answered;

    fn key(&self) -> Questions {
        let questions = self.data.0.keys().cloned().collect();
        Questions { package: self.name.clone(), questions, owners: BTreeMap::new() }
    }

    async fn desired(&self, _: &Answered, cx: &Checking<'_>) -> Result<Want<Answered>, Fault> {
        self.data.wanted(cx)
    }

    fn how(&self) -> BTreeMap<String, (String, String)> {
        self.data.to_write()
    }

    fn validate(&self) -> Vec<Invalid> {
        let word = |text: &str| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_graphic());
        let mut invalid = Vec::new();
        if !word(&self.name) {
            invalid.push(Invalid::new("name", format!("`{}` cannot name a package", self.name)));
        }
        for (question, answer) in &self.data.0 {
            if !word(question) {
                invalid.push(Invalid::new("data", format!("`{question}` cannot be a question of debconf")));
            }
            if !SORTS.contains(&answer.sort.as_str()) {
                let hint = Some(format!("write one of {}", SORTS.join(", ")));
                let message = format!("`{}` is no type of debconf", answer.sort);
                invalid.push(Invalid { hint, ..Invalid::new("data", message) });
            }
        }
        if self.data.0.is_empty() {
            invalid.push(Invalid::new("data", "it answers no question"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let owned = self.data.0.iter().map(|(question, answer)| {
            let item = ManagedItem::Named("debconf answer", question.clone());
            Claim::about(item).with("value", Some(answer.text()))
        });
        Claims { owned: owned.collect(), ..Claims::default() }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::cases;
