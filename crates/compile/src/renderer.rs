//! The first line of a file chooses the passes it goes through (S-47, S-54): `#!jinja|yaml`, `#!yaml|gpg`, `#!py`, `#!ordered`.

use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::source::{FileId, Span};

/// What the first line of a file asks for.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Passes {
    /// Jinja comes first: what a file gets that says nothing.
    pub template: bool,
    /// Its states wait for each other.
    pub ordered: bool,
    /// Its values hold messages for gpg (S-54). In settings only.
    pub gpg: bool,
    /// It is a program, whose answer is the content (S-54).
    pub python: bool,
}

impl Passes {
    const RENDERED: Passes = Passes { template: true, ordered: false, gpg: false, python: false };
    const PLAIN: Passes = Passes { template: false, ..Passes::RENDERED };

    /// Refuses what is not made for such a file.
    pub fn without(self, name: &str, meant: &str, file: FileId) -> Result<Passes, Diagnostic> {
        let asked = match name {
            "gpg" => self.gpg,
            _ => self.python,
        };
        match asked {
            true => {
                let message = format!("the renderer `{name}` has no place here");
                Err(Diagnostic::new(Kind::Template, message).at(Span::start_of(file)).hint(meant))
            }
            false => Ok(self),
        }
    }
}

/// Renderers of Salt that there are none of here, and what to do about it.
const ADVICE: [(&str, &str); 7] = [
    ("nacl", "seal the values with `zester secret encrypt` instead"),
    ("pydsl", "write it as Jinja and YAML, or let a program write the file before the run"),
    ("pyobjects", "write it as Jinja and YAML, or let a program write the file before the run"),
    ("mako", "write it as Jinja: `{{ … }}` and `{% … %}`"),
    ("cheetah", "write it as Jinja: `{{ … }}` and `{% … %}`"),
    ("genshi", "write it as Jinja: `{{ … }}` and `{% … %}`"),
    ("stateconf", "write the ids in full, and `#!ordered` for its order of states"),
];

/// Reads the first line. `Err` names the renderer that there is none of.
pub fn passes(text: &str, file: FileId) -> Result<Passes, Diagnostic> {
    let first = text.lines().next().unwrap_or_default().trim_end();
    // `#!/usr/bin/…` is for the kernel.
    let Some(line) = first.strip_prefix("#!").filter(|line| !line.starts_with('/')) else {
        return Ok(Passes::RENDERED);
    };
    let names: Vec<&str> = line.split('|').map(str::trim).collect();
    let (data, gpg) = match names.as_slice() {
        [data @ .., "gpg"] if !data.is_empty() => (data, true),
        data => (data, false),
    };
    match data {
        ["ordered"] if !gpg => return Ok(Passes { ordered: true, ..Passes::RENDERED }),
        ["py"] if !gpg => return Ok(Passes { python: true, ..Passes::PLAIN }),
        ["yaml"] | ["json"] => return Ok(Passes { gpg, ..Passes::PLAIN }),
        // Some write the passes the other way round and mean the same.
        ["jinja"] | ["jinja", "yaml" | "json"] | ["yaml" | "json", "jinja"] => {
            return Ok(Passes { gpg, ..Passes::RENDERED });
        }
        _ => {}
    }
    let place = Span { len: first.chars().count() as u32, ..Span::start_of(file) };
    let unknown = names.iter().find(|name| !["jinja", "yaml", "json", "gpg", "py"].contains(name));
    let diagnostic = match unknown {
        Some(name) => Diagnostic::new(Kind::Template, format!("unknown renderer `{name}`")),
        None => Diagnostic::new(Kind::Template, format!("`{}` cannot follow each other", names.join("|"))),
    };
    let advice = unknown.and_then(|name| ADVICE.iter().find(|(known, _)| known == name));
    let hint = advice.map_or(
        "a file is `#!jinja|yaml` (or says nothing), `#!yaml`, `#!json`, `#!jinja|json`, `#!ordered` or `#!py`; in settings `gpg` may stand behind the others",
        |(_, hint)| hint,
    );
    Err(diagnostic.at(place).hint(hint).code("renderer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn of(text: &str) -> Result<Passes, String> {
        passes(text, FileId(0)).map_err(|diagnostic| diagnostic.message)
    }

    #[test]
    #[rule("S-47", "S-54")]
    fn s47_the_first_line_chooses_the_passes() {
        assert_eq!(of("a: 1"), Ok(Passes::RENDERED));
        assert_eq!(of("#!jinja|yaml\na: 1"), Ok(Passes::RENDERED));
        assert_eq!(of("#! jinja | yaml \r\na: 1"), Ok(Passes::RENDERED));
        assert_eq!(of("#!yaml\na: 1"), Ok(Passes::PLAIN));
        assert_eq!(of("#!json\n{}"), Ok(Passes::PLAIN));
        assert_eq!(of("#!jinja|json\n{}"), Ok(Passes::RENDERED));
        assert_eq!(of("#!yaml|jinja\na: 1"), Ok(Passes::RENDERED));
        assert_eq!(of("#!ordered\na: 1"), Ok(Passes { ordered: true, ..Passes::RENDERED }));
        assert_eq!(of("#!yaml|gpg\na: 1"), Ok(Passes { gpg: true, ..Passes::PLAIN }));
        assert_eq!(of("#!jinja|yaml|gpg\na: 1"), Ok(Passes { gpg: true, ..Passes::RENDERED }));
        assert_eq!(of("#!py\n"), Ok(Passes { python: true, ..Passes::PLAIN }));
        assert_eq!(of("#!/usr/bin/env zester\na: 1"), Ok(Passes::RENDERED));
    }

    #[test]
    #[rule("S-47", "S-54")]
    fn s47_another_renderer_is_an_error_that_names_it_and_says_what_to_do() {
        for (line, name) in [
            ("#!yaml|nacl", "nacl"),
            ("#!mako|yaml", "mako"),
            ("#!pyobjects", "pyobjects"),
            ("#!toml", "toml"),
        ] {
            let diagnostic = passes(&format!("{line}\na: 1\n"), FileId(0)).unwrap_err();
            assert_eq!(diagnostic.message, format!("unknown renderer `{name}`"), "{line}");
            assert_eq!(
                diagnostic.span.map(|span| (span.line, span.column, span.len)),
                Some((1, 1, line.len() as u32))
            );
            assert!(diagnostic.hint.is_some());
        }
        for line in ["yaml|json", "gpg|yaml", "gpg", "py|gpg", "jinja|py"] {
            assert_eq!(of(&format!("#!{line}\n")), Err(format!("`{line}` cannot follow each other")));
        }
    }
}
