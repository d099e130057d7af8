//! Reading the audit log: what masters decided, and whether the log is whole (I-6).

use crate::client::Client;
use crate::error::Error;
use std::collections::BTreeMap;
use zester_bus::Record;
use zester_bus::storage::AUDIT;
use zester_identity::audit::{Break, Verifier, hash};
use zester_wire::{
    AuditEntry, AuditHead, Bucket, Envelope, MasterHeartbeat, MasterId, Subject, decode, subject,
};

/// One record of the log.
#[derive(Clone, Debug)]
pub struct AuditRecord {
    /// Its place in the stream.
    pub sequence: u64,
    pub entry: AuditEntry,
    pub hash: Vec<u8>,
    /// Who signed it; empty where nobody signs.
    pub signer: String,
    /// As it came: what an archive keeps, to be verified again.
    pub envelope: Vec<u8>,
}

/// The log as it was read.
pub struct AuditLog {
    pub records: Vec<AuditRecord>,
    pub breaks: Vec<Break>,
    pub chains: usize,
    /// Chains whose master neither stopped in order nor lives, and their last entries.
    pub unended: Vec<(String, u64)>,
}

impl Client {
    /// Reads the whole log, and finds where it is not what was written. Each chain is held against what its master, if it lives,
    /// says it wrote: that is read first, so that what is written meanwhile is not missed.
    pub async fn audit(&self) -> Result<AuditLog, Error> {
        let heads = self.audit_heads().await?;
        let (mut verifier, mut records) = (Verifier::default(), Vec::new());
        self.link
            .each_message(AUDIT, subject::AUDIT, |record| match self.audit_record(record) {
                Ok((found, payload)) => {
                    verifier.take(record.sequence, Ok((&found.entry, &payload)));
                    records.push(found);
                }
                Err(why) => verifier.take(record.sequence, Err(why)),
            })
            .await?;
        heads.values().flatten().for_each(|head| verifier.head(head));
        let living: Vec<MasterId> = heads.into_keys().collect();
        let (unended, chains) = (verifier.unended(&living), verifier.chains());
        Ok(AuditLog { records, breaks: verifier.breaks, chains, unended })
    }

    /// How far each master that lives says its chain is.
    async fn audit_heads(&self) -> Result<BTreeMap<MasterId, Option<AuditHead>>, Error> {
        let records = self.records::<MasterHeartbeat>(Bucket::MasterHeartbeat, ">").await?;
        Ok(records.into_iter().map(|(_, found)| (found.value.master, found.value.audit)).collect())
    }

    fn audit_record(&self, record: &Record) -> Result<(AuditRecord, Vec<u8>), String> {
        let subject = Subject::parse(&record.subject).map_err(|bad| bad.to_string())?;
        let opened = self.link.try_open::<AuditEntry>(&subject, record).map_err(|error| error.to_string())?;
        if !matches!(&subject, Subject::Audit { master } if *master == opened.message.chain) {
            return Err("it names another chain than its subject".into());
        }
        let envelope: Envelope = decode(&opened.envelope).map_err(|error| error.to_string())?;
        let signer = opened.principal.map(|who| who.to_string()).unwrap_or_default();
        let (hash, payload) = (hash(&envelope.payload), envelope.payload);
        let (sequence, entry) = (record.sequence, opened.message);
        Ok((AuditRecord { sequence, entry, hash, signer, envelope: opened.envelope }, payload))
    }
}
