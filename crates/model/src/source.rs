//! Where something stands in the files a user wrote.

use std::sync::Arc;

/// A file of one compile, by its index in [`Sources`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A stretch of one line of a source file. Lines and columns count from 1, columns in characters.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub file: FileId,
    pub line: u32,
    pub column: u32,
    /// How many characters it covers; at least one is shown.
    pub len: u32,
}

impl Span {
    pub fn new(file: FileId, line: u32, column: u32, len: u32) -> Span {
        Span { file, line, column, len }
    }

    /// The first character of a file, for problems that concern the whole of it.
    pub fn start_of(file: FileId) -> Span {
        Span { file, line: 1, column: 1, len: 1 }
    }
}

/// One file as the user wrote it, before any template was rendered.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path to print: as the user would name it.
    pub path: String,
    pub text: Arc<str>,
}

impl SourceFile {
    /// The text of a line (from 1), without its line end.
    pub fn line(&self, line: u32) -> &str {
        self.text.lines().nth(line.saturating_sub(1) as usize).unwrap_or("")
    }
}

/// All files that took part in one compile.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
}

impl Sources {
    /// Adds a file, or finds it again by its path.
    pub fn add(&mut self, path: &str, text: impl Into<Arc<str>>) -> FileId {
        if let Some(index) = self.files.iter().position(|file| file.path == path) {
            return FileId(index as u32);
        }
        self.files.push(SourceFile { path: path.to_string(), text: text.into() });
        FileId(self.files.len() as u32 - 1)
    }

    /// Shows a file under another name, for text that never was a file.
    pub fn rename(&mut self, path: &str, shown: &str) {
        for file in self.files.iter_mut().filter(|file| file.path == path) {
            file.path = shown.to_string();
        }
    }

    pub fn get(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0 as usize)
    }

    pub fn path(&self, id: FileId) -> &str {
        self.get(id).map_or("", |file| &file.path)
    }

    /// `states/web/init.zy:31:5`
    pub fn place(&self, span: Span) -> String {
        format!("{}:{}:{}", self.path(span.file), span.line, span.column)
    }

    pub fn iter(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }
}
