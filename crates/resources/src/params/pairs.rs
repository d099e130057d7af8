//! Lists that people write in three ways: a list of texts, a map, or a list of one-key maps.

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// What such a list holds.
pub(crate) trait Pair<'de>: Sized {
    /// What the whole and one element are, in the words of an error.
    const WHOLE: &'static str;
    const ONE: &'static str;
    /// What stands behind a key.
    type Value: Deserialize<'de>;

    fn of_text<E: Error>(text: &str) -> Result<Self, E>;
    fn of_entry<E: Error>(key: String, value: Self::Value) -> Result<Self, E>;
}

pub(crate) fn read<'de, P: Pair<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<P>, D::Error> {
    deserializer.deserialize_any(Whole(PhantomData))
}

struct Whole<P>(PhantomData<P>);

impl<'de, P: Pair<'de>> Visitor<'de> for Whole<P> {
    type Value = Vec<P>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(P::WHOLE)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<P>, A::Error> {
        entries(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<P>, A::Error> {
        let mut found = Vec::new();
        while let Some(Item(mut items)) = list.next_element()? {
            found.append(&mut items);
        }
        Ok(found)
    }
}

fn entries<'de, P: Pair<'de>, A: MapAccess<'de>>(mut map: A) -> Result<Vec<P>, A::Error> {
    let mut found = Vec::new();
    while let Some((key, value)) = map.next_entry()? {
        found.push(P::of_entry(key, value)?);
    }
    Ok(found)
}

/// One element; a map of several keys is several.
struct Item<P>(Vec<P>);

impl<'de, P: Pair<'de>> Deserialize<'de> for Item<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Item<P>, D::Error> {
        deserializer.deserialize_any(One(PhantomData))
    }
}

struct One<P>(PhantomData<P>);

impl<'de, P: Pair<'de>> Visitor<'de> for One<P> {
    type Value = Item<P>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(P::ONE)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Item<P>, E> {
        P::of_text(text).map(|pair| Item(vec![pair]))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item<P>, A::Error> {
        entries(map).map(Item)
    }
}
