//! The first line of a file chooses the passes it goes through (S-47): `#!jinja|yaml`, `#!yaml`, `#!ordered`.

use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::source::{FileId, Span};

/// What the first line of a file asks for.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Passes {
    /// Jinja, then YAML: what a file gets that says nothing.
    Rendered,
    /// Only YAML.
    Plain,
    /// Jinja, then YAML, and its states wait for each other.
    Ordered,
}

/// Renderers of Salt that there are none of here, and what to do about it.
const ADVICE: [(&str, &str); 9] = [
    ("gpg", "seal the values with `zester secret encrypt` instead"),
    ("nacl", "seal the values with `zester secret encrypt` instead"),
    ("py", "write it as Jinja and YAML, or let a program write the file before the run"),
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
        return Ok(Passes::Rendered);
    };
    let names: Vec<&str> = line.split('|').map(str::trim).collect();
    match names.as_slice() {
        ["ordered"] => return Ok(Passes::Ordered),
        ["yaml"] | ["json"] => return Ok(Passes::Plain),
        // Some write the passes the other way round and mean the same.
        ["jinja"] | ["jinja", "yaml" | "json"] | ["yaml" | "json", "jinja"] => return Ok(Passes::Rendered),
        _ => {}
    }
    let place = Span { len: first.chars().count() as u32, ..Span::start_of(file) };
    let unknown = names.iter().find(|name| !["jinja", "yaml", "json"].contains(name));
    let diagnostic = match unknown {
        Some(name) => Diagnostic::new(Kind::Template, format!("unknown renderer `{name}`")),
        None => Diagnostic::new(Kind::Template, format!("`{}` cannot follow each other", names.join("|"))),
    };
    let advice = unknown.and_then(|name| ADVICE.iter().find(|(known, _)| known == name));
    let hint = advice.map_or(
        "a file is `#!jinja|yaml` (or says nothing), `#!yaml`, `#!json`, `#!jinja|json` or `#!ordered`",
        |(_, hint)| hint,
    );
    let row = match unknown {
        Some(&"gpg") => "gpg",
        Some(&"py") => "python_renderer",
        _ => "renderer",
    };
    Err(diagnostic.at(place).hint(hint).code(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn of(text: &str) -> Result<Passes, String> {
        passes(text, FileId(0)).map_err(|diagnostic| diagnostic.message)
    }

    #[test]
    #[rule("S-47")]
    fn s47_the_first_line_chooses_the_passes() {
        assert_eq!(of("a: 1"), Ok(Passes::Rendered));
        assert_eq!(of("#!jinja|yaml\na: 1"), Ok(Passes::Rendered));
        assert_eq!(of("#! jinja | yaml \r\na: 1"), Ok(Passes::Rendered));
        assert_eq!(of("#!yaml\na: 1"), Ok(Passes::Plain));
        assert_eq!(of("#!json\n{}"), Ok(Passes::Plain));
        assert_eq!(of("#!jinja|json\n{}"), Ok(Passes::Rendered));
        assert_eq!(of("#!yaml|jinja\na: 1"), Ok(Passes::Rendered));
        assert_eq!(of("#!ordered\na: 1"), Ok(Passes::Ordered));
        assert_eq!(of("#!/usr/bin/env zester\na: 1"), Ok(Passes::Rendered));
    }

    #[test]
    #[rule("S-47")]
    fn s47_another_renderer_is_an_error_that_names_it_and_says_what_to_do() {
        for (line, name) in
            [("#!yaml|gpg", "gpg"), ("#!jinja|yaml|gpg", "gpg"), ("#!py", "py"), ("#!toml", "toml")]
        {
            let diagnostic = passes(&format!("{line}\na: 1\n"), FileId(0)).unwrap_err();
            assert_eq!(diagnostic.message, format!("unknown renderer `{name}`"), "{line}");
            assert_eq!(
                diagnostic.span.map(|span| (span.line, span.column, span.len)),
                Some((1, 1, line.len() as u32))
            );
            assert!(diagnostic.hint.is_some());
        }
        assert_eq!(of("#!yaml|json\n"), Err("`yaml|json` cannot follow each other".into()));
    }
}
