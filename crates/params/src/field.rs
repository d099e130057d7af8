//! One parameter.

use crate::words::Words;
use proc_macro2::{Ident, TokenStream as Tokens};
use quote::{format_ident, quote};
use syn::{Error, parse_quote};

const WORDS: [&str; 7] = ["alias", "default", "list", "lines", "secret", "instead_of_primary", "written"];

pub(crate) struct Field {
    pub(crate) ident: Ident,
    /// As users write it.
    pub(crate) name: String,
    pub(crate) aliases: Vec<Tokens>,
    pub(crate) list: bool,
    pub(crate) lines: bool,
    pub(crate) secret: bool,
    pub(crate) instead_of_primary: bool,
    pub(crate) written: Vec<Tokens>,
    /// The function that makes its default.
    pub(crate) default: Option<Tokens>,
}

impl Field {
    /// Takes `#[param(…)]` off a field, and leaves there what `serde` has to know of it.
    pub(crate) fn take(field: &mut syn::Field, owner: &Ident) -> Result<Field, Error> {
        let mut tokens = Tokens::new();
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("param")) {
            let list = attribute.meta.require_list()?;
            tokens.extend(list.tokens.clone());
            tokens.extend(quote!(,));
        }
        field.attrs.retain(|attribute| !attribute.path().is_ident("param"));
        let words = Words::parse(tokens)?;
        words.refuse_others(&WORDS)?;
        let Some(ident) = field.ident.clone() else {
            return Err(Error::new(owner.span(), "parameters have names"));
        };
        let mut default = None;
        if words.has("written") {
            field.attrs.push(parse_quote!(#[serde(skip)]));
        } else if let Some(expression) = words.value("default") {
            let function = format_ident!("default_{}", ident);
            let (path, kind) = (format!("{owner}::{function}"), &field.ty);
            field.attrs.push(parse_quote!(#[serde(default = #path)]));
            default = Some(quote!(fn #function() -> #kind { #expression }));
        } else if words.has("default") {
            field.attrs.push(parse_quote!(#[serde(default)]));
        }
        let name = ident.to_string();
        Ok(Field {
            name: name.strip_prefix("r#").unwrap_or(&name).to_string(),
            aliases: words.values("alias").cloned().collect(),
            list: words.has("list"),
            lines: words.has("lines"),
            secret: words.has("secret"),
            instead_of_primary: words.has("instead_of_primary"),
            written: words.values("written").cloned().collect(),
            ident,
            default,
        })
    }
}
