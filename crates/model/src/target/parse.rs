//! From the text of an expression to its tree, with the place of every mistake.

use super::glob::{self, Glob};
use super::value::{Number, Operator, Pattern, Test};
use super::{Data, Expression, IdTest, TargetError};
use regex::RegexBuilder;
use std::ops::Range;

/// Longest expression that is read: room for a list of tens of thousands of ids.
const EXPRESSION_BYTES_MAX: usize = 1024 * 1024;
/// Longest word but for a list of ids, so that neither its glob nor its nested key takes long.
const WORD_BYTES_MAX: usize = 4 * 1024;
/// Words of one expression, so that compiling them stays a matter of milliseconds.
const WORDS_MAX: usize = 1_000;
/// Parentheses and `not` inside each other.
const DEPTH_MAX: usize = 64;
/// Memory that one compiled regular expression may take.
const REGEX_BYTES_MAX: usize = 1024 * 1024;
/// Colons in one `G@` word: each may end the key, so each is a reading to try.
const COLONS_MAX: usize = 32;

const MATCHERS_HINT: &str = "known are `E@`, `G@`, `I@` and `L@`";

type Parsed<T> = Result<T, TargetError>;

pub(super) fn expression(text: &str) -> Parsed<Expression> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(error(0, format!("the expression is longer than {EXPRESSION_BYTES_MAX} bytes")));
    }
    let mut parser = Parser { text, at: 0, depth: 0, words: 0 };
    let parsed = parser.any()?;
    let end = parser.peek();
    match end.kind {
        Kind::End => Ok(parsed),
        Kind::Close => Err(error(end.offset, "`)` closes nothing")),
        _ => Err(parser.missing_operator(end)),
    }
}

fn error(offset: usize, message: impl Into<String>) -> TargetError {
    TargetError { offset, message: message.into(), hint: None }
}

impl TargetError {
    fn with_hint(mut self, hint: impl Into<String>) -> TargetError {
        self.hint = Some(hint.into());
        self
    }
}

#[derive(Copy, Clone, Debug, PartialEq)]
enum Kind<'a> {
    Open,
    Close,
    And,
    Or,
    Not,
    Word(&'a str),
    End,
}

#[derive(Copy, Clone, Debug)]
struct Token<'a> {
    offset: usize,
    end: usize,
    kind: Kind<'a>,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    words: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        let rest = &self.text[self.at..];
        let offset = self.at + (rest.len() - rest.trim_start().len());
        let rest = &self.text[offset..];
        let token = |length: usize, kind| Token { offset, end: offset + length, kind };
        match rest.chars().next() {
            None => token(0, Kind::End),
            Some('(') => token(1, Kind::Open),
            Some(')') => token(1, Kind::Close),
            Some(_) => {
                let word = &rest[..word_length(rest)];
                let kind = match word {
                    "and" => Kind::And,
                    "or" => Kind::Or,
                    "not" => Kind::Not,
                    _ => Kind::Word(word),
                };
                token(word.len(), kind)
            }
        }
    }

    fn take(&mut self, token: Token<'a>) {
        self.at = token.end;
    }

    /// Takes the next token if it is the one that joins.
    fn joined_by(&mut self, kind: Kind<'a>) -> bool {
        let token = self.peek();
        let joins = token.kind == kind;
        if joins {
            self.take(token);
        }
        joins
    }

    fn any(&mut self) -> Parsed<Expression> {
        let mut parts = vec![self.all()?];
        while self.joined_by(Kind::Or) {
            parts.push(self.all()?);
        }
        Ok(single_or(parts, Expression::Any))
    }

    fn all(&mut self) -> Parsed<Expression> {
        let mut parts = vec![self.unary()?];
        while self.joined_by(Kind::And) {
            parts.push(self.unary()?);
        }
        Ok(single_or(parts, Expression::All))
    }

    fn unary(&mut self) -> Parsed<Expression> {
        let token = self.peek();
        match token.kind {
            Kind::Not => {
                self.take(token);
                let inner = self.deeper(token.offset, Self::unary)?;
                Ok(Expression::Not { inner: Box::new(inner), at: token.offset..self.at })
            }
            Kind::Open => {
                self.take(token);
                let inner = self.deeper(token.offset, Self::any)?;
                self.close(token.offset)?;
                Ok(inner)
            }
            Kind::Word(word) => {
                self.take(token);
                self.words += 1;
                if self.words > WORDS_MAX {
                    let told = error(token.offset, format!("more than {WORDS_MAX} words"));
                    return Err(told.with_hint("list ids with `L@a,b,c`"));
                }
                term(word, token.offset, token.offset..token.end)
            }
            Kind::And | Kind::Or | Kind::Close | Kind::End => Err(self.missing_operand(token)),
        }
    }

    fn deeper(&mut self, offset: usize, inner: fn(&mut Self) -> Parsed<Expression>) -> Parsed<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(error(offset, format!("nested deeper than {DEPTH_MAX}")));
        }
        let parsed = inner(self);
        self.depth -= 1;
        parsed
    }

    fn close(&mut self, opened: usize) -> Parsed<()> {
        let token = self.peek();
        match token.kind {
            Kind::Close => {
                self.take(token);
                Ok(())
            }
            Kind::End => Err(error(opened, "`(` is never closed")),
            _ => Err(self.missing_operator(token)),
        }
    }

    fn missing_operand(&self, token: Token<'a>) -> TargetError {
        let before = self.text[..token.offset].trim_end();
        match token.kind {
            Kind::End if before.is_empty() => {
                error(0, "the expression is empty").with_hint("`*` means every peel")
            }
            Kind::End => error(token.offset, "the expression ends where a target should stand"),
            Kind::Close if before.ends_with('(') => error(token.offset, "nothing stands between `(` and `)`"),
            _ => {
                let found = &self.text[token.offset..token.end];
                error(token.offset, format!("`{found}` where a target should stand"))
            }
        }
    }

    /// Two targets side by side: which operator was meant is anybody's guess.
    fn missing_operator(&self, token: Token<'a>) -> TargetError {
        let found = &self.text[token.offset..token.end];
        let told = error(token.offset, format!("`and` or `or` is missing before `{found}`"));
        match found.to_lowercase().as_str() {
            lower @ ("and" | "or" | "not") => told.with_hint(format!("write `{lower}` in lower case")),
            _ => told.with_hint("a word ends at a blank; in a value, `?` stands for one"),
        }
    }
}

fn single_or(mut parts: Vec<Expression>, many: fn(Vec<Expression>) -> Expression) -> Expression {
    match parts.len() {
        1 => parts.remove(0),
        _ => many(parts),
    }
}

/// The letter before the `@` of an `X@` word.
fn matcher_of(word: &str) -> Option<char> {
    let mut characters = word.chars();
    let letter = characters.next().filter(char::is_ascii_alphabetic)?;
    (characters.next() == Some('@')).then_some(letter)
}

/// A word ends at a blank. A plain one also ends at a parenthesis; an `X@` word only at a `)` that it has not opened.
fn word_length(rest: &str) -> usize {
    let owns_parentheses = matcher_of(rest).is_some();
    let is_regex = rest.starts_with("E@");
    let (mut open, mut escaped) = (0_usize, false);
    for (place, character) in rest.char_indices() {
        if character.is_whitespace() {
            return place;
        }
        // An escaped parenthesis of a regular expression is a plain character.
        if std::mem::take(&mut escaped) {
            continue;
        }
        match character {
            '\\' if is_regex => escaped = true,
            '(' | ')' if !owns_parentheses => return place,
            '(' => open += 1,
            ')' if open == 0 => return place,
            ')' => open -= 1,
            _ => {}
        }
    }
    rest.len()
}

fn term(word: &str, offset: usize, at: Range<usize>) -> Parsed<Expression> {
    if word.len() > WORD_BYTES_MAX && !word.starts_with("L@") {
        return Err(error(offset, format!("a word is longer than {WORD_BYTES_MAX} bytes")));
    }
    let Some(letter) = matcher_of(word) else {
        return id_glob(word, offset).map(|test| Expression::Id { test, at });
    };
    let body = &word[2..];
    if body.is_empty() && matches!(letter, 'E' | 'G' | 'I' | 'L') {
        return Err(error(offset, format!("nothing follows `{letter}@`")));
    }
    match letter {
        'E' => regex(body, offset + 2).map(|test| Expression::Id { test, at }),
        'L' => list(body, offset + 2).map(|test| Expression::Id { test, at }),
        'G' => data(body, offset + 2).map(|test| Expression::Data { of: Data::Facts, test, at }),
        'I' => data(body, offset + 2).map(|test| Expression::Data { of: Data::Settings, test, at }),
        'e' | 'g' | 'i' | 'l' => {
            let told = error(offset, format!("unknown matcher `{letter}@`"));
            Err(told.with_hint(format!("write `{}@`", letter.to_ascii_uppercase())))
        }
        _ => Err(error(offset, format!("unknown matcher `{letter}@`")).with_hint(MATCHERS_HINT)),
    }
}

fn id_glob(word: &str, offset: usize) -> Parsed<IdTest> {
    if word == "*" {
        return Ok(IdTest::Every);
    }
    // No id has a comma or begins with `!`, so whoever writes one means something else.
    if let Some(negated) = word.strip_prefix('!') {
        let hint =
            if negated.is_empty() { "write `not`".to_string() } else { format!("write `not {negated}`") };
        return Err(error(offset, "no id begins with `!`").with_hint(hint));
    }
    let test = match glob::is_glob(word) {
        true => IdTest::Glob(parse_glob(word, offset)?),
        false => IdTest::Exact(word.to_string()),
    };
    if let Some(comma) = comma_outside_brackets(word) {
        let told = error(offset + comma, "no id has a comma");
        let ids: Vec<&str> = word.split(',').filter(|id| !id.is_empty()).collect();
        return Err(match ids.iter().any(|id| glob::is_glob(id)) {
            true => told.with_hint(format!("write `{}`", ids.join(" or "))),
            false => told.with_hint(format!("a list of ids is `L@{}`", ids.join(","))),
        });
    }
    Ok(test)
}

/// `[a,b]` is a set of a glob, where a comma is a character like any other.
fn comma_outside_brackets(word: &str) -> Option<usize> {
    let mut in_brackets = false;
    word.char_indices().find_map(|(place, character)| {
        match character {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
        (character == ',' && !in_brackets).then_some(place)
    })
}

fn parse_glob(pattern: &str, offset: usize) -> Parsed<Glob> {
    Glob::parse(pattern).map_err(|mistake| {
        let told = error(offset + mistake.offset, format!("not a glob: {}", mistake.message));
        told.with_hint("`*`, `?`, `[seq]` and `[!seq]` are special; `\\` takes that away")
    })
}

fn regex(pattern: &str, offset: usize) -> Parsed<IdTest> {
    let built =
        RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).build();
    built.map(IdTest::Regex).map_err(|problem| match &problem {
        regex::Error::Syntax(told) => {
            let reason = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
            error(offset + regex_offset(pattern, told), format!("not a regular expression: {reason}"))
        }
        _ => error(offset, "the regular expression is too large"),
    })
}

/// Where a regular expression is wrong: its error shows the pattern indented by four, and below it a caret.
fn regex_offset(pattern: &str, told: &str) -> usize {
    let caret = told.lines().find(|line| line.trim_start().starts_with('^') && line.trim() != pattern);
    let column = caret.and_then(|line| line.find('^')).and_then(|column| column.checked_sub(4));
    let place = column.and_then(|column| pattern.char_indices().nth(column));
    place.map_or(0, |(byte, _)| byte)
}

fn list(body: &str, offset: usize) -> Parsed<IdTest> {
    let mut at = offset;
    for id in body.split(',') {
        if id.is_empty() {
            return Err(error(at, "an id is missing in the list").with_hint("write `L@a,b`, without blanks"));
        }
        at += id.len() + 1;
    }
    Ok(IdTest::List(body.split(',').map(str::to_string).collect()))
}

const OPERATORS: [(&str, Operator); 5] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    (">", Operator::Greater),
    ("<", Operator::Less),
];

/// The first operator outside of a glob's brackets: where it stands, how long it is.
fn find_operator(body: &str) -> Option<(usize, usize, Operator)> {
    let mut in_brackets = false;
    for (place, character) in body.char_indices() {
        match character {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            '!' | '<' | '>' if !in_brackets => {
                let found = OPERATORS.iter().find(|(sign, _)| body[place..].starts_with(sign));
                if let Some((sign, operator)) = found {
                    return Some((place, sign.len(), *operator));
                }
            }
            _ => {}
        }
    }
    None
}

fn data(body: &str, offset: usize) -> Parsed<Test> {
    if let Some((place, length, operator)) = find_operator(body) {
        let key = body[..place].strip_suffix(':').unwrap_or(&body[..place]);
        check_key(key, offset)?;
        let at = offset + place + length;
        let value = &body[place + length..];
        if value.is_empty() {
            return Err(error(at, "a value is missing after the operator"));
        }
        let pattern = match operator {
            Operator::NotEqual => pattern(value, at)?,
            _ => Pattern { text: value.to_lowercase(), number: Number::parse(value), glob: None },
        };
        return Ok(Test::Compare { key: key.to_string(), operator, pattern });
    }
    let colons: Vec<usize> = body.match_indices(':').map(|(place, _)| place).collect();
    if colons.is_empty() {
        let told = error(offset + body.len(), format!("`{body}` has no value"));
        return Err(told.with_hint(match body.split_once('=') {
            Some((key, value)) => format!("write `{key}:{}`", value.trim_start_matches('=')),
            None => format!("write `{body}:value`, or `{body}:*` to ask whether it is there"),
        }));
    }
    if colons.len() > COLONS_MAX {
        return Err(error(offset, format!("more than {COLONS_MAX} colons")));
    }
    check_key(&body[..colons[0]], offset)?;
    let readings = colons
        .into_iter()
        .map(|colon| Ok((body[..colon].to_string(), pattern(&body[colon + 1..], offset + colon + 1)?)));
    readings.collect::<Parsed<Vec<_>>>().map(Test::Equal)
}

fn check_key(key: &str, offset: usize) -> Parsed<()> {
    match key.is_empty() {
        true => Err(error(offset, "a key is missing").with_hint("write `G@os:Debian`")),
        false => Ok(()),
    }
}

/// Everything is compared in lower case, the pattern once, here.
fn pattern(value: &str, offset: usize) -> Parsed<Pattern> {
    let text = value.to_lowercase();
    let mut glob = None;
    if glob::is_glob(value) {
        // The first reading is for the place of a mistake: lower case may have another length.
        parse_glob(value, offset)?;
        let folded = Glob::parse(&text);
        glob = Some(folded.map_err(|mistake| error(offset, format!("not a glob: {}", mistake.message)))?);
    }
    Ok(Pattern { number: Number::parse(&text), glob, text })
}
