//! Salt's own statements, which the engine's grammar does not have, and the search for a tag left open.
//!
//! `{% import_yaml 'f' as x %}` becomes `{% set x = _import_yaml('f') %}`; `{% load_yaml as x %}…{% endload %}`
//! becomes `{% set x | _load_yaml %}…{% endset %}`. `import_json`, `import_text`, `load_json`, `load_text` likewise.
//! `{% macro m(a) %}` that asks for `varargs` or `kwargs` becomes `{% macro _all_of_m(a, varargs=[], kwargs={}) %}`, and behind
//! its end stands `{% set m = _varargs(_all_of_m, 'a') %}`.

use super::rewrite::{Edits, Rewritten};
use super::varargs;
use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use std::ops::Range;

const FORMATS: [&str; 3] = ["yaml", "json", "text"];

/// Rewrites Salt's statements. Text that cannot even be split into tokens is left for the engine to refuse.
pub fn rewrite(source: &str, syntax: &SyntaxConfig) -> Rewritten {
    let mut edits = Edits::default();
    if ["import_", "load_", " do "].iter().any(|name| source.contains(name)) {
        for tag in tags(source, syntax) {
            salt_statement(source, &tag, &mut edits);
        }
    }
    if varargs::WORDS.iter().any(|word| source.contains(word)) {
        open_macros(source, &tags(source, syntax), &mut edits);
    }
    edits.apply(source)
}

/// Macros that ask for what a call gives beyond their parameters.
fn open_macros(source: &str, tags: &[Tag<'_>], edits: &mut Edits) {
    let mut within: Vec<&Tag<'_>> = Vec::new();
    for tag in tags {
        match tag.tokens.first() {
            Some((Token::Ident("macro"), _)) => within.push(tag),
            Some((Token::Ident("endmacro"), _)) => {
                if let Some(begin) = within.pop() {
                    open_macro(source, begin, tag, edits);
                }
            }
            _ => {}
        }
    }
}

fn open_macro(source: &str, begin: &Tag<'_>, end: &Tag<'_>, edits: &mut Edits) {
    let (Some((Token::Ident(name), place)), Some((Token::ParenClose, close))) =
        (begin.tokens.get(1), begin.tokens.last())
    else {
        return;
    };
    // A parameter is what follows the bracket or a comma outside of any default.
    let mut declared: Vec<&str> = Vec::new();
    let mut depth = 0_i32;
    for pair in begin.tokens.windows(2) {
        match &pair[0].0 {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => depth -= 1,
            _ => {}
        }
        if let (Token::ParenOpen | Token::Comma, Token::Ident(parameter), 1) = (&pair[0].0, &pair[1].0, depth)
        {
            declared.push(parameter);
        }
    }
    let body = source.get(begin.end.end..end.start).unwrap_or("");
    if !varargs::WORDS.iter().any(|word| asks_for(body, word) && !declared.contains(word)) {
        return;
    }
    edits.replace(place.clone(), format!("{}{name}", varargs::PREFIX));
    let comma = if declared.is_empty() { "" } else { ", " };
    let more = varargs::WORDS.iter().zip(["[]", "{}"]).filter(|(word, _)| !declared.contains(word));
    let more: Vec<String> = more.map(|(word, none)| format!("{word}={none}")).collect();
    edits.insert(close.start, format!("{comma}{}", more.join(", ")));
    let names: String = declared.iter().map(|parameter| format!(", '{parameter}'")).collect();
    let closing = source.get(end.end.clone()).unwrap_or("%}");
    let call = format!("{}({}{name}{names})", varargs::FUNCTION, varargs::PREFIX);
    edits.insert(end.end.end, format!("{{% set {name} = {call} {closing}"));
}

/// Whether a word stands in a text by itself.
fn asks_for(text: &str, word: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_letter) && !text[at + word.len()..].starts_with(is_letter))
}

/// One `{% … %}`: its words and where they stand.
struct Tag<'s> {
    tokens: Vec<(Token<'s>, Range<usize>)>,
    start: usize,
    /// The `%}`.
    end: Range<usize>,
}

fn range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

fn tags<'s>(source: &'s str, syntax: &SyntaxConfig) -> Vec<Tag<'s>> {
    let mut tags = Vec::new();
    let mut open: Option<Tag<'s>> = None;
    for token in tokenize(source, false, syntax.clone()) {
        let Ok((token, span)) = token else { break };
        match token {
            Token::BlockStart => {
                open = Some(Tag { tokens: Vec::new(), start: range(span).start, end: 0..0 });
            }
            Token::BlockEnd => tags.extend(open.take().map(|tag| Tag { end: range(span), ..tag })),
            token => {
                if let Some(tag) = &mut open {
                    tag.tokens.push((token, range(span)));
                }
            }
        }
    }
    tags
}

fn salt_statement(source: &str, tag: &Tag<'_>, edits: &mut Edits) {
    let Some((Token::Ident(word), first)) = tag.tokens.first() else { return };
    let Some((_, last)) = tag.tokens.last() else { return };
    let whole = first.start..last.end;
    if *word == "endload" {
        edits.replace(whole, "endset");
        return;
    }
    if *word == "do" {
        // `{% do x.pop() if y %}`: the engine's own tag takes a plain call only.
        let mut depth = 0_i32;
        for (token, _) in &tag.tokens {
            match token {
                Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
                Token::ParenClose | Token::BracketClose | Token::BraceClose => depth -= 1,
                Token::Ident("if") | Token::Pipe if depth == 0 => {
                    let done = source.get(first.end..last.end).unwrap_or("");
                    edits.replace(whole, format!("set _done = ({done}) is defined"));
                    return;
                }
                _ => {}
            }
        }
        return;
    }
    let is = |token: Option<&(Token<'_>, Range<usize>)>, name: &str| matches!(token, Some((Token::Ident(ident), _)) if *ident == name);
    if let Some(format) = word.strip_prefix("load_").filter(|format| FORMATS.contains(format)) {
        if let (true, Some((Token::Ident(name), _))) = (is(tag.tokens.get(1), "as"), tag.tokens.get(2)) {
            edits.replace(whole, format!("set {name} | _load_{format}"));
        }
        return;
    }
    let Some(format) = word.strip_prefix("import_").filter(|format| FORMATS.contains(format)) else { return };
    let Some(at) = (1..tag.tokens.len()).rev().find(|index| is(tag.tokens.get(*index), "as")) else { return };
    if let (Some((_, keyword)), Some((Token::Ident(name), _))) = (tag.tokens.get(at), tag.tokens.get(at + 1))
    {
        let path = source.get(first.end..keyword.start).unwrap_or("").trim();
        // A line break inside the tag must survive, or every line below it would move.
        let breaks = source.get(whole.clone()).unwrap_or("").matches('\n').count();
        let kept = path.matches('\n').count();
        let filler = "\n".repeat(breaks - kept);
        edits.replace(whole, format!("set {name} = _import_{format}({path}){filler}"));
    }
}

/// The opening tag that no closing tag answers, innermost first, if the template ends inside a block.
pub fn unclosed<'s>(source: &'s str, syntax: &SyntaxConfig) -> Option<(&'s str, Range<usize>)> {
    let mut open: Vec<(&'s str, Range<usize>)> = Vec::new();
    for tag in tags(source, syntax) {
        let Some((Token::Ident(word), at)) = tag.tokens.first() else { continue };
        let assigns = tag.tokens.iter().any(|(token, _)| matches!(token, Token::Assign));
        match *word {
            "if" | "for" | "macro" | "call" | "filter" | "block" | "with" | "autoescape" => {
                open.push((word, tag.start..at.end));
            }
            "set" if !assigns => open.push((word, tag.start..at.end)),
            word if word.starts_with("end") => {
                open.pop();
            }
            _ => {}
        }
    }
    open.pop()
}

/// What a tag does to the blocks that are open.
enum BlockEffect<'s> {
    /// By the word that ends it.
    Opens(&'static str),
    Closes(&'s str),
    Stays,
}

/// The ranges of a template that are a tag or lie in a block, in bytes; they may overlap. `None` where that cannot be told.
pub fn decided_ranges(source: &str) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let mut blocks: Vec<(&str, usize)> = Vec::new();
    let mut tag: Option<(usize, Vec<Token<'_>>)> = None;
    for token in tokenize(source, false, super::environment::syntax()) {
        let (token, span) = token.ok()?;
        let span = range(span);
        match token {
            Token::BlockStart | Token::VariableStart => tag = Some((span.start, Vec::new())),
            Token::VariableEnd => found.push(tag.take()?.0..span.end),
            Token::BlockEnd => {
                let (start, tokens) = tag.take()?;
                found.push(start..span.end);
                match step(&tokens)? {
                    BlockEffect::Opens(end) => blocks.push((end, start)),
                    BlockEffect::Closes(word) => {
                        let (_, from) = blocks.pop().filter(|(end, _)| *end == word)?;
                        found.push(from..span.end);
                    }
                    BlockEffect::Stays => {}
                }
            }
            token => {
                if let Some((_, tokens)) = &mut tag {
                    tokens.push(token);
                }
            }
        }
    }
    (blocks.is_empty() && tag.is_none()).then_some(found)
}

/// `None` for a tag that nobody here knows.
fn step<'s>(tokens: &[Token<'s>]) -> Option<BlockEffect<'s>> {
    let Some(Token::Ident(word)) = tokens.first() else { return None };
    Some(match *word {
        "if" => BlockEffect::Opens("endif"),
        "for" => BlockEffect::Opens("endfor"),
        "macro" => BlockEffect::Opens("endmacro"),
        "call" => BlockEffect::Opens("endcall"),
        "filter" => BlockEffect::Opens("endfilter"),
        "block" => BlockEffect::Opens("endblock"),
        "with" => BlockEffect::Opens("endwith"),
        "autoescape" => BlockEffect::Opens("endautoescape"),
        "load_yaml" | "load_json" | "load_text" => BlockEffect::Opens("endload"),
        "set" if !assigns(tokens) => BlockEffect::Opens("endset"),
        "set" | "else" | "elif" | "do" | "include" | "import" | "from" | "extends" | "break" | "continue"
        | "import_yaml" | "import_json" | "import_text" => BlockEffect::Stays,
        word if word.starts_with("end") => BlockEffect::Closes(word),
        _ => return None,
    })
}

/// Whether a `set` has its value in the tag: `=` outside of every bracket. In `{% set x | indent(width=2) %}` it has not.
fn assigns(tokens: &[Token<'_>]) -> bool {
    let mut depth = 0_i32;
    tokens.iter().any(|token| {
        match token {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => depth -= 1,
            _ => {}
        }
        depth == 0 && matches!(token, Token::Assign)
    })
}
