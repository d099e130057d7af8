//! What kinds about packages share: names and versions as states give them, and the package manager behind
//! them.

pub(crate) mod apt;
#[cfg(test)]
pub(crate) mod fake_apt;
pub(crate) mod installed_packages;
pub(crate) mod wanted;

use crate::params::Invalid;
use wanted::{Wanted, WantedList};

/// The packages of a state: those of `pkgs`, else the one it is named after.
pub(crate) fn asked_for(name: &str, pkgs: Option<&WantedList>, version: Option<&str>) -> Vec<Wanted> {
    match pkgs {
        Some(list) => list.0.clone(),
        None => vec![Wanted { name: name.to_string(), version: version.map(str::to_string) }],
    }
}

/// Names and versions go onto a command line: nothing in them may be mistaken for an option.
pub(crate) fn refuse_odd_names(asked: &[Wanted], parameter: &'static str) -> Vec<Invalid> {
    let plain = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.:_~*".contains(letter))
    };
    let mut invalid = Vec::new();
    for Wanted { name, version } in asked {
        if !plain(name) || name.contains('*') {
            invalid.push(Invalid {
                parameter,
                message: format!("`{name}` cannot name a package"),
                hint: None,
            });
        }
        if let Some(version) = version.as_ref().filter(|version| !plain(version)) {
            let message = format!("`{version}` cannot be the version of a package");
            invalid.push(Invalid { parameter, message, hint: None });
        }
    }
    if asked.is_empty() {
        invalid.push(Invalid { parameter, message: "it names no package".to_string(), hint: None });
    }
    invalid
}
