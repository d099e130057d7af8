//! A page of its own around the drawing.

use super::Picture;

pub fn html(picture: &Picture) -> String {
    super::svg(picture)
}
