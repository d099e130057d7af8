//! `debconf.set_file`: answers that stand in a file, as `debconf-get-selections` writes them.

use super::{Answer, Answered, Answers, Questions, SORTS};
use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::params::{Invalid, Template, params};
use crate::resource::{Resource, Want};
use crate::source::{self, Remote};
use std::collections::BTreeMap;
use std::path::Path;
use zester_host::{Fault, FaultKind};
use zester_model::outcome::Details;

/// Answers to the questions of packages, from a file.
#[params(kind = "debconf.set_file", primary = "name", manual = "debconf_set_file.md")]
pub struct SetFile {
    /// What the state is called; the lines of the file say whose questions they answer.
    #[param(default)]
    name: String,
    /// The file: `salt://…`, a path below the states directory or an absolute path of this machine. A line is
    /// `PACKAGE QUESTION TYPE ANSWER`.
    source: String,
    /// `jinja`: the file is a template.
    template: Option<Template>,
    /// Variables for the template.
    #[param(default)]
    context: Details,
    /// Variables for the template that `context` does not set.
    #[param(default)]
    defaults: Details,
}

/// What a file answers.
struct Selections {
    answers: Answers,
    owners: BTreeMap<String, String>,
}

impl Selections {
    fn parse(text: &str) -> Result<Selections, String> {
        let (mut answers, mut owners) = (BTreeMap::new(), BTreeMap::new());
        let joined = text.replace("\\\n", "");
        for line in
            joined.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let mut words = line.splitn(4, [' ', '\t']);
            let (Some(package), Some(question), Some(sort)) = (words.next(), words.next(), words.next())
            else {
                return Err(format!("the line `{line}` is not `PACKAGE QUESTION TYPE ANSWER`"));
            };
            if !SORTS.contains(&sort) {
                return Err(format!("the line `{line}`: `{sort}` is no type of debconf"));
            }
            let value = words.next().unwrap_or_default().to_string();
            answers.insert(question.to_string(), Answer { sort: sort.to_string(), value: value.into() });
            owners.insert(question.to_string(), package.to_string());
        }
        Ok(Selections { answers: Answers(answers), owners })
    }
}

impl SetFile {
    fn selections(&self, cx: &Checking<'_>) -> Result<Selections, Fault> {
        let content = source::read(cx, &self.source)?;
        let text = match self.template {
            Some(_) => source::rendered(cx, &self.source, content, &self.defaults, &self.context)?,
            None => String::from_utf8(content).map_err(|_| {
                Fault::new(FaultKind::Unsupported, format!("{} is not UTF-8 text", self.source))
            })?,
        };
        Selections::parse(&text)
            .map_err(|why| Fault::new(FaultKind::Unsupported, format!("{}: {why}", self.source)))
    }
}

impl Resource for SetFile {
    type State = Answered;

    fn key(&self) -> Questions {
        Questions { package: self.name.clone(), questions: Vec::new(), owners: BTreeMap::new() }
    }

    fn key_found(&self, cx: &Checking<'_>) -> Result<Questions, Fault> {
        let Selections { answers, owners } = self.selections(cx)?;
        Ok(Questions { package: self.name.clone(), questions: answers.0.into_keys().collect(), owners })
    }

    async fn desired(&self, _: &Answered, cx: &Checking<'_>) -> Result<Want<Answered>, Fault> {
        self.selections(cx)?.answers.wanted(cx)
    }

    fn how_found(&self, cx: &Checking<'_>) -> Result<BTreeMap<String, (String, String)>, Fault> {
        Ok(self.selections(cx)?.answers.to_write())
    }

    fn validate(&self) -> Vec<Invalid> {
        source::invalid("source", &self.source, Remote::Refused).into_iter().collect()
    }

    fn claims(&self) -> Claims {
        let item = ManagedItem::Named("debconf answers in", self.source.clone());
        Claims::of(Claim::new(item, "set")).needs([Path::new(source::local_name(&self.source))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_answers_says_whose_questions_they_are() {
        let text = "# mail\npostfix postfix/mailname string mail.example.com\nshared\tshared/on\tboolean\ttrue\nweb web/list multiselect a, \\\nb\nweb web/empty string\n";
        let read = Selections::parse(text).unwrap();
        let texts: Vec<String> =
            read.answers.0.iter().map(|(name, answer)| format!("{name}={}", answer.text())).collect();
        assert_eq!(
            texts,
            ["postfix/mailname=mail.example.com", "shared/on=true", "web/empty=", "web/list=a, b"]
        );
        assert_eq!(read.owners["shared/on"], "shared");
        assert!(
            Selections::parse("web web/x").is_err_and(|why| why.contains("PACKAGE QUESTION TYPE ANSWER"))
        );
        assert!(
            Selections::parse("web web/x number 1").is_err_and(|why| why.contains("`number` is no type"))
        );
    }
}
