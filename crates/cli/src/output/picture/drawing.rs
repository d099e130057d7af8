//! The graph as a drawing: levels as columns, edges by requisite kind, states coloured by their fate.

use super::Picture;

pub fn svg(_picture: &Picture) -> String {
    String::new()
}
