//! `varargs` and `kwargs` of macros: what a call gives beyond the parameters that a macro declares.
//!
//! The engine's macros take no more than they declare. One whose text asks for the rest is declared under another name with
//! two parameters more, and stands behind an object that sorts a call's arguments; see [`super::statements`].

use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, Value, from_args};
use minijinja::{Environment, Error, State};
use std::sync::Arc;

/// What the macro itself is called.
pub const PREFIX: &str = "_all_of_";
/// The function that makes the object.
pub const FUNCTION: &str = "_varargs";
/// The words by which a macro asks.
pub const WORDS: [&str; 2] = ["varargs", "kwargs"];

#[derive(Debug)]
struct Open {
    of: Value,
    /// What the macro declares.
    declared: Vec<String>,
}

impl Object for Open {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let (bare, named): (Rest<Value>, Kwargs) = from_args(args)?;
        let mut own: Vec<(String, Value)> = Vec::new();
        let mut rest: Vec<(String, Value)> = Vec::new();
        for name in named.args() {
            let is_own = name == "caller" || self.declared.iter().any(|declared| declared == name);
            if is_own { &mut own } else { &mut rest }.push((name.to_string(), named.get(name)?));
        }
        let split = bare.len().min(self.declared.len());
        let (first, more) = bare.split_at(split);
        for (word, value) in WORDS.iter().zip([Value::from(more.to_vec()), Value::from_pairs(rest)]) {
            if !self.declared.iter().any(|declared| declared == word) {
                own.push((word.to_string(), value));
            }
        }
        let mut all = first.to_vec();
        all.push(Value::from(own.into_iter().collect::<Kwargs>()));
        self.of.call(state, &all)
    }
}

pub fn add(env: &mut Environment<'_>) {
    env.add_function(FUNCTION, |of: Value, declared: Rest<String>| {
        Value::from_object(Open { of, declared: declared.to_vec() })
    });
}
