//! The one pass that opens the secrets of finished settings.

use crate::Chance;
use crate::key::{PrivateKey, PublicKey};
use crate::registry::{SecretText, Secrets};
use crate::sealed::{SealError, Sealed};
use serde_json::Value as Json;
use zeroize::Zeroizing;
use zester_model::secret::{PGP_BEGIN, PGP_END, SEALED, holds_pgp_message};

/// Whoever has the key ring: a message for gpg in, its text or why there is none out.
pub type Gpg<'a> = &'a mut dyn FnMut(&str) -> Result<Zeroizing<String>, String>;

/// Begins the line of a sealed value that says where the user wrote it.
const PLACE: &str = "# ";

/// A secret that cannot be opened here: the settings do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unopened {
    /// `a:b:c`
    pub setting: String,
    /// `settings/db.zy:3:13`
    pub place: Option<String>,
    pub message: String,
    pub hint: String,
}

/// Every sealed value of finished settings, by the name of its setting.
pub fn sealed_in(settings: &Json) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(settings, &mut String::new(), &mut |name, text| found.push((name.to_string(), text.to_string())));
    found
}

fn walk(value: &Json, name: &mut String, see: &mut dyn FnMut(&str, &str)) {
    let length = name.len();
    let mut within = |part: &str, value: &Json| {
        name.truncate(length);
        if length > 0 {
            name.push(':');
        }
        name.push_str(part);
        walk(value, name, see);
    };
    match value {
        Json::Object(map) => map.iter().for_each(|(key, value)| within(key, value)),
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| within(&index.to_string(), value));
        }
        Json::String(text) => {
            if let Some(sealed) = text.strip_prefix(SEALED) {
                see(name, sealed);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
    name.truncate(length);
}

/// Opens every sealed value of finished settings: it goes into the registry, and a placeholder takes its place. Whatever
/// cannot be opened is told, all of it at once.
pub fn open_settings(
    settings: &mut Json,
    key: Option<&PrivateKey>,
    gpg: Gpg<'_>,
    secrets: &mut Secrets,
    chance: Chance<'_>,
) -> Result<(), Vec<Unopened>> {
    let mut unopened = Vec::new();
    let mut placeholders = Vec::new();
    let mut open = |name: &str, text: &str| match holds_pgp_message(text) {
        true => open_messages(name, text, gpg),
        false => open(name, text, key),
    };
    walk(settings, &mut String::new(), &mut |name, text| match open(name, text) {
        Ok(value) => placeholders.push(secrets.add(value, chance)),
        Err(one) => unopened.push(one),
    });
    if !unopened.is_empty() {
        return Err(unopened);
    }
    replace(settings, &mut placeholders.into_iter());
    Ok(())
}

/// For those who only look: a placeholder that nothing stands behind takes the place of every sealed value.
pub fn close_settings(settings: &mut Json, secrets: &mut Secrets, chance: Chance<'_>) {
    let mut placeholders = Vec::new();
    walk(settings, &mut String::new(), &mut |_, _| placeholders.push(secrets.add_closed(chance)));
    replace(settings, &mut placeholders.into_iter());
}

/// For those who only look: every value that is marked as a secret and that nobody sealed.
pub fn unsealed_in(settings: &Json) -> Vec<Unopened> {
    let mut found = Vec::new();
    walk(settings, &mut String::new(), &mut |setting, text| {
        if let Err(error) = Sealed::parse(text)
            && !holds_pgp_message(text)
        {
            found.push(Unopened {
                setting: setting.to_string(),
                place: place_of(text),
                message: format!("the secret `{setting}` is not sealed: {error}"),
                hint: "seal it with `zester secret encrypt`".to_string(),
            });
        }
    });
    found
}

/// For those who only look: every sealed value that a machine of this name was not given, or not with the key that it has.
pub fn sealed_for_others(settings: &Json, name: &str, key: Option<&PublicKey>) -> Vec<Unopened> {
    let fingerprint = key.map(PublicKey::fingerprint);
    let mut found = Vec::new();
    walk(settings, &mut String::new(), &mut |setting, text| {
        // What is no sealed value is told elsewhere.
        let Ok(sealed) = Sealed::parse(text) else { return };
        let opens = sealed.recipients.iter().any(|one| match &fingerprint {
            Some(fingerprint) => one.fingerprint == *fingerprint,
            None => one.name == name,
        });
        if !opens {
            found.push(Unopened {
                setting: setting.to_string(),
                place: place_of(text),
                message: format!("the secret `{setting}` is sealed for {}, not for {name}", sealed.readers()),
                hint: "seal it again with `zester secret encrypt`".to_string(),
            });
        }
    });
    found
}

/// Where the user wrote it.
fn place_of(text: &str) -> Option<String> {
    text.lines().next().and_then(|line| line.strip_prefix(PLACE)).map(str::to_string)
}

/// In the order of the walk.
fn replace(value: &mut Json, placeholders: &mut dyn Iterator<Item = String>) {
    match value {
        Json::Object(map) => map.values_mut().for_each(|value| replace(value, placeholders)),
        Json::Array(items) => items.iter_mut().for_each(|value| replace(value, placeholders)),
        Json::String(text) if text.starts_with(SEALED) => {
            *text = placeholders.next().unwrap_or_default();
        }
        _ => {}
    }
}

/// Every message of a text in its place, and the rest of the text as it is.
fn open_messages(name: &str, text: &str, gpg: Gpg<'_>) -> Result<SecretText, Unopened> {
    let mut opened = Zeroizing::new(String::with_capacity(text.len()));
    let own = text.split_once('\n').filter(|(first, _)| first.starts_with(PLACE));
    let mut rest = own.map_or(text, |(_, own)| own);
    while let Some((before, behind)) = rest.split_once(PGP_BEGIN) {
        let Some((body, after)) = behind.split_once(PGP_END) else {
            return Err(Unopened {
                setting: name.to_string(),
                place: place_of(text),
                message: format!("the message for gpg in `{name}` has no end"),
                hint: format!("its last line is `{PGP_END}`"),
            });
        };
        opened.push_str(before);
        let message = format!("{PGP_BEGIN}{body}{PGP_END}\n");
        let plain = gpg(&message).map_err(|why| Unopened {
            setting: name.to_string(),
            place: place_of(text),
            message: format!("gpg cannot open `{name}`: {why}"),
            hint: "its key must be in the key ring of whoever runs this; `gpg --list-secret-keys` shows it"
                .to_string(),
        })?;
        opened.push_str(&plain);
        rest = after;
    }
    opened.push_str(rest);
    Ok(SecretText::from(std::mem::take(&mut *opened)))
}

fn open(name: &str, text: &str, key: Option<&PrivateKey>) -> Result<SecretText, Unopened> {
    let place = place_of(text);
    let fail = |error: &SealError, hint: String| Unopened {
        setting: name.to_string(),
        place: place.clone(),
        message: format!("the secret `{name}` cannot be opened: {error}"),
        hint,
    };
    let again = || "seal it again with `zester secret encrypt`".to_string();
    let sealed = Sealed::parse(text).map_err(|error| fail(&error, again()))?;
    if let Some(setting) = sealed.setting.as_ref().filter(|setting| *setting != name) {
        return Err(fail(&SealError::OtherSetting(setting.clone()), again()));
    }
    let Some(key) = key else {
        let message = format!("the secret `{name}` cannot be opened: this machine has no key yet");
        let hint = "`zester secret key` makes one and shows its public half".to_string();
        return Err(Unopened { message, ..fail(&SealError::NotForUs, hint) });
    };
    sealed.open(key).map_err(|error| match error {
        SealError::NotForUs => {
            let ours = key.public().fingerprint();
            fail(&error, format!("it is sealed for {}; the key here is {ours}", sealed.readers()))
        }
        _ => fail(&error, again()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::tests::chance;
    use serde_json::json;
    use zester_model::secret::is_placeholder;
    use zester_rule::rule;

    fn no_gpg(_: &str) -> Result<Zeroizing<String>, String> {
        Err("there is no gpg here".into())
    }

    #[test]
    #[rule("S-54", "D-15")]
    fn s54_messages_for_gpg_are_opened_where_they_stand_and_become_placeholders() {
        let message = |body: &str| format!("{PGP_BEGIN}\n{body}\n{PGP_END}");
        let text = format!("{SEALED}# s/a.sls:3:5\nuser: {} / {}\n", message("one"), message("two"));
        let mut settings = json!({ "a": text, "b": "plain" });
        let mut asked = Vec::new();
        let mut gpg = |message: &str| {
            asked.push(message.to_string());
            Ok(Zeroizing::new(format!("opened {}", asked.len())))
        };
        let mut secrets = Secrets::default();
        open_settings(&mut settings, None, &mut gpg, &mut secrets, &mut chance(3)).unwrap();
        let placeholder = settings["a"].as_str().unwrap();
        assert!(is_placeholder(placeholder));
        let revealed = secrets.reveal(placeholder.as_bytes().to_vec()).ok().unwrap();
        assert_eq!(revealed.bytes(), b"user: opened 1 / opened 2\n");
        assert_eq!(asked, [message("one") + "\n", message("two") + "\n"]);
        let mut closed = json!({ "a": text });
        assert!(unsealed_in(&closed).is_empty());
        let found = open_settings(&mut closed, None, &mut no_gpg, &mut secrets, &mut chance(3)).unwrap_err();
        assert_eq!(found[0].message, "gpg cannot open `a`: there is no gpg here");
        assert_eq!(found[0].place.as_deref(), Some("s/a.sls:3:5"));
        let mut cut = json!({ "a": format!("{SEALED}# s/a.sls:3:5\n{PGP_BEGIN}\nhalf") });
        let found = open_settings(&mut cut, None, &mut no_gpg, &mut secrets, &mut chance(3)).unwrap_err();
        assert_eq!(found[0].message, "the message for gpg in `a` has no end");
    }

    fn leaf(value: &str, seed: u8, setting: Option<&str>) -> String {
        let key = PrivateKey::make(&mut chance(seed)).public();
        let sealed = Sealed::seal(value, &[("web-1".into(), key)], setting, &mut chance(7)).unwrap();
        format!("{SEALED}# settings/db.zy:3:13\n{sealed}")
    }

    #[test]
    #[rule("D-6", "D-15")]
    fn d6_the_finished_settings_hold_placeholders_for_what_was_sealed() {
        let mut settings = json!({"a": {"b": [1, leaf("hunter2", 1, Some("a:b:1"))]}, "c": leaf("x", 1, None), "d": "plain"});
        let names: Vec<String> = sealed_in(&settings).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a:b:1", "c"]);
        let (mut secrets, key) = (Secrets::default(), PrivateKey::make(&mut chance(1)));
        open_settings(&mut settings, Some(&key), &mut no_gpg, &mut secrets, &mut chance(3)).unwrap();
        let placeholder = settings["a"]["b"][1].as_str().unwrap();
        assert!(is_placeholder(placeholder));
        assert_eq!(secrets.reveal(placeholder.as_bytes().to_vec()).ok().unwrap().bytes(), b"hunter2");
        assert_eq!(settings["d"], "plain");
    }

    #[test]
    #[rule("D-6")]
    fn d6_who_gets_a_secret_that_is_sealed_for_others_is_found_without_a_key() {
        let settings = json!({"p": leaf("x", 1, None)});
        let key = |seed| PrivateKey::make(&mut chance(seed)).public();
        assert!(sealed_for_others(&settings, "web-1", None).is_empty());
        assert!(sealed_for_others(&settings, "web-1", Some(&key(1))).is_empty());
        for (name, key) in [("web-2", None), ("web-1", Some(key(2)))] {
            let found = sealed_for_others(&settings, name, key.as_ref());
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].place.as_deref(), Some("settings/db.zy:3:13"));
            assert_eq!(found[0].message, format!("the secret `p` is sealed for web-1, not for {name}"));
        }
    }

    #[test]
    #[rule("D-6")]
    fn d6_what_cannot_be_opened_fails_and_says_where_it_stands_and_who_can() {
        let key = PrivateKey::make(&mut chance(1));
        let failed = |mut settings: Json, key: Option<&PrivateKey>| {
            let found =
                open_settings(&mut settings, key, &mut no_gpg, &mut Secrets::default(), &mut chance(3))
                    .unwrap_err();
            let Unopened { place, message, hint, .. } = found.into_iter().next().unwrap();
            assert_eq!(place.as_deref(), Some("settings/db.zy:3:13"));
            format!("{message}; {hint}")
        };
        let other = failed(json!({"p": leaf("x", 2, None)}), Some(&key));
        assert!(
            other.starts_with(
                "the secret `p` cannot be opened: it is not sealed for this key; it is sealed for web-1"
            ),
            "{other}"
        );
        assert!(failed(json!({"p": leaf("x", 1, None)}), None).contains("no key yet"));
        assert!(failed(json!({"p": leaf("x", 1, Some("q"))}), Some(&key)).contains("the value of `q`"));
        let cut = format!("{SEALED}# settings/db.zy:3:13\nhunter2");
        let told = failed(json!({"p": cut}), Some(&key));
        assert!(told.contains("no sealed value") && !told.contains("hunter2"), "{told}");
    }
}
