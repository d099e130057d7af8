//! `word`, `word = expression`, with commas between.

use proc_macro2::{Ident, TokenStream as Tokens, TokenTree};
use syn::{DeriveInput, Error};

/// The words of an attribute, as written.
pub(crate) struct Words(Vec<(Ident, Option<Tokens>)>);

impl Words {
    pub(crate) fn parse(tokens: Tokens) -> Result<Words, Error> {
        let mut words = Vec::new();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let TokenTree::Ident(word) = token else {
                return Err(Error::new(token.span(), "a word is expected"));
            };
            let mut value = None;
            match tokens.next() {
                None => {}
                Some(token) if is(&token, ',') => {}
                Some(token) if is(&token, '=') => {
                    let mut expression = Tokens::new();
                    while let Some(token) = tokens.next_if(|token| !is(token, ',')) {
                        expression.extend([token]);
                    }
                    tokens.next();
                    if expression.is_empty() {
                        return Err(Error::new(token.span(), "a value is expected"));
                    }
                    value = Some(expression);
                }
                Some(other) => return Err(Error::new(other.span(), "`=` or `,` is expected")),
            }
            words.push((word, value));
        }
        Ok(Words(words))
    }

    /// What is not known is a mistake, and not ignored.
    pub(crate) fn refuse_others(&self, known: &[&str]) -> Result<(), Error> {
        match self.0.iter().find(|(word, _)| !known.iter().any(|known| word == known)) {
            Some((word, _)) => {
                let message = format!("`{word}` is none of `{}`", known.join("`, `"));
                Err(Error::new(word.span(), message))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.iter().any(|(own, _)| own == word)
    }

    pub(crate) fn values(&self, word: &str) -> impl Iterator<Item = &Tokens> {
        self.0.iter().filter(move |(own, _)| own == word).filter_map(|(_, value)| value.as_ref())
    }

    pub(crate) fn value(&self, word: &str) -> Option<&Tokens> {
        self.values(word).next()
    }

    pub(crate) fn required(&self, word: &str, item: &DeriveInput) -> Result<&Tokens, Error> {
        self.value(word).ok_or_else(|| Error::new(item.ident.span(), format!("`{word} = …` is missing")))
    }
}

fn is(token: &TokenTree, letter: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == letter)
}
