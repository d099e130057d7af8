//! Messages for gpg in settings (S-54). They are sealed values like `!secret`: whoever opens settings opens them, and templates
//! never see more than a placeholder.

use std::sync::Arc;
use zester_model::node::{Node, Scalar, ScalarType, Value};
use zester_model::secret;

/// The same data with every text that holds a message sealed, and whether there is one.
pub fn seal(node: &Node) -> (Node, bool) {
    let value = match &node.value {
        Value::Scalar(Scalar { text, scalar_type: ScalarType::Text }) if secret::holds_pgp_message(text) => {
            let sealed = Scalar { text: text.clone(), scalar_type: ScalarType::Sealed };
            return (Node { span: node.span, value: Value::Scalar(sealed) }, true);
        }
        Value::Scalar(_) => return (node.clone(), false),
        Value::List(items) => {
            let items: Vec<(Node, bool)> = items.iter().map(seal).collect();
            if !items.iter().any(|(_, found)| *found) {
                return (node.clone(), false);
            }
            Value::List(Arc::new(items.into_iter().map(|(item, _)| item).collect()))
        }
        Value::Map(entries) => {
            let sealed: Vec<(Node, (Node, bool))> =
                entries.iter().map(|(key, value)| (key.clone(), seal(value))).collect();
            if !sealed.iter().any(|(_, (_, found))| *found) {
                return (node.clone(), false);
            }
            Value::Map(Arc::new(sealed.into_iter().map(|(key, (value, _))| (key, value)).collect()))
        }
    };
    (Node { span: node.span, value }, true)
}
