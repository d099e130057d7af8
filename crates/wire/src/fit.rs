//! A result larger than the bus carries is cut per field with a marker, never lost silently (J-16).

use crate::codec::encode;
use crate::returns::Return;
use serde_json::Value;

/// How long one text may stay, tried in this order.
const TEXT_BYTES: &[usize] = &[256 * 1024, 64 * 1024, 16 * 1024, 4 * 1024, 1024, 256];

impl Return {
    /// The return as it fits into `bytes_max` encoded bytes. The longest texts give way first; where even short ones are
    /// too many, the answer gives way to a sentence that says so.
    pub fn fit(self, bytes_max: usize) -> Return {
        let size = |candidate: &Return| encode(candidate).map_or(usize::MAX, |bytes| bytes.len());
        let whole = size(&self);
        if whole <= bytes_max {
            return self;
        }
        for longest in TEXT_BYTES {
            let mut cut = self.clone();
            cut.truncated = true;
            cut_text(&mut cut.error, *longest);
            cut_value(&mut cut.answer, *longest);
            if size(&cut) <= bytes_max {
                return cut;
            }
        }
        let mut cut = self;
        cut.truncated = true;
        cut_text(&mut cut.error, 256);
        cut.answer = Value::String(format!("[truncated: the answer of {whole} bytes does not fit the bus]"));
        cut
    }
}

fn cut_value(value: &mut Value, longest: usize) {
    match value {
        Value::String(text) => cut_text(text, longest),
        Value::Array(items) => items.iter_mut().for_each(|item| cut_value(item, longest)),
        Value::Object(fields) => fields.values_mut().for_each(|field| cut_value(field, longest)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn cut_text(text: &mut String, longest: usize) {
    if text.len() <= longest {
        return;
    }
    let gone = text.len();
    let mut end = longest;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str(&format!("… [truncated: {} bytes more]", gone - end));
}
