//! Settings for people: key, value, place.

use super::paint::Paint;
use serde_json::Value as Json;

/// Letters of a value that are shown; all of it is in `settings.get` and in JSON.
const VALUE_SHOWN: usize = 60;
/// The widest column of keys and of values that others are aligned to.
const COLUMN_MAX: usize = 40;

/// A line for each value of the document of `settings.show`.
pub fn rows(document: &Json, paint: Paint) -> String {
    let rows: Vec<(String, String, String)> =
        document["values"].as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        return "no settings\n".to_string();
    }
    let width = |column: fn(&(String, String, String)) -> &String| {
        rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0).min(COLUMN_MAX)
    };
    let (keys, values) = (width(|row| &row.0), width(|row| &row.1));
    let line = |(key, value, place): &(String, String, String)| {
        format!("{key:<keys$}  {value:<values$}  {}\n", paint.dim(place))
    };
    rows.iter().map(line).collect()
}

fn row(entry: &Json) -> (String, String, String) {
    let text = |name: &str| entry[name].as_str().unwrap_or_default().to_string();
    let value = match &entry["value"] {
        Json::String(text) if !text.is_empty() && !text.contains(char::is_control) => text.clone(),
        other => other.to_string(),
    };
    let mut shown: String = value.chars().take(VALUE_SHOWN).collect();
    if value.chars().nth(VALUE_SHOWN).is_some() {
        shown.push('…');
    }
    let place = match entry["line"].as_u64() {
        Some(line) => format!("{}:{line}", text("from")),
        None => text("from"),
    };
    (text("key"), shown, place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_value_stands_on_a_line_with_its_place() {
        let document = json!({"values": [
            {"key": "nginx:workers", "value": 4, "from": "settings/web.zy", "line": 3},
            {"key": "role", "value": "web", "from": "--setting role=web", "line": null},
            {"key": "t", "value": "a\nb", "from": "settings/web.zy", "line": 9},
        ]});
        assert_eq!(
            rows(&document, Paint::new(false)),
            "nginx:workers  4       settings/web.zy:3\n\
             role           web     --setting role=web\n\
             t              \"a\\nb\"  settings/web.zy:9\n"
        );
        assert_eq!(rows(&json!({"values": []}), Paint::new(false)), "no settings\n");
    }
}
