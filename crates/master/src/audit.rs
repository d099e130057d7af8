//! What this master decided, and for whom, on its way to the audit log (I-6). Nobody waits for it; what finds no room is counted in the
//! next entry, so that the gap is in the log itself.

use crate::core::Core;
use crate::limits::{AUDIT_TEXT_MAX, AUDIT_WAITING, EVENTS_END_LIMIT};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use zester_bus::Kind;
use zester_bus::storage::AUDIT;
use zester_identity::Principal;
use zester_identity::audit::{Chain, Decided, STARTED, STOPPED, hash};
use zester_link::Error;
use zester_wire::{AuditEntry, AuditHead, Envelope, MessageId, Subject, decode, encode, subject};

/// Where decisions go to be written down.
pub struct Audit {
    sender: mpsc::Sender<Decided>,
    missed: Arc<AtomicU64>,
    /// Those that are not stored yet.
    open: Arc<AtomicUsize>,
    head: Arc<Mutex<Option<AuditHead>>>,
    /// The roster that was noted last.
    roster: AtomicU64,
}

/// The other end of it.
pub struct AuditWriter {
    receiver: mpsc::Receiver<Decided>,
    missed: Arc<AtomicU64>,
    open: Arc<AtomicUsize>,
    head: Arc<Mutex<Option<AuditHead>>>,
}

impl Audit {
    pub fn new() -> (Audit, AuditWriter) {
        let (sender, receiver) = mpsc::channel(AUDIT_WAITING);
        let (missed, open, head) = (Arc::default(), Arc::default(), Arc::default());
        let audit = Audit {
            sender,
            missed: Arc::clone(&missed),
            open: Arc::clone(&open),
            head: Arc::clone(&head),
            roster: AtomicU64::new(0),
        };
        (audit, AuditWriter { receiver, missed, open, head })
    }

    /// Notes a decision. Work goes on at once, whatever becomes of the note.
    pub fn note(&self, decided: Decided) {
        self.open.fetch_add(1, Ordering::AcqRel);
        if self.sender.try_send(shortened(decided)).is_err() {
            self.open.fetch_sub(1, Ordering::AcqRel);
            if self.missed.fetch_add(1, Ordering::AcqRel) == 0 {
                tracing::error!(
                    "the audit log has no room: entries are lost, and the next one says how many"
                );
            }
        }
    }

    /// Notes that another roster counts: who is who, and who may do what.
    pub fn roster(&self, serial: Option<u64>) {
        let Some(serial) = serial else { return };
        if self.roster.swap(serial, Ordering::AcqRel) != serial {
            let about = format!("roster {serial} counts");
            self.note(Decided { act: "roster", who: "the anchor".into(), about, ..Decided::default() });
        }
    }

    /// How far the chain of this master is, as it is stored.
    pub fn head(&self) -> Option<AuditHead> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says that this master stops, and waits until all is stored; not for long.
    pub async fn settle(&self) {
        self.note(Decided { act: STOPPED, ..Decided::default() });
        let stored = async {
            while self.open.load(Ordering::Acquire) > 0 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let _lost = timeout(EVENTS_END_LIMIT, stored).await;
    }
}

/// Who wanted it, as the log writes it.
pub fn by(who: Option<&Principal>, user: &str) -> (String, String) {
    match who {
        Some(who) => (who.to_string(), who.key.clone()),
        None => (format!("{user} (unproven)"), String::new()),
    }
}

/// A request may carry words without end; the log keeps the beginning.
fn shortened(decided: Decided) -> Decided {
    let short = |text: String| match text.len() > AUDIT_TEXT_MAX {
        true => format!("{}…", &text[..text.floor_char_boundary(AUDIT_TEXT_MAX)]),
        false => text,
    };
    let Decided { act, who, key, about, refused, request } = decided;
    Decided { act, who: short(who), key, about: short(about), refused: short(refused), request }
}

impl AuditWriter {
    /// Ends only with its task.
    pub async fn run(mut self, core: Arc<Core>) {
        let mut chain = Chain::new(core.id.clone(), ended_before(&core).await);
        let started =
            Decided { act: STARTED, about: format!("zester {}", core.version), ..Decided::default() };
        self.write(&core, &mut chain, &started).await;
        while let Some(decided) = self.receiver.recv().await {
            self.write(&core, &mut chain, &decided).await;
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Tries until it is stored, always the same entry: a chain has no holes but those that it names.
    async fn write(&self, core: &Core, chain: &mut Chain, decided: &Decided) {
        let missed = self.missed.swap(0, Ordering::AcqRel);
        let entry = chain.next(decided, core.link.now(), missed);
        let subject = Subject::Audit { master: core.id.clone() };
        let Ok(payload) = encode(&entry) else { return };
        let mut told = false;
        let id = loop {
            match core.link.new_message_id() {
                Ok(id) => break id,
                Err(_) => sleep(core.timing.retry_pause).await,
            }
        };
        while let Err(error) = store(core, &subject, &id, &entry).await {
            if error.bus_kind() == Some(Kind::Closed) {
                return;
            }
            if !told {
                told = true;
                tracing::warn!("the audit log cannot be written now, and waits: {error}");
            }
            sleep(core.timing.retry_pause).await;
        }
        chain.wrote(&payload);
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = Some(chain.head());
    }
}

async fn store(core: &Core, subject: &Subject, id: &MessageId, entry: &AuditEntry) -> Result<(), Error> {
    core.link.publish_stored(subject, id, entry).await.map(|_| ())
}

/// Where the chain ended that this master wrote before it was started. Entries wait meanwhile.
async fn ended_before(core: &Core) -> Option<AuditHead> {
    let pattern = subject::audit_of(core.id.name());
    loop {
        let mut head = None;
        let read = core.link.each_message(AUDIT, &pattern, |record| {
            let Ok(subject) = Subject::parse(&record.subject) else { return };
            let Some(opened) = core.link.open_addressed::<AuditEntry>(&subject, record) else { return };
            let Ok(envelope) = decode::<Envelope>(&opened.envelope) else { return };
            let AuditEntry { chain, seq, .. } = opened.message;
            head = Some(AuditHead { chain, seq, hash: hash(&envelope.payload) });
        });
        match read.await {
            Ok(()) => return head,
            Err(error) if error.bus_kind() == Some(Kind::Closed) => return None,
            Err(error) => tracing::debug!("the audit log cannot be read now: {error}"),
        }
        sleep(core.timing.retry_pause).await;
    }
}
