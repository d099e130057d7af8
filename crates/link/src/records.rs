//! Records in buckets, sealed for their key (I-12).

use crate::dropped::Reason;
use crate::error::Error;
use crate::incoming::Came;
use crate::link::Link;
use crate::newest::Age;
use std::sync::PoisonError;
use zester_bus::{Entry, Sequence};
use zester_identity::{Principal, Speaker, Spoof};
use zester_wire::{Bucket, Envelope, Key, Message, UnixMillis, decode};

/// A record that was read.
#[derive(Clone, Debug)]
pub struct Found<T> {
    pub value: T,
    pub revision: Sequence,
    /// When the server stored it.
    pub stored: UnixMillis,
}

/// What stands under a key, a record that counts or not (see [`Error::is_void`]).
#[derive(Debug)]
pub struct Standing<T> {
    pub value: Result<T, Error>,
    pub revision: Sequence,
}

impl<T> Standing<T> {
    /// The record, if it counts.
    pub fn record(&self) -> Option<&T> {
        self.value.as_ref().ok()
    }
}

impl Link {
    pub async fn get<T: Message>(&self, key: &Key) -> Result<Option<Found<T>>, Error> {
        let entry = self.bus().get(key.bucket().as_str(), &key.to_string()).await?;
        let Some(found) = entry.map(|entry| self.record_of::<T>(key, &entry)).transpose()? else {
            return Ok(None);
        };
        match self.age_of(key, &found) {
            Age::Newest => Ok(Some(found)),
            // Is the server behind, or did somebody put it back? The leader knows.
            Age::Behind | Age::PutBack => self.get_latest(key).await,
        }
    }

    /// As the leader of the bucket has it: for what decides who owns something (J-13).
    pub async fn get_latest<T: Message>(&self, key: &Key) -> Result<Option<Found<T>>, Error> {
        // Whoever writes it at the same moment may be noted before what was read here: then the second look finds that.
        for is_last in [false, true] {
            let entry = self.bus().get_latest(key.bucket().as_str(), &key.to_string()).await?;
            let found = entry.map(|entry| self.record_of::<T>(key, &entry)).transpose()?;
            let Some(found) = found else { return Ok(None) };
            match self.age_of(key, &found) {
                Age::Newest => return Ok(Some(found)),
                Age::Behind | Age::PutBack if is_last => return Err(self.older(key, found.revision)),
                Age::Behind | Age::PutBack => {}
            }
        }
        Ok(None)
    }

    /// What is told and counted of a record that was put back.
    fn older(&self, key: &Key, revision: Sequence) -> Error {
        let error = Error::Older { subject: key.subject(), revision };
        self.dropped().one(Reason::Older, &key.subject(), &error);
        error
    }

    /// What a record is to what was seen under its key. Where nobody signs, anybody writes what they like.
    fn age_of<T: Message>(&self, key: &Key, found: &Found<T>) -> Age {
        let serial = self.trust().and_then(|_| found.value.serial());
        serial.map_or(Age::Newest, |serial| {
            let mut newest = self.newest().lock().unwrap_or_else(PoisonError::into_inner);
            newest.take(&key.subject(), serial, found.revision)
        })
    }

    /// Whether nothing newer than this was seen under its key: whoever holds it may write it over what was put back.
    pub fn is_newest<T: Message>(&self, key: &Key, value: &T) -> bool {
        let newest = self.newest().lock().unwrap_or_else(PoisonError::into_inner);
        value.serial().is_none_or(|serial| newest.is_newest(&key.subject(), &serial))
    }

    /// The highest number that was seen under a key, where all who write count together: what is written next is to be above it.
    pub fn newest_number(&self, key: &Key) -> Option<u64> {
        self.newest().lock().unwrap_or_else(PoisonError::into_inner).number(&key.subject())
    }

    /// As the leader has it, also where it was put back: for whoever was told to write over that.
    pub async fn get_however_old<T: Message>(&self, key: &Key) -> Result<Option<Found<T>>, Error> {
        let entry = self.bus().get_latest(key.bucket().as_str(), &key.to_string()).await?;
        entry.map(|entry| self.record_of::<T>(key, &entry)).transpose()
    }

    /// Takes note of what was written here.
    fn wrote<T: Message>(&self, key: &Key, value: &T, revision: Sequence) -> Sequence {
        if self.trust().is_some()
            && let Some(serial) = value.serial()
        {
            let mut newest = self.newest().lock().unwrap_or_else(PoisonError::into_inner);
            newest.take(&key.subject(), serial, revision);
        }
        revision
    }

    /// The same, for whoever has to go on where what stands there counts for nobody: a master whose key was revoked must leave
    /// no key behind that nobody can ever write again. What others may rightly believe is an error.
    pub async fn get_standing<T: Message>(&self, key: &Key) -> Result<Option<Standing<T>>, Error> {
        let Some(entry) = self.bus().get_latest(key.bucket().as_str(), &key.to_string()).await? else {
            return Ok(None);
        };
        let value = match self.record_of::<T>(key, &entry) {
            Ok(found) if self.age_of(key, &found) == Age::PutBack => Err(self.older(key, found.revision)),
            Ok(found) => Ok(found.value),
            Err(error) if error.is_void() => Err(error),
            Err(error) => return Err(error),
        };
        Ok(Some(Standing { value, revision: entry.revision }))
    }

    /// What a record says that counts for nobody because its signer was revoked since: for whoever signs something in its place. The
    /// error is why it cannot be told, or that this is no such record.
    pub async fn get_revoked<T: Message>(&self, key: &Key) -> Result<Option<Standing<T>>, Error> {
        let Some(entry) = self.bus().get_latest(key.bucket().as_str(), &key.to_string()).await? else {
            return Ok(None);
        };
        let subject = key.subject();
        let envelope: Envelope = decode(&entry.value)?;
        let value = match self.trust().is_some_and(|trust| trust.is_of_revoked(&envelope, &subject)) {
            true => Ok(envelope.open()?),
            false => Err(Error::Spoof { subject, why: Spoof::BadSignature }),
        };
        Ok(Some(Standing { value, revision: entry.revision }))
    }

    /// Who signed the record that stands under a key. None: nothing is there, or nobody signs.
    pub async fn signer<T: Message>(&self, key: &Key) -> Result<Option<Principal>, Error> {
        let entry = self.bus().get_latest(key.bucket().as_str(), &key.to_string()).await?;
        let Some(entry) = entry else { return Ok(None) };
        Ok(self.unseal::<T>(&key.subject(), &Speaker::of_key(key), (&entry).into())?.principal)
    }

    /// Reads a record from an entry of a scan or a watch of a bucket.
    pub fn record<T: Message>(&self, bucket: Bucket, entry: &Entry) -> Result<Found<T>, Error> {
        let mismatched = |_| Error::Mismatched { subject: format!("$KV.{}.{}", bucket.as_str(), entry.key) };
        let key = Key::parse(bucket, &entry.key).map_err(mismatched)?;
        let found = self.record_of(&key, entry)?;
        match self.age_of(&key, &found) {
            // Whoever scans or watches sees each as it was when its turn came.
            Age::Newest | Age::Behind => Ok(found),
            Age::PutBack => Err(self.older(&key, found.revision)),
        }
    }

    fn record_of<T: Message>(&self, key: &Key, entry: &Entry) -> Result<Found<T>, Error> {
        let value: T = self.unseal(&key.subject(), &Speaker::of_key(key), entry.into())?.message;
        let value = self.in_own_words(key, value, UnixMillis(entry.at))?;
        Ok(Found { value, revision: entry.revision, stored: UnixMillis(entry.at) })
    }

    /// What a record says of somebody in the words of that one, who signed them; a master that stores them adds nothing (I-12).
    fn in_own_words<T: Message>(&self, key: &Key, value: T, at: UnixMillis) -> Result<T, Error> {
        match value.own_words() {
            Some((subject, own)) => {
                let speaker = Speaker::of_subject(&subject);
                let own = self.unseal::<T>(&subject.to_string(), &speaker, Came::kept(&own, at))?.message;
                let mismatched = || Error::Mismatched { subject: key.subject() };
                value.in_own_words(own).ok_or_else(mismatched)
            }
            None if T::OWN_WORDS && self.trust().is_some() => {
                Err(Error::Spoof { subject: key.subject(), why: Spoof::Unsigned })
            }
            None => Ok(value),
        }
    }

    pub async fn put<T: Message>(&self, key: &Key, value: &T) -> Result<Sequence, Error> {
        let sealed = self.sealed(key, value)?;
        let revision = self.bus().put(key.bucket().as_str(), &key.to_string(), sealed).await?;
        Ok(self.wrote(key, value, revision))
    }

    /// Fails with a conflict where the key exists.
    pub async fn create<T: Message>(&self, key: &Key, value: &T) -> Result<Sequence, Error> {
        let sealed = self.sealed(key, value)?;
        let revision = self.bus().create(key.bucket().as_str(), &key.to_string(), sealed).await?;
        Ok(self.wrote(key, value, revision))
    }

    /// Fails with a conflict where the key has another revision.
    pub async fn update<T: Message>(
        &self,
        key: &Key,
        value: &T,
        expected: Sequence,
    ) -> Result<Sequence, Error> {
        let sealed = self.sealed(key, value)?;
        let revision = self.bus().update(key.bucket().as_str(), &key.to_string(), sealed, expected).await?;
        Ok(self.wrote(key, value, revision))
    }

    pub async fn purge(&self, key: &Key) -> Result<(), Error> {
        Ok(self.bus().purge(key.bucket().as_str(), &key.to_string(), None).await?)
    }

    fn sealed<T: Message>(&self, key: &Key, value: &T) -> Result<zester_bus::Bytes, Error> {
        self.seal(&key.subject(), self.new_message_id()?, value)
    }
}
