//! Records in buckets, sealed for their key (I-12).

use crate::error::Error;
use crate::link::Link;
use zester_bus::{Entry, Sequence};
use zester_identity::Speaker;
use zester_wire::{Bucket, Key, Message, UnixMillis};

/// A record that was read.
#[derive(Clone, Debug)]
pub struct Found<T> {
    pub value: T,
    pub revision: Sequence,
    /// When the server stored it.
    pub stored: UnixMillis,
}

impl Link {
    pub async fn get<T: Message>(&self, key: &Key) -> Result<Option<Found<T>>, Error> {
        let entry = self.bus().get(key.bucket().as_str(), &key.to_string()).await?;
        entry.map(|entry| self.record_of(key, &entry)).transpose()
    }

    /// As the leader of the bucket has it: for what decides who owns something (J-13).
    pub async fn get_latest<T: Message>(&self, key: &Key) -> Result<Option<Found<T>>, Error> {
        let entry = self.bus().get_latest(key.bucket().as_str(), &key.to_string()).await?;
        entry.map(|entry| self.record_of(key, &entry)).transpose()
    }

    /// Reads a record from an entry of a scan or a watch of a bucket.
    pub fn record<T: Message>(&self, bucket: Bucket, entry: &Entry) -> Result<Found<T>, Error> {
        let mismatched = |_| Error::Mismatched { subject: format!("$KV.{}.{}", bucket.as_str(), entry.key) };
        self.record_of(&Key::parse(bucket, &entry.key).map_err(mismatched)?, entry)
    }

    fn record_of<T: Message>(&self, key: &Key, entry: &Entry) -> Result<Found<T>, Error> {
        let value = self.unseal(&key.subject(), &Speaker::of_key(key), entry.into())?.message;
        Ok(Found { value, revision: entry.revision, stored: UnixMillis(entry.at) })
    }

    pub async fn put<T: Message>(&self, key: &Key, value: &T) -> Result<Sequence, Error> {
        let sealed = self.sealed(key, value)?;
        Ok(self.bus().put(key.bucket().as_str(), &key.to_string(), sealed).await?)
    }

    /// Fails with a conflict where the key exists.
    pub async fn create<T: Message>(&self, key: &Key, value: &T) -> Result<Sequence, Error> {
        let sealed = self.sealed(key, value)?;
        Ok(self.bus().create(key.bucket().as_str(), &key.to_string(), sealed).await?)
    }

    /// Fails with a conflict where the key has another revision.
    pub async fn update<T: Message>(
        &self,
        key: &Key,
        value: &T,
        expected: Sequence,
    ) -> Result<Sequence, Error> {
        let sealed = self.sealed(key, value)?;
        Ok(self.bus().update(key.bucket().as_str(), &key.to_string(), sealed, expected).await?)
    }

    pub async fn purge(&self, key: &Key) -> Result<(), Error> {
        Ok(self.bus().purge(key.bucket().as_str(), &key.to_string(), None).await?)
    }

    fn sealed<T: Message>(&self, key: &Key, value: &T) -> Result<zester_bus::Bytes, Error> {
        self.seal(&key.subject(), self.new_message_id()?, value)
    }
}
