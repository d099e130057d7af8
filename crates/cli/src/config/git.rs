//! `states_git`, `settings_git`: repositories that a master publishes from.

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// One repository.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitLayer {
    /// Whatever `git fetch` takes.
    pub url: String,
    /// A branch, a tag or a commit; none: the repository's own choice.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Only what is below this directory.
    pub subdir: Option<String>,
}

/// One repository, or several of which a later one lies over those before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitLayers(pub Vec<GitLayer>);

impl<'de> Deserialize<'de> for GitLayers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GitLayers, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = GitLayers;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("{url, ref, subdir}, or a list of those")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<GitLayers, A::Error> {
                GitLayer::deserialize(MapAccessDeserializer::new(map)).map(|layer| GitLayers(vec![layer]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<GitLayers, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(GitLayers)
            }
        }
        deserializer.deserialize_any(OneOrMore)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn one_repository_or_a_list_of_them() {
        let one = parse("c", "states_git: {url: a, ref: main}").unwrap().states_git.unwrap();
        let layer = GitLayer { url: "a".into(), reference: Some("main".into()), subdir: None };
        assert_eq!(one, GitLayers(vec![layer.clone()]));
        let two = parse("c", "settings_git:\n- {url: a, ref: main}\n- {url: b, subdir: x}\ngit_poll: 5m\n")
            .unwrap();
        let second = GitLayer { url: "b".into(), reference: None, subdir: Some("x".into()) };
        assert_eq!(two.settings_git, Some(GitLayers(vec![layer, second])));
        assert!(parse("c", "states_git: {url: a, branch: main}").is_err());
        assert!(parse("c", "states_git: a").is_err());
    }
}
