//! A secret as it is typed or piped in; never a word of the command line, which others can read.

use crate::answer::Failure;
use crate::app::App;
use std::io::{IsTerminal, Read};
use zester_converge::secrets::Random;
use zester_model::secret::HIDDEN_LETTERS_MIN;
use zester_secret::{PublicKey, SealError, Sealed, SecretText};

/// More is no secret but a file.
const VALUE_BYTES_MAX: u64 = 64 * 1024;

/// A value until it is sealed.
pub struct Value(SecretText);

impl Value {
    /// Asks on the terminal without showing it, or reads all of stdin. The line end at its end is not part of it.
    pub fn read(app: &App, verbatim: bool) -> Result<Value, Failure> {
        let fail = |error| Failure::usage(format!("the secret could not be read: {error}"));
        if std::io::stdin().is_terminal() {
            app.output.notice("the secret, and Enter (it is not shown):");
            let typed = console::Term::stderr().read_secure_line().map_err(fail)?;
            return Value(typed.into()).checked();
        }
        let mut text = String::new();
        std::io::stdin().take(VALUE_BYTES_MAX + 2).read_to_string(&mut text).map_err(fail)?;
        if !verbatim {
            let length = text.strip_suffix('\n').map_or(text.len(), str::len);
            text.truncate(length);
        }
        Value(text.into()).checked()
    }

    /// One that cannot be kept out of what commands print would not stay a secret.
    fn checked(self) -> Result<Value, Failure> {
        if self.0.text().is_empty() {
            return Err(Failure::usage("the secret is empty; nothing was sealed"));
        }
        if self.0.text().trim().chars().count() < HIDDEN_LETTERS_MIN {
            return Err(Failure::usage(format!(
                "the secret is shorter than {HIDDEN_LETTERS_MIN} letters: what commands print cannot be searched for it; \
                 nothing was sealed"
            )));
        }
        Ok(self)
    }

    pub fn seal(&self, to: &[(String, PublicKey)], setting: Option<&str>) -> Result<Sealed, Failure> {
        seal(self.0.text(), to, setting)
    }
}

pub fn seal(value: &str, to: &[(String, PublicKey)], setting: Option<&str>) -> Result<Sealed, Failure> {
    let mut random = Random::default();
    let sealed = Sealed::seal(value, to, setting, &mut |bytes| random.fill(bytes));
    random.check()?;
    sealed.map_err(|why: SealError| Failure::usage(why.to_string()))
}
