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
            // Words stand apart by any number of blanks; one more before the answer is part of it.
            let word = |line: &'_ str| match line.split_once([' ', '\t']) {
                Some((word, rest)) => (word.to_string(), rest.to_string()),
                None => (line.to_string(), String::new()),
            };
            let (package, rest) = word(line);
            let (question, rest) = word(rest.trim_start());
            let (sort, value) = word(rest.trim_start());
            // What is shown of it ends before the answer, which may be a password.
            if sort.is_empty() {
                return Err(format!("the line `{}` is not `PACKAGE QUESTION TYPE ANSWER`", line.trim_end()));
            }
            if !SORTS.contains(&sort.as_str()) {
                return Err(format!("the line of `{package} {question}`: `{sort}` is no type of debconf"));
            }
            answers.insert(question.clone(), Answer { sort, value: value.into() });
            owners.insert(question, package);
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
        let text = "# mail\npostfix postfix/mailname string mail.example.com\nshared\tshared/on\tboolean\ttrue\nweb web/list multiselect a, \\\nb\nweb web/empty string\n\
            web   web/wide\t string   two  words\n";
        let read = Selections::parse(text).unwrap();
        let texts: Vec<String> =
            read.answers.0.iter().map(|(name, answer)| format!("{name}={}", answer.text())).collect();
        assert_eq!(
            texts,
            [
                "postfix/mailname=mail.example.com",
                "shared/on=true",
                "web/empty=",
                "web/list=a, b",
                "web/wide=  two  words"
            ]
        );
        assert_eq!(read.owners["shared/on"], "shared");
        assert!(
            Selections::parse("web web/x").is_err_and(|why| why.contains("PACKAGE QUESTION TYPE ANSWER"))
        );
        let why = Selections::parse("web web/pw passwd s3cret").err().unwrap();
        assert_eq!(why, "the line of `web web/pw`: `passwd` is no type of debconf");
    }
}
