//! `file.serialize`: data, written as a file of some format.

mod format;

use crate::claims::Claims;
use crate::context::Checking;
use crate::file_change::{Backup, FileChange, FileWish};
use crate::file_resource::FileResource;
use crate::ownership;
use crate::params::{Absolute, Invalid, Mode, params};
use format::{Format, merged};
use serde_json::Value as Json;
use zester_host::{Fault, FaultKind};
use zester_model::outcome::Details;

/// Data in a file.
#[params(kind = "file.serialize", primary = "path", manual = "file_serialize.md")]
pub struct Serialize {
    /// Where the file is.
    path: Absolute,
    /// The data.
    #[param(secret)]
    dataset: Option<Dataset>,
    /// A key of the settings that holds the data, `a:b:c`.
    #[param(alias = "dataset_settings")]
    dataset_pillar: Option<String>,
    /// How it is written: `yaml`, `json`, `toml` or `ini`. Default: `yaml`.
    #[param(alias = "serializer")]
    formatter: Option<Format>,
    /// `indent`, a number of spaces, and `sort_keys`, for JSON and YAML.
    #[param(alias = "serializer_opts", default)]
    options: Options,
    /// Lays the data over what the file holds already, instead of replacing it.
    #[param(default)]
    merge_if_exists: bool,
    /// `false` does nothing where there is no such file yet.
    #[param(default = true)]
    create: bool,
    /// Permissions, like `0644`. Unset: those of the existing file, `0644` for a new one, `0600` where it holds a secret.
    mode: Option<Mode>,
    /// Whom it belongs to: a name or a number. Unset: as it is.
    #[param(alias = "owner")]
    user: Option<String>,
    /// Which group it belongs to: a name or a number. Unset: as it is.
    group: Option<String>,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
    /// Permissions of directories that `makedirs` creates. Default: `0755`.
    dir_mode: Option<Mode>,
    /// Keeps the replaced file as `PATH~`, or with the suffix given.
    backup: Option<Backup>,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// Any data.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Dataset(Json);

impl schemars::JsonSchema for Dataset {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Dataset".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["object", "array"], "x-takes": "map or list" })
    }
}

/// How it looks.
#[derive(Clone, Debug, Default)]
struct Options {
    indent: Option<usize>,
    sort_keys: Option<bool>,
}

/// A map, or a list of one-key maps, as Salt files have it.
impl<'de> serde::Deserialize<'de> for Options {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Options, D::Error> {
        use serde::de::Error;
        let given = Json::deserialize(deserializer)?;
        let maps = match given {
            Json::Object(map) => vec![map],
            Json::Array(items) => {
                items.into_iter().filter_map(|item| item.as_object().cloned()).collect::<Vec<Details>>()
            }
            _ => return Err(D::Error::custom("a map of options is needed")),
        };
        let mut options = Options::default();
        for (name, value) in maps.into_iter().flatten() {
            match (name.as_str(), &value) {
                ("indent", Json::Number(number)) => {
                    let indent = number.as_u64().and_then(|number| usize::try_from(number).ok());
                    options.indent = indent.filter(|indent| *indent <= 16);
                    if options.indent.is_none() {
                        return Err(D::Error::custom("`indent` is a number from 0 to 16"));
                    }
                }
                ("sort_keys", Json::Bool(sort)) => options.sort_keys = Some(*sort),
                _ => {
                    let words = format!("`{name}` is no option here; there are `indent` and `sort_keys`");
                    return Err(D::Error::custom(words));
                }
            }
        }
        Ok(options)
    }
}

impl schemars::JsonSchema for Options {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SerializeOptions".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["object", "array"], "x-takes": "map of `indent` and `sort_keys`" })
    }
}

impl Serialize {
    fn data(&self, cx: &Checking<'_>) -> Result<Json, Fault> {
        match (&self.dataset, &self.dataset_pillar) {
            (Some(Dataset(data)), _) => Ok(data.clone()),
            (None, Some(key)) => cx
                .files
                .setting(key)
                .ok_or_else(|| Fault::new(FaultKind::Unsupported, format!("there is no setting `{key}`"))),
            (None, None) => Err(Fault::new(FaultKind::Unsupported, "there is no data")),
        }
    }

    fn text(&self, cx: &Checking<'_>, old: Option<&[u8]>) -> Result<String, Fault> {
        let format = self.formatter.unwrap_or(Format::Yaml);
        let mut data = self.data(cx)?;
        let refused = |message: String| {
            Fault::new(FaultKind::Unsupported, format!("{}: {message}", self.path.display()))
        };
        if let Some(old) = old.filter(|_| self.merge_if_exists) {
            let old = std::str::from_utf8(old).map_err(|_| refused("it is not UTF-8 text".into()))?;
            if !old.trim().is_empty() {
                let present = format
                    .read(cx, old)
                    .map_err(|message| refused(format!("what it holds cannot be read: {message}")))?;
                data = merged(present, data);
            }
        }
        let written = format.write(cx, &data, self.options.indent, self.options.sort_keys);
        let mut text = written.map_err(refused)?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }
}

impl FileResource for Serialize {
    type Drift = FileChange;
    const CHECK_CMD_FIRST: bool = true;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        let content = |old: Option<&[u8]>| cx.files.reveal(self.text(cx, old)?.into_bytes()).map(Some);
        let wish = FileWish {
            edits: self.merge_if_exists,
            mode: self.mode,
            user: self.user.as_deref(),
            group: self.group.as_deref(),
            makedirs: self.makedirs,
            dir_mode: self.dir_mode,
            backup: self.backup.as_ref(),
            create: self.create,
            show_changes: self.show_changes,
            ..FileWish::new(&self.path, &content)
        };
        wish.find(cx)
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = ownership::invalid(self.user.as_deref(), self.group.as_deref());
        match (&self.dataset, &self.dataset_pillar) {
            (None, None) => {
                invalid.push(Invalid::new("path", "the data is missing: give `dataset` or `dataset_pillar`"));
            }
            (Some(_), Some(_)) => {
                invalid.push(Invalid::new("dataset_pillar", "give `dataset` or `dataset_pillar`, not both"));
            }
            _ => {}
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let data = self.dataset.as_ref().map(|Dataset(data)| data.to_string());
        let owned = Claims::path(&self.path, "a file")
            .with("content", (!self.merge_if_exists).then_some((data, &self.dataset_pillar, self.formatter)))
            .with("mode", self.mode)
            .with("user", self.user.as_ref())
            .with("group", self.group.as_ref());
        Claims::of(owned)
            .follows(true)
            .accounts(self.user.as_deref(), self.group.as_deref())
            .makes_parents(self.makedirs, (self.dir_mode, &self.user, &self.group))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |mut params: serde_json::Value, promise, world: &'static str| {
        params["path"] = json!("/f");
        Case::new("file.serialize", params, promise, move |host| furnish(host, world))
    };
    let data = json!({ "b": 1, "a": ["x", true, null] });
    vec![
        case(json!({ "dataset": data, "formatter": "json" }), Promise::Converges, ""),
        case(
            json!({ "dataset": data, "formatter": "yaml", "mode": "0600" }),
            Promise::Converges,
            "f /f 0644 old",
        ),
        case(
            json!({ "dataset": { "a": { "b": 1 } }, "formatter": "toml", "backup": true }),
            Promise::Converges,
            "f /f 0644 old",
        ),
        case(json!({ "dataset": { "a": { "b": 1 } }, "formatter": "ini" }), Promise::Converges, ""),
        case(
            json!({ "dataset": { "x": 1 }, "formatter": "json", "merge_if_exists": true }),
            Promise::Converges,
            "f /f 0644 {\"y\":2}",
        ),
        case(
            json!({ "dataset": { "x": 1 }, "formatter": "json", "merge_if_exists": true }),
            Promise::Fails,
            "f /f 0644 broken",
        ),
        case(json!({ "dataset": { "x": 1 }, "create": false }), Promise::Clean, ""),
        case(json!({ "dataset": { "x": null }, "formatter": "toml" }), Promise::Fails, ""),
        case(json!({ "dataset_pillar": "app:none" }), Promise::Fails, ""),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_edit::try_edit::{edited, refused};
    use serde_json::json;

    #[test]
    fn data_is_written_in_each_format() {
        let data = json!({ "z": 1, "section": { "key": "value", "list": ["a", "b"] } });
        let written = |formatter: &str| {
            edited("file.serialize", json!({ "dataset": data, "formatter": formatter }), None).unwrap()
        };
        let json = written("json");
        assert!(json.starts_with("{\n  \"section\": {\n    \"key\": \"value\""), "{json}");
        assert!(json.ends_with("\"z\": 1\n}\n"), "{json}");
        assert_eq!(
            written("toml"),
            "z = 1\n\n[section]\nkey = \"value\"\nlist = [\n    \"a\",\n    \"b\",\n]\n"
        );
        assert_eq!(written("ini"), "z = 1\n\n[section]\nkey = value\nlist = a, b\n");
        let options = json!({ "dataset": { "b": 1, "a": 2 }, "formatter": "json", "serializer_opts": [{ "indent": 0 }, { "sort_keys": false }] });
        assert_eq!(edited("file.serialize", options, None).as_deref(), Some("{\"b\":1,\"a\":2}\n"));
    }

    #[test]
    fn what_is_there_is_laid_under_the_data() {
        let merge = |formatter: &str, old: &str| {
            let data = json!({ "a": { "x": 1 }, "c": [3] });
            let params = json!({ "dataset": data, "formatter": formatter, "merge_if_exists": true });
            edited("file.serialize", params, Some(old)).unwrap()
        };
        let json: serde_json::Value =
            serde_json::from_str(&merge("json", r#"{"a":{"y":2},"b":1,"c":[1,2]}"#)).unwrap();
        assert_eq!(json, json!({ "a": { "y": 2, "x": 1 }, "b": 1, "c": [3] }));
        assert_eq!(merge("toml", "b = 1\n[a]\ny = 2\n"), "b = 1\nc = [3]\n\n[a]\ny = 2\nx = 1\n");
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        for (params, words) in [
            (json!({}), "the data is missing"),
            (json!({ "dataset": { "a": 1 }, "formatter": "plist" }), "plist"),
            (json!({ "dataset": { "a": 1 }, "serializer_opts": { "loud": true } }), "`loud` is no option"),
            (json!({ "dataset": ["a"], "formatter": "ini" }), "a map of sections"),
            (json!({ "dataset": ["a"], "formatter": "toml" }), "/f: "),
        ] {
            let said = refused("file.serialize", params.clone(), None);
            assert!(said.contains(words), "{params}: {said}");
        }
    }
}
