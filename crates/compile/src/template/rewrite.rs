//! The source pass: what is changed in a template before the engine compiles it.
//!
//! The engine has no hooks for what Salt templates need, but it shows us its syntax tree with byte offsets. So the
//! pass reads the tree and inserts calls into the text, and remembers every insertion, so that positions can be
//! carried back to what the user wrote. No line break is ever inserted.
//!
//! - `{% set x = EXPR %}` becomes `_mut(EXPR)`, and so do list and map literals: they change in place, as in Python.
//! - `a % b` becomes `_rem(a, b)`: Python formats texts with it. `a ~ b` becomes `_concat(a, b)`: it writes values as Python.
//! - `a + b`, `a * b` and filters pass through `_cap`, so that no value outgrows its bound unseen.
//! - `{{ EXPR }}` and plain text at the top level are marked with their place (see [`super::origin`]). Not inside
//!   macros, captures and the like: what a template can read back must be what Jinja would give it.
//! - Conditions call `_tick`, because comparing large values takes time and no steps.
//! - In a reaction, `{{ EXPR | tojson }}` and the like are marked as encoded: what they yield is read as a value of its
//!   own. An `indent` behind it, made for text between other text, is left out.
//! - Plain text inside captures is counted by `_count`, because no writer of ours sees it.

use super::origin::Spots;
use super::sealed::{ASKS_SORT, Reach};
use minijinja::machinery::ast::{self, BinOpKind, CallArg, CompareOpKind, Expr, Stmt};
use std::ops::Range;

/// Calls of methods that change a list or a map.
const CHANGES: [&str; 6] = [".append(", ".extend(", ".insert(", ".pop(", ".setdefault(", ".update("];

/// A text with insertions, and the way back.
#[derive(Clone, Debug, Default)]
pub struct Rewritten {
    pub text: String,
    /// (offset in the new text, offset in the old one), one pair behind each edit.
    ways: Vec<(usize, usize)>,
    /// Stretches of the new text that stand for a stretch of the old one: a mistake inside them is one there.
    stands: Vec<(Range<usize>, Range<usize>)>,
}

impl Rewritten {
    pub fn unchanged(text: &str) -> Rewritten {
        Rewritten { text: text.to_string(), ..Rewritten::default() }
    }

    /// The stretch of the old text that a stretch of the new one came from.
    pub fn back_range(&self, range: Range<usize>) -> Range<usize> {
        let index = self.stands.partition_point(|(new, _)| new.start <= range.start).checked_sub(1);
        match index.and_then(|index| self.stands.get(index)) {
            Some((new, old)) if new.contains(&range.start) => old.clone(),
            _ => {
                let start = self.back(range.start);
                start..self.back(range.end).max(start)
            }
        }
    }

    /// The offset in the old text for one in the new.
    pub fn back(&self, offset: usize) -> usize {
        match self.ways.partition_point(|(new, _)| *new <= offset).checked_sub(1) {
            // Inside the first insertion: where it stands.
            None => offset.min(self.ways.first().map_or(usize::MAX, |(_, old)| *old)),
            Some(index) => {
                let (new, old) = self.ways.get(index).copied().unwrap_or((0, 0));
                let next_old = self.ways.get(index + 1).map(|(_, old)| *old);
                (old + (offset - new)).min(next_old.unwrap_or(usize::MAX))
            }
        }
    }
}

/// Edits of one text, in any order.
#[derive(Default)]
pub struct Edits {
    list: Vec<Edit>,
}

struct Edit {
    range: Range<usize>,
    text: String,
    stands_for: Option<Range<usize>>,
}

impl Edits {
    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.list.push(Edit { range: at..at, text: text.into(), stands_for: None });
    }

    /// Inserts what acts for a stretch of the source: its failures are that stretch's.
    pub fn insert_for(&mut self, at: usize, text: impl Into<String>, stands_for: Range<usize>) {
        self.list.push(Edit { range: at..at, text: text.into(), stands_for: Some(stands_for) });
    }

    pub fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.list.push(Edit { range: range.clone(), text: text.into(), stands_for: Some(range) });
    }

    /// Carries out the edits. Edits at one place keep the order in which they were made.
    pub fn apply(mut self, source: &str) -> Rewritten {
        self.list.sort_by_key(|edit| edit.range.start);
        let extra: usize = self.list.iter().map(|edit| edit.text.len()).sum();
        let mut text = String::with_capacity(source.len() + extra);
        let mut ways = Vec::with_capacity(self.list.len());
        let mut stands = Vec::new();
        let mut done = 0;
        for edit in self.list {
            text.push_str(source.get(done..edit.range.start).unwrap_or(""));
            let begin = text.len();
            text.push_str(&edit.text);
            done = edit.range.end.max(done);
            ways.push((text.len(), done));
            stands.extend(edit.stands_for.map(|old| (begin..text.len(), old)));
        }
        text.push_str(source.get(done..).unwrap_or(""));
        Rewritten { text, ways, stands }
    }
}

/// Text shorter than this is not worth counting: the bound on steps covers it.
const COUNT_FROM_BYTES: usize = 16;

/// Filters whose output is a value written down.
const ENCODERS: [&str; 6] = ["tojson", "json", "yaml", "yaml_encode", "yaml_dquote", "yaml_squote"];

/// How a comparison begins, and what it is called.
const OPERATORS: &[&str] = &["==", "!=", "<", ">", "in", "not"];
const COMPARISON: &str = "a comparison";

/// A file that a template names.
#[derive(Clone, Debug)]
pub struct NamedFile {
    /// `None`: what it is called is known only when it is rendered.
    pub name: Option<String>,
    /// Where the name stands, in the text that the engine parses.
    pub range: Range<usize>,
    /// It is read as data and not rendered.
    pub data: bool,
    /// It may be missing.
    pub optional: bool,
}

/// The filter that lets a value through which holds no secret.
fn open_call(what: &str, reach: Reach) -> String {
    format!("_open(\"{what}\", \"{}\")", reach.word())
}

/// What came of a pass.
#[derive(Debug, Default)]
pub struct Passed {
    pub rewritten: Rewritten,
    /// Names that the template sets itself.
    pub names: Vec<String>,
    /// Keys of the maps that it writes down.
    pub keys: Vec<String>,
    pub files: Vec<NamedFile>,
}

/// Walks one template and collects the edits.
pub struct Pass<'s> {
    source: &'s str,
    /// The place of the source's first byte in the table, or `None` to leave no marks.
    spots: Option<(&'s Spots, usize)>,
    /// Values stay out of the text.
    filling: bool,
    /// Values may be secrets, with which nothing can be computed (D-15).
    guarding: bool,
    edits: Edits,
    /// Names that the template sets itself, to suggest from.
    names: Vec<String>,
    /// Keys of the maps that it writes down, for the same.
    keys: Vec<String>,
    files: Vec<NamedFile>,
}

/// Methods of Python's values that templates reach like keys.
const METHODS: [&str; 12] = [
    "append",
    "copy",
    "endswith",
    "extend",
    "format",
    "get",
    "items",
    "keys",
    "replace",
    "split",
    "startswith",
    "values",
];

/// Where a chain of names, keys and calls begins, if it begins with a name: the span of each link is only its own.
fn leftmost(expr: &Expr<'_>) -> Option<usize> {
    match expr {
        Expr::Var(var) => Some(var.span().start_offset as usize),
        Expr::GetAttr(node) => leftmost(&node.expr),
        Expr::GetItem(node) => leftmost(&node.expr),
        Expr::Call(node) => leftmost(&node.expr),
        _ => None,
    }
}

fn is_method(subscript: &Expr<'_>) -> bool {
    let Expr::Const(constant) = subscript else { return false };
    constant.value.as_str().is_some_and(|name| METHODS.contains(&name))
}

/// The part of a tag that writes a value down, if that is what the tag yields, and the `indent` behind it.
fn encoder<'e, 's>(expr: &'e Expr<'s>, source: &str) -> Option<(&'e Expr<'s>, Range<usize>)> {
    let Expr::Filter(filter) = expr else { return None };
    let end = expr.span().end_offset as usize;
    if ENCODERS.contains(&filter.name) {
        return Some((expr, end..end));
    }
    let inner = filter.expr.as_ref().filter(|_| filter.name == "indent")?;
    let (inner, left_out) = encoder(inner, source)?;
    // Not with a parenthesis between them, which opens elsewhere.
    let behind = source.get(left_out.end..end)?.trim_start();
    behind.starts_with('|').then_some((inner, left_out.start..end))
}

impl<'s> Pass<'s> {
    /// `spots` names the table of places and the template's index in it.
    pub fn new(source: &'s str, spots: Option<(&'s Spots, usize)>, filling: bool) -> Pass<'s> {
        let (edits, names, keys, files) = (Edits::default(), Vec::new(), Vec::new(), Vec::new());
        Pass { source, spots, filling, guarding: false, edits, names, keys, files }
    }

    /// Has whatever would compute with a secret say so.
    pub fn guarding(self, guarding: bool) -> Pass<'s> {
        Pass { guarding, ..self }
    }

    pub fn finish(self) -> Passed {
        let Pass { source, edits, names, keys, files, .. } = self;
        Passed { rewritten: edits.apply(source), names, keys, files }
    }

    fn names_file(&mut self, name: &Expr<'_>, data: bool, optional: bool) {
        let span = name.span();
        let range = span.start_offset as usize..span.end_offset as usize;
        let text = match name {
            Expr::Const(constant) => constant.value.as_str().map(str::to_string),
            _ => None,
        };
        self.files.push(NamedFile { name: text, range, data, optional });
    }

    /// `top`: what is emitted here goes straight to the output.
    pub fn stmt(&mut self, stmt: &Stmt<'_>, top: bool) {
        match stmt {
            Stmt::Template(node) => self.body(&node.children, top),
            Stmt::EmitRaw(node) => self.raw(node.raw, top),
            Stmt::EmitExpr(node) => self.emit(node, top),
            Stmt::ForLoop(node) => {
                self.target(&node.target);
                let whole = node.span().start_offset as usize..node.span().end_offset as usize;
                let text = self.source.get(whole).unwrap_or("");
                // The span of a call begins with its last part: what is looped over begins behind the word `in`.
                let before = node.target.span().end_offset as usize;
                let end = node.iter.span().end_offset as usize;
                let word = self.source.get(before..end).and_then(|part| part.find(" in "));
                // What a loop changes in place must be a copy that can be.
                match word.filter(|_| CHANGES.iter().any(|method| text.contains(method))) {
                    Some(at) => {
                        let iter = before + at + " in ".len()..end;
                        self.wrapped(iter, "_mut(", ")", |pass| pass.expr(&node.iter));
                    }
                    None => self.expr(&node.iter),
                }
                node.filter_expr.iter().for_each(|expr| self.expr(expr));
                // `loop(…)` hands the output of a recursive loop back as a value.
                self.body(&node.body, top && !node.recursive);
                self.body(&node.else_body, top);
            }
            Stmt::IfCond(node) => {
                self.condition(node);
                self.body(&node.true_body, top);
                self.body(&node.false_body, top);
            }
            Stmt::WithBlock(node) => {
                for (target, expr) in &node.assignments {
                    self.target(target);
                    self.expr(expr);
                }
                self.body(&node.body, top);
            }
            Stmt::Set(node) => self.set(node),
            Stmt::SetBlock(node) => {
                self.target(&node.target);
                node.filter.iter().for_each(|filter| self.expr(filter));
                self.body(&node.body, false);
            }
            Stmt::AutoEscape(node) => self.body(&node.body, top),
            Stmt::FilterBlock(node) => {
                self.expr(&node.filter);
                self.body(&node.body, false);
            }
            Stmt::Block(node) => self.body(&node.body, false),
            Stmt::Import(node) => {
                self.names_file(&node.expr, false, false);
                self.target(&node.name);
                self.expr(&node.expr);
            }
            Stmt::FromImport(node) => {
                self.names_file(&node.expr, false, false);
                for (name, alias) in &node.names {
                    self.target(alias.as_ref().unwrap_or(name));
                }
                self.expr(&node.expr);
            }
            Stmt::Extends(node) => {
                self.names_file(&node.name, false, false);
                self.expr(&node.name);
            }
            Stmt::Include(node) => {
                self.names_file(&node.name, false, node.ignore_missing);
                self.include(node, top);
            }
            Stmt::Macro(node) => self.macro_(node),
            Stmt::CallBlock(node) => {
                self.call(&node.call);
                self.macro_(&node.macro_decl);
            }
            Stmt::Do(node) => self.call(&node.call),
            Stmt::Continue(_) | Stmt::Break(_) => {}
        }
    }

    fn body(&mut self, body: &[Stmt<'_>], top: bool) {
        body.iter().for_each(|stmt| self.stmt(stmt, top));
    }

    fn macro_(&mut self, node: &ast::Macro<'_>) {
        self.names.push(node.name.to_string());
        node.args.iter().for_each(|arg| self.target(arg));
        node.defaults.iter().for_each(|default| self.expr(default));
        self.body(&node.body, false);
    }

    fn target(&mut self, target: &Expr<'_>) {
        match target {
            Expr::Var(var) => self.names.push(var.id.to_string()),
            Expr::List(list) => list.items.iter().for_each(|item| self.target(item)),
            _ => {}
        }
    }

    /// Where a slice of the source begins in it. Slices of anything else do not count.
    fn offset_of(&self, part: &str) -> Option<usize> {
        let offset = (part.as_ptr() as usize).checked_sub(self.source.as_ptr() as usize)?;
        (self.source.get(offset..offset + part.len()) == Some(part)).then_some(offset)
    }

    fn raw(&mut self, raw: &str, top: bool) {
        let Some(offset) = self.offset_of(raw).filter(|_| !raw.is_empty()) else { return };
        if !top {
            if raw.len() >= COUNT_FROM_BYTES {
                // In front of the first letter: blanks before it might be stripped by the tag beside them.
                let blank = raw.len() - raw.trim_start().len();
                if blank < raw.len() {
                    self.edits.insert(offset + blank, format!("{{{{_count({})}}}}", raw.len()));
                }
            }
            return;
        }
        if let Some((spots, template)) = self.spots {
            let mark = spots.mark(template, offset, raw.len(), true);
            // Stripping blanks has already happened when the engine hands us the text, so that a mark at its very
            // start stops no stripping that did not stop there by itself. A raw block may hold anything; its start
            // is behind its tag, where the mark is as much plain text as the rest.
            self.edits.insert(offset, super::origin::encode(mark));
        }
    }

    fn emit(&mut self, node: &ast::Spanned<ast::EmitExpr<'_>>, top: bool) {
        let span = node.span();
        let (start, end) = (span.start_offset as usize, span.end_offset as usize);
        let sign = self.source.as_bytes().get(start + 2).is_some_and(|byte| matches!(byte, b'-' | b'+'));
        let inside = start + 2 + usize::from(sign);
        let mark = match self.spots {
            Some((spots, template)) if top => Some(spots.mark(template, start, end + 3 - start, false)),
            _ => None,
        };
        if mark.is_some() {
            // The blank keeps `{{` and a bracket or brace of the expression apart.
            self.edits.insert(inside, " (");
        }
        let encoded = mark.filter(|_| self.filling).and_then(|_| encoder(&node.expr, self.source));
        self.expr(encoded.as_ref().map_or(&node.expr, |(inner, _)| inner));
        match (mark, encoded) {
            (None, _) => {}
            (Some(mark), None) => self.edits.insert_for(end, format!(")|_at({mark})"), inside..end),
            (Some(mark), Some((_, left_out))) => {
                // Line breaks of what is left out stay, or every line below would move.
                let breaks = self.source.get(left_out.clone()).map_or(0, |part| part.matches('\n').count());
                self.edits.replace(left_out, "\n".repeat(breaks));
                self.edits.insert_for(end, format!(")|_encoded_at({mark})"), inside..end);
            }
        }
    }

    fn set(&mut self, node: &ast::Spanned<ast::Set<'_>>) {
        self.target(&node.target);
        let target_end = node.target.span().end_offset as usize;
        let end = node.span().end_offset as usize;
        let equals = self.source.get(target_end..end).and_then(|part| part.find('='));
        let Some(start) = equals.map(|at| target_end + at + 1) else { return };
        match &node.expr {
            Expr::Const(_) => {}
            // Also without parentheses: `a, b = 1, 2`.
            Expr::Tuple(tuple) => self.wrapped(start..end, "_tuple((", "))", |pass| {
                tuple.items.iter().for_each(|item| pass.expr(item));
            }),
            expr => self.wrapped(start..end, "_mut(", ")", |pass| pass.expr(expr)),
        }
    }

    /// A comparison of large values takes time and no steps: every condition looks at the clock first.
    fn condition(&mut self, node: &ast::Spanned<ast::IfCond<'_>>) {
        let keyword = node.span().start_offset as usize;
        let end = node.expr.span().end_offset as usize;
        let word = ["elif", "if"]
            .iter()
            .find(|word| self.source.get(keyword..).is_some_and(|rest| rest.starts_with(**word)));
        // The span leaves out parentheses that close behind the expression.
        let rest = self.source.get(end..).unwrap_or("");
        let tail = rest.trim_start_matches(|letter: char| letter.is_ascii_whitespace() || letter == ')');
        let at = end + rest.len() - tail.len();
        match word {
            Some(word) if ["%}", "-%}", "+%}"].iter().any(|sign| tail.starts_with(sign)) => {
                self.edits.insert(keyword + word.len(), " _tick() and (");
                self.expr(&node.expr);
                self.edits.insert(at, ")");
            }
            _ => self.expr(&node.expr),
        }
    }

    fn include(&mut self, node: &ast::Spanned<ast::Include<'_>>, top: bool) {
        let start = node.span().start_offset as usize + "include".len();
        let end = node.name.span().end_offset as usize;
        let simple = matches!(node.name, Expr::Const(_) | Expr::Var(_) | Expr::List(_));
        let paren = self.source.get(start..end).is_none_or(|part| part.trim_start().starts_with('('));
        if !top && simple && !paren {
            // What is included here ends in a value: its text must carry no marks.
            self.edits.insert(start, " _plain(");
            self.expr(&node.name);
            self.edits.insert(end, ")");
        } else {
            self.expr(&node.name);
        }
    }

    fn call(&mut self, call: &ast::Call<'_>) {
        if let (Expr::Var(function), Some(CallArg::Pos(name))) = (&call.expr, call.args.first())
            && function.id.starts_with("_import_")
        {
            self.names_file(name, true, false);
        }
        match &call.expr {
            Expr::GetItem(node) if is_method(&node.subscript_expr) && leftmost(&node.expr).is_some() => {
                self.method(node);
            }
            expr => self.expr(expr),
        }
        self.args(&call.args);
    }

    /// `d['get'](…)` becomes `_method(d,'get')(…)`: Python reaches a method like a key.
    fn method(&mut self, node: &ast::Spanned<ast::GetItem<'_>>) {
        let range = node.span();
        let start = leftmost(&node.expr).unwrap_or(range.start_offset as usize);
        let whole = start..range.end_offset as usize;
        let gap = node.expr.span().end_offset as usize..node.subscript_expr.span().start_offset as usize;
        let tail = node.subscript_expr.span().end_offset as usize..whole.end;
        let bracket = self.source.get(gap.clone()).and_then(|text| text.rfind('['));
        let closing = self.source.get(tail.clone()).and_then(|text| text.find(']'));
        let (Some(bracket), Some(closing)) = (bracket, closing) else { return self.expr(&node.expr) };
        self.edits.insert_for(whole.start, "_method(", whole.clone());
        self.expr(&node.expr);
        self.edits.replace(gap.start + bracket..gap.start + bracket + 1, ",");
        self.edits.replace(tail.start + closing..tail.start + closing + 1, ")");
    }

    /// One value compared with others, each with the one before it. `true`: the one before is looked for in it.
    fn compared<'e>(&mut self, first: &'e Expr<'e>, others: impl Iterator<Item = (bool, &'e Expr<'e>)>) {
        self.expr(first);
        let (mut left, mut before) = (first.as_const(), first.span().end_offset as usize);
        for (sought, other) in others {
            let right = other.as_const();
            let (of_left, of_right) = match sought {
                true if Reach::against(left.as_ref()) == Reach::Itself => {
                    (Reach::into_constant(right.as_ref()), Reach::Items)
                }
                true => (Reach::into_constant(right.as_ref()), Reach::Keys),
                false => (Reach::against(right.as_ref()), Reach::against(left.as_ref())),
            };
            let begin = leftmost(other).unwrap_or(other.span().start_offset as usize);
            self.guard_before(before..begin, OPERATORS, COMPARISON, of_left);
            self.expr(other);
            before = other.span().end_offset as usize;
            self.guard(before, COMPARISON, of_right, before..before);
            left = right;
        }
    }

    /// Guards the value that stands before the first of these words in a gap between two expressions.
    fn guard_before(&mut self, gap: Range<usize>, words: &[&str], what: &str, reach: Reach) {
        let text = self.source.get(gap.clone()).unwrap_or("");
        // Parentheses that close the value stand in the gap as well.
        let tail = text.trim_start_matches(|letter: char| letter.is_ascii_whitespace() || letter == ')');
        if words.iter().any(|word| tail.starts_with(word)) {
            let at = gap.start + text.len() - tail.len();
            self.guard(at, what, reach, at..at);
        }
    }

    /// Guards the value that ends here.
    fn guard(&mut self, at: usize, what: &str, reach: Reach, stands_for: Range<usize>) {
        if self.guarding {
            self.edits.insert_for(at, format!("|{}", open_call(what, reach)), stands_for);
        }
    }

    fn args(&mut self, args: &[CallArg<'_>]) {
        for arg in args {
            match arg {
                CallArg::Pos(expr)
                | CallArg::Kwarg(_, expr)
                | CallArg::PosSplat(expr)
                | CallArg::KwargSplat(expr) => self.expr(expr),
            }
        }
    }

    fn wrapped(&mut self, range: Range<usize>, open: &str, close: &str, inner: impl FnOnce(&mut Self)) {
        self.edits.insert_for(range.start, open, range.clone());
        inner(self);
        self.edits.insert_for(range.end, close, range);
    }

    /// An operator of the engine's that means something else in Python becomes a call of ours.
    fn operator(&mut self, node: &ast::Spanned<ast::BinOp<'_>>, range: Range<usize>, sign: char, call: &str) {
        let gap = node.left.span().end_offset as usize..node.right.span().start_offset as usize;
        let between = self.source.get(gap.clone()).unwrap_or("");
        let found = between.find(sign).filter(|_| between.matches(sign).count() == 1);
        let Some(at) = found.map(|at| gap.start + at) else {
            self.expr(&node.left);
            self.expr(&node.right);
            return;
        };
        self.wrapped(range, call, ")|_cap", |pass| {
            pass.expr(&node.left);
            pass.edits.replace(at..at + 1, ",");
            pass.expr(&node.right);
        });
    }

    fn expr(&mut self, expr: &Expr<'_>) {
        if let Expr::Map(map) = expr {
            let texts = map.keys.iter().filter_map(|key| key.as_const());
            self.keys.extend(texts.filter_map(|key| key.as_str().map(str::to_string)));
        }
        let span = expr.span();
        let range = span.start_offset as usize..span.end_offset as usize;
        match expr {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(node) => {
                let inner = |pass: &mut Self| {
                    pass.expr(&node.expr);
                    for part in [&node.start, &node.stop, &node.step].into_iter().flatten() {
                        pass.expr(part);
                    }
                };
                match leftmost(&node.expr) {
                    Some(start) => self.wrapped(start..range.end, "_capped(", ")", inner),
                    // What stands there was made here, and counted.
                    None => inner(self),
                }
            }
            Expr::UnaryOp(node) => self.expr(&node.expr),
            Expr::BinOp(node) => match node.op {
                BinOpKind::Concat => self.operator(node, range, '~', "_concat("),
                BinOpKind::Add | BinOpKind::Mul => {
                    self.wrapped(range, "(", ")|_cap", |pass| {
                        pass.expr(&node.left);
                        pass.expr(&node.right);
                    });
                }
                BinOpKind::Rem => self.operator(node, range, '%', "_rem("),
                BinOpKind::Eq
                | BinOpKind::Ne
                | BinOpKind::Lt
                | BinOpKind::Lte
                | BinOpKind::Gt
                | BinOpKind::Gte
                | BinOpKind::In => {
                    let sought = matches!(node.op, BinOpKind::In);
                    self.compared(&node.left, std::iter::once((sought, &node.right)));
                }
                _ => {
                    self.expr(&node.left);
                    self.expr(&node.right);
                }
            },
            Expr::Compare(node) => {
                let sought = |op: &CompareOpKind| matches!(op, CompareOpKind::In | CompareOpKind::NotIn);
                self.compared(&node.expr, node.ops.iter().map(|op| (sought(&op.op), &op.expr)));
            }
            Expr::IfExpr(node) => {
                self.expr(&node.true_expr);
                self.expr(&node.test_expr);
                node.false_expr.iter().for_each(|expr| self.expr(expr));
            }
            Expr::Filter(node) => {
                node.expr.iter().for_each(|expr| self.expr(expr));
                let what = format!("`{}`", node.name);
                match (&node.expr, Reach::of_filter(node.name)) {
                    (_, None) => {}
                    (Some(inner), Some(reach)) => {
                        let gap = inner.span().end_offset as usize..range.end;
                        self.guard_before(gap, &["|"], &what, reach);
                    }
                    // The first one of a block, which begins with its name.
                    (None, Some(reach)) if self.guarding => {
                        let guard = format!("{}|", open_call(&what, reach));
                        self.edits.insert_for(range.start, guard, range.clone());
                    }
                    (None, _) => {}
                }
                self.args(&node.args);
                self.edits.insert_for(range.end, "|_cap", range);
            }
            Expr::Test(node) => {
                self.expr(&node.expr);
                if !ASKS_SORT.contains(&node.name) {
                    let gap = node.expr.span().end_offset as usize..range.end;
                    // What is compared is looked at by the test.
                    self.guard_before(gap, &["is"], &format!("the test `{}`", node.name), Reach::Itself);
                }
                self.args(&node.args);
            }
            Expr::GetAttr(node) => self.expr(&node.expr),
            Expr::GetItem(node) => {
                self.expr(&node.expr);
                self.expr(&node.subscript_expr);
            }
            Expr::Call(node) => self.call(node),
            Expr::List(node) if node.as_const().is_some() => {}
            Expr::List(node) => self.wrapped(range, "_mut(", ")", |pass| {
                node.items.iter().for_each(|item| pass.expr(item));
            }),
            Expr::Tuple(node) if node.as_const().is_some() => {}
            Expr::Tuple(node) => self.wrapped(range, "_tuple(", ")", |pass| {
                node.items.iter().for_each(|item| pass.expr(item));
            }),
            Expr::Map(node) if node.as_const().is_some() => {}
            Expr::Map(node) => self.wrapped(range, "_mut(", ")", |pass| {
                for (key, value) in node.keys.iter().zip(&node.values) {
                    pass.expr(key);
                    pass.expr(value);
                }
            }),
        }
    }
}
