//! `#[rule("S-13")]` says which rules of the spec a test shows, as data that `cargo xtask tidy` reads.
//!
//! The attribute leaves the test as it is; what is no rule id does not compile. Only ever a dev-dependency.
//!
//! ```
//! use zester_rule::rule;
//!
//! #[rule("S-27", "S-34")]
//! fn modes_and_counts() {}
//! modes_and_counts();
//! ```
//!
//! ```compile_fail
//! #[zester_rule::rule("S13")]
//! fn an_id_without_its_dash() {}
//! ```
//!
//! ```compile_fail
//! #[zester_rule::rule]
//! fn no_rule_at_all() {}
//! ```

use proc_macro::{TokenStream, TokenTree};

/// The families of rules, one letter a page of the spec.
const FAMILIES: &str = "SXJRDIC";

/// States the rules that a test shows: `#[rule("S-13")]`, `#[rule("S-27", "S-34")]`.
#[proc_macro_attribute]
pub fn rule(rules: TokenStream, test: TokenStream) -> TokenStream {
    match refused(rules) {
        None => test,
        Some(why) => {
            // Kept beside the error, so that the test is not reported as missing as well.
            let mut said = error(&why);
            said.extend(test);
            said
        }
    }
}

/// Why these are no rules, if they are none.
fn refused(rules: TokenStream) -> Option<String> {
    let tokens: Vec<String> = rules.into_iter().map(text).collect();
    if tokens.is_empty() {
        return Some("name a rule: #[rule(\"S-13\")]".into());
    }
    for (index, token) in tokens.iter().enumerate() {
        if index % 2 == 1 {
            if token != "," {
                return Some(format!("a comma stands between rules, not {token}"));
            }
        } else if !token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).is_some_and(is_rule) {
            return Some(format!("{token} is no rule id; one is \"S-13\", with a letter of {FAMILIES}"));
        }
    }
    None
}

/// A token as it was written. What a `macro_rules!` hands on stands in a group without brackets.
fn text(token: TokenTree) -> String {
    token.to_string().trim().to_string()
}

fn is_rule(id: &str) -> bool {
    let Some((family, number)) = id.split_once('-') else { return false };
    let known = family.len() == 1 && FAMILIES.contains(family);
    known && !number.starts_with('0') && number.parse::<u16>().is_ok()
}

fn error(why: &str) -> TokenStream {
    format!("::core::compile_error!({why:?});").parse().unwrap_or_default()
}
