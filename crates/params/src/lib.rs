//! `#[params(…)]` makes a struct the parameters of a kind of state: names, defaults, docs and forms stand at the fields and
//! nowhere else.
//!
//! ```ignore
//! #[params(kind = "service.running", primary = "name", manual = "service_running.md")]
//! pub struct Running {
//!     /// The service, as its manager knows it.
//!     name: String,
//!     /// Whether it starts with the machine.
//!     #[param(alias = "enabled")]
//!     enable: Option<bool>,
//!     /// `true` reloads it instead.
//!     #[param(default)]
//!     reload: bool,
//! }
//! ```
//!
//! It derives `Debug`, `Deserialize` (unknown names refused) and `JsonSchema`, and implements `crate::params::Params` of the
//! crate that it is used in. Doc comments are the documentation that users read.
//!
//! Of the kind: `kind`, `primary`, and `manual`, a file in `manual/` of the crate, or `doc`, the text itself.
//!
//! Of a field, in `#[param(…)]`:
//!
//! | word | meaning |
//! |---|---|
//! | `alias = "…"` | another name of it; may be given several times |
//! | `default`, `default = expression` | what it is where it is not given |
//! | `list` | a single value stands for a list of one |
//! | `lines` | a list stands for the lines of a text |
//! | `secret` | it may hold a secret, which the kind reveals where it belongs and shows nowhere |
//! | `instead_of_primary` | it says what to manage in place of the primary one |
//! | `written = "…"` | no parameter: `true` where another one was written by this name |

mod field;
mod words;

use field::Field;
use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields};
use words::Words;

/// See the crate.
#[proc_macro_attribute]
pub fn params(words: TokenStream, item: TokenStream) -> TokenStream {
    let item = syn::parse_macro_input!(item as DeriveInput);
    expand(words.into(), item).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(words: Tokens, mut item: DeriveInput) -> Result<Tokens, Error> {
    let words = Words::parse(words)?;
    words.refuse_others(&["kind", "primary", "manual", "doc"])?;
    let (kind, primary) = (words.required("kind", &item)?, words.required("primary", &item)?);
    let doc = match (words.value("manual"), words.value("doc")) {
        (Some(manual), None) => {
            quote!(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/manual/", #manual)))
        }
        (None, Some(doc)) => doc.clone(),
        _ => return Err(Error::new(item.ident.span(), "give one of `manual` and `doc`")),
    };
    let name = item.ident.clone();
    let fields = match &mut item.data {
        Data::Struct(data) => match &mut data.fields {
            Fields::Named(named) => named
                .named
                .iter_mut()
                .map(|field| Field::take(field, &name))
                .collect::<Result<Vec<_>, _>>()?,
            other => return Err(Error::new(other.span(), "parameters have names")),
        },
        _ => return Err(Error::new(name.span(), "parameters are a struct")),
    };
    let names = |holds: fn(&Field) -> bool| -> Vec<&String> {
        fields.iter().filter(|field| holds(field)).map(|field| &field.name).collect()
    };
    let lists = names(|field| field.list);
    let lines = names(|field| field.lines);
    let secrets = names(|field| field.secret);
    let instead = names(|field| field.instead_of_primary);
    let aliases = fields.iter().filter(|field| !field.aliases.is_empty()).map(|field| {
        let (name, aliases) = (&field.name, &field.aliases);
        quote!((#name, &[#(#aliases),*]))
    });
    let defaults = fields.iter().filter_map(|field| field.default.as_ref());
    let spelled = fields.iter().flat_map(|field| {
        let ident = &field.ident;
        field.written.iter().map(move |word| quote!(self.#ident |= word == #word;))
    });
    Ok(quote! {
        #[derive(Debug, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        #item

        impl #name { #(#defaults)* }

        impl crate::params::Params for #name {
            const KIND: &'static str = #kind;
            const PRIMARY: &'static str = #primary;
            const INSTEAD_OF_PRIMARY: &'static [&'static str] = &[#(#instead),*];
            const DOC: &'static str = #doc;
            const ALIASES: &'static [(&'static str, &'static [&'static str])] = &[#(#aliases),*];
            const LISTS: &'static [&'static str] = &[#(#lists),*];
            const LINES: &'static [&'static str] = &[#(#lines),*];
            const SECRETS: &'static [&'static str] = &[#(#secrets),*];

            fn spelled(&mut self, word: &str) {
                let _: &str = word;
                #(#spelled)*
            }
        }
    })
}
