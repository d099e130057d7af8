//! A bus, a store, masters and peels that can be slow, deaf, duplicated and killed: what happens next is the seed's choice.
//! Every step checks what must hold at every step.

use crate::fleet::{T0, job, master, peel};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use zester_jobs::dedup::{Dispatch, DispatchState, Entry};
use zester_jobs::peel::{self as end, Moment};
use zester_jobs::{Command, Event, Failed, History, Owner, Peel, Timing, Written, messages};
use zester_wire::*;

pub const MASTERS: [&str; 3] = ["m1", "m2", "m3"];

/// A small generator: the same seed, the same life.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides.max(1)
    }
}

#[derive(Clone, Debug)]
pub enum Message {
    Exec { to: PeelId, request: Box<ExecRequest>, signed: UnixMillis },
    Cancel { to: PeelId, cancel: Cancel },
    Ack { from: PeelId, dispatch: Dispatch },
    Return(Box<Return>),
}

pub struct Seat {
    pub owner: Option<Owner>,
    todo: VecDeque<Command>,
    canceled: bool,
    /// Returns that this owner took before the end.
    arrived: BTreeSet<PeelId>,
}

pub struct Node {
    machine: Peel,
    todo: VecDeque<end::Command>,
    running: BTreeMap<Dispatch, bool>,
    entries: BTreeMap<Dispatch, Entry>,
    returns: BTreeMap<Dispatch, Return>,
    canceled: bool,
}

pub struct World {
    pub dice: Dice,
    pub now: UnixMillis,
    pub record: Option<(Job, u64)>,
    pub active: bool,
    pub returns: BTreeMap<PeelId, Return>,
    history: Vec<Message>,
    canceled_by: Option<String>,
    pub seats: Vec<Seat>,
    pub nodes: BTreeMap<PeelId, Node>,
    pub net: Vec<Message>,
    started: BTreeMap<(PeelId, Dispatch), u32>,
    /// Whether steps outside may fail.
    pub unkind: bool,
}

impl World {
    pub fn new(seed: u64, peels: usize) -> World {
        let seat = || Seat { owner: None, todo: VecDeque::new(), canceled: false, arrived: BTreeSet::new() };
        let mut world = World {
            dice: Dice::new(seed),
            now: UnixMillis(T0),
            record: None,
            active: false,
            returns: BTreeMap::new(),
            history: Vec::new(),
            canceled_by: None,
            seats: MASTERS.iter().map(|_| seat()).collect(),
            nodes: BTreeMap::new(),
            net: Vec::new(),
            started: BTreeMap::new(),
            unkind: true,
        };
        (1..=peels).map(peel).for_each(|id| world.boot(&id));
        world.sit(0, Owner::dispatch(job(peels, 60), master(MASTERS[0]), Timing::default()));
        world
    }

    fn fails(&mut self) -> bool {
        self.unkind && self.dice.roll(8) == 0
    }

    /// A master takes the job up.
    fn sit(&mut self, seat: usize, owner: Owner) {
        let (todo, arrived) = (VecDeque::new(), BTreeSet::new());
        self.seats[seat] = Seat { owner: Some(owner), todo, canceled: false, arrived };
        let absent = (1..=self.nodes.len()).map(peel).filter(|_| self.dice.roll(4) == 0).collect();
        self.tell(seat, Event::Begin { absent });
    }

    /// Any master may believe at any time that the owner is dead: that is what epochs are for.
    pub fn adopt(&mut self, seat: usize) {
        let idle = self.seats[seat].owner.as_ref().is_none_or(Owner::is_finished);
        let Some((record, revision)) = self.record.clone().filter(|_| idle) else { return };
        if record.status.is_terminal() && !self.active {
            return;
        }
        let me = MasterId::new(MASTERS[seat], &format!("boot{}", record.epoch + 1)).unwrap();
        self.sit(seat, Owner::adopt(record, revision, me, Timing::default()).unwrap());
    }

    pub fn kill_master(&mut self, seat: usize) {
        self.seats[seat].owner = None;
        self.seats[seat].todo.clear();
    }

    pub fn tell(&mut self, seat: usize, event: Event) {
        let now = self.now;
        let Some(owner) = self.seats[seat].owner.as_mut() else { return };
        let commands = owner.step(event, now).unwrap();
        for command in &commands {
            match command {
                Command::Persist { ret, .. } if !ret.late => {
                    self.seats[seat].arrived.insert(ret.peel.clone());
                }
                Command::SendExec { .. } => {
                    assert!(!self.seats[seat].canceled, "J-11: an owner sent work of a canceled job");
                }
                _ => {}
            }
        }
        self.seats[seat].todo.extend(commands);
    }

    pub fn cancel(&mut self, seat: usize) {
        let watching = self.seats[seat].owner.as_ref().is_some_and(|owner| !owner.is_finished());
        if watching {
            self.seats[seat].canceled = true;
            // Whoever asks for it has the stream keep it first.
            self.canceled_by = Some("alice".into());
            self.tell(seat, Event::Cancel { by: "alice".into() });
        } else if let Some((record, _)) = self.record.clone().filter(|(job, _)| !job.status.is_terminal()) {
            // A master that does not own it publishes the cancel; the owner sees it.
            self.canceled_by = Some("bob".into());
            self.send_cancel(&record, &record.targets.clone());
            for seat in 0..self.seats.len() {
                if self.seats[seat].owner.is_some() && self.dice.roll(2) == 0 {
                    self.seats[seat].canceled = true;
                    self.tell(seat, Event::Cancel { by: "bob".into() });
                }
            }
        }
    }

    fn send_cancel(&mut self, job: &Job, peels: &[PeelId]) {
        let cancel = messages::cancel(job);
        self.net.extend(peels.iter().map(|to| Message::Cancel { to: to.clone(), cancel: cancel.clone() }));
    }

    /// Carries out the oldest command of a master. A failure may come before or after the deed.
    pub fn work(&mut self, seat: usize) -> bool {
        let Some(command) = self.seats[seat].todo.pop_front() else { return false };
        let Some(owner) = self.seats[seat].owner.as_ref() else { return true };
        let job = owner.job().clone();
        let done = !self.fails();
        let said = |done: bool| if done { Ok(()) } else { Err(Failed) };
        let event = match command {
            Command::CreateRecord(job) => Some(Event::Record(self.write(seat, *job, None))),
            Command::WriteRecord { job, revision } => {
                Some(Event::Record(self.write(seat, *job, Some(revision))))
            }
            Command::MarkActive => {
                self.active = true;
                Some(Event::Marked(said(done)))
            }
            Command::PublishDispatch => Some(Event::Announced(said(done))),
            Command::SendExec { peels, budget } => {
                let request = Box::new(messages::exec_request(&job, budget));
                let signed = self.now;
                let send = |to: PeelId| Message::Exec { to, request: request.clone(), signed };
                self.net.extend(peels.into_iter().map(send));
                None
            }
            Command::LoadReturns if done => Some(Event::Loaded(Ok(self.returns.values().cloned().collect()))),
            Command::LoadReturns => Some(Event::Loaded(Err(Failed))),
            Command::Replay => {
                let history = if done { Ok(self.replay(seat, job.dispatch_epoch)) } else { Err(Failed) };
                Some(Event::Replayed(history))
            }
            Command::Persist { ret, .. } if done => {
                let peel = ret.peel.clone();
                self.returns.entry(peel.clone()).or_insert(*ret);
                Some(Event::Persisted { peel })
            }
            Command::Persist { ret, .. } => Some(Event::PersistFailed { ret }),
            Command::SendCancel { peels } => {
                self.send_cancel(&job, &peels);
                None
            }
            Command::EmitFinalized => Some(Event::Emitted(said(done))),
            Command::PurgeActive => {
                self.active = false;
                Some(Event::Purged(said(done)))
            }
            Command::Accept
            | Command::Refuse(_)
            | Command::CancelTaken(_)
            | Command::Existing { .. }
            | Command::PublishStatus
            | Command::Stop
            | Command::Note(_) => None,
        };
        if let Some(event) = event {
            self.tell(seat, event);
        }
        true
    }

    fn replay(&mut self, seat: usize, epoch: u64) -> History {
        let mut history = History { canceled: self.canceled_by.clone(), ..History::default() };
        self.seats[seat].canceled |= history.canceled.is_some();
        for message in &self.history {
            match message {
                Message::Ack { from, dispatch } if dispatch.epoch == epoch => history.acks.push(from.clone()),
                Message::Return(ret) => history.returns.push((**ret).clone()),
                _ => {}
            }
        }
        history
    }

    fn write(&mut self, seat: usize, job: Job, revision: Option<u64>) -> Written {
        if self.fails() {
            return Written::Failed;
        }
        if self.record.as_ref().map(|(_, stands)| *stands) != revision {
            let found = self.record.clone().map(|(job, revision)| (Box::new(job), revision));
            return Written::Conflict { found };
        }
        if let Some((before, _)) = &self.record {
            assert!(!before.status.is_terminal(), "J-1: {:?} became {:?}", before.status, job.status);
            assert!(job.epoch >= before.epoch && job.dispatch_epoch >= before.dispatch_epoch, "J-7");
        }
        if job.status.is_terminal() && job.reason.is_empty() | job.reason.starts_with("canceled") {
            for peel in &self.seats[seat].arrived {
                assert!(self.returns.contains_key(peel), "J-9: the return of {peel} is not on disk");
            }
            let stored = self.returns.values().filter(|ret| ret.counts()).count() as u64;
            assert!(job.return_count <= stored, "J-9: more returns counted than stored");
        }
        let revision = revision.unwrap_or(0) + 1;
        self.record = Some((job, revision));
        if self.fails() { Written::Failed } else { Written::Done { revision } }
    }

    // ---- peels ----

    fn moment(&self) -> Moment {
        Moment { wall: self.now, run: Duration::from_millis(self.now.0 - T0) }
    }

    /// A peel starts, or starts again: only its disk is left.
    pub fn boot(&mut self, id: &PeelId) {
        let (entries, returns) = match self.nodes.remove(id) {
            Some(node) => (node.entries, node.returns),
            None => (BTreeMap::new(), BTreeMap::new()),
        };
        let canceled = entries.values().any(|entry| entry.state == DispatchState::Canceled);
        let machine = Peel::new(id.clone(), Timing::default());
        let node =
            Node { machine, todo: VecDeque::new(), running: BTreeMap::new(), entries, returns, canceled };
        let start = end::Event::Start { entries: node.entries.values().cloned().collect() };
        self.nodes.insert(id.clone(), node);
        self.tell_peel(id, start);
        self.tell_peel(id, end::Event::Connected);
        self.announce(id);
    }

    /// Masters may or may not notice that a peel connected.
    fn announce(&mut self, id: &PeelId) {
        for seat in 0..self.seats.len() {
            if self.seats[seat].owner.is_some() && self.dice.roll(2) == 0 {
                self.tell(seat, Event::Connected { peel: id.clone() });
            }
        }
    }

    pub fn tell_peel(&mut self, id: &PeelId, event: end::Event) {
        let now = self.moment();
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.canceled |= matches!(event, end::Event::Cancel { .. });
        let commands = node.machine.step(event, now).unwrap();
        for command in &commands {
            if let end::Command::Execute { request } = command {
                assert!(!node.canceled, "J-11: {id} started work of a canceled job");
                let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
                assert!(node.entries.contains_key(&dispatch), "J-7: {id} started before it was on disk");
                let count = self.started.entry((id.clone(), dispatch)).or_insert(0);
                *count += 1;
                assert_eq!(*count, 1, "J-7: {id} started one dispatch twice");
            }
        }
        node.todo.extend(commands);
    }

    /// Carries out the oldest command of a peel.
    pub fn work_peel(&mut self, id: &PeelId) -> bool {
        let fails = self.fails();
        let Some(node) = self.nodes.get_mut(id) else { return false };
        let Some(command) = node.todo.pop_front() else { return false };
        let event = match command {
            end::Command::KillLeftovers { .. } => Some(end::Event::LeftoversGone),
            end::Command::StoreEntry(entry) => {
                let dispatch = entry.dispatch.clone();
                let accepted = entry.state == DispatchState::Accepted;
                let result = if fails && accepted { Err(Failed) } else { Ok(()) };
                if result.is_ok() {
                    node.entries.insert(dispatch.clone(), entry);
                }
                accepted.then_some(end::Event::Stored { dispatch, result })
            }
            end::Command::SendAck { dispatch, .. } => {
                self.net.push(Message::Ack { from: id.clone(), dispatch });
                None
            }
            end::Command::Execute { request } => {
                let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
                node.running.insert(dispatch, false);
                None
            }
            end::Command::Abort { dispatch, .. } => {
                // It may have ended in the meantime.
                node.running.entry(dispatch).and_modify(|aborted| *aborted = true);
                None
            }
            end::Command::StoreReturn { ret, .. } if fails => Some(end::Event::ReturnStoreFailed { ret }),
            end::Command::StoreReturn { ret, .. } => {
                let dispatch = Dispatch { jid: ret.jid.clone(), epoch: ret.dispatch_epoch };
                let state = DispatchState::Returned { delivered: false };
                let keep_until = UnixMillis(u64::MAX);
                let entry =
                    Entry { dispatch: dispatch.clone(), state, keep_until, direct: false, schedule: None };
                node.entries.insert(dispatch.clone(), entry);
                node.returns.insert(dispatch.clone(), *ret);
                Some(end::Event::ReturnStored { dispatch })
            }
            end::Command::SendReturn { dispatch } => {
                let ret = node.returns.get(&dispatch).cloned().expect("J-22: what is sent is stored");
                self.net.push(Message::Return(Box::new(ret)));
                None
            }
            end::Command::SendUnstored { ret } => {
                self.net.push(Message::Return(ret));
                None
            }
            end::Command::Reply { .. }
            | end::Command::ScheduleEnded { .. }
            | end::Command::Forget { .. }
            | end::Command::Note(_) => None,
        };
        if let Some(event) = event {
            self.tell_peel(id, event);
        }
        true
    }

    /// What a peel works on comes to an end.
    pub fn finish(&mut self, id: &PeelId, success: bool) -> bool {
        let Some((dispatch, aborted)) = self.nodes.get_mut(id).and_then(|node| node.running.pop_first())
        else {
            return false;
        };
        let mut ret = Return::refusing(dispatch.jid.clone(), id.clone(), dispatch.epoch, Cause::Finished, "");
        ret.success = success && !aborted;
        self.tell_peel(id, end::Event::Finished { dispatch, ret: Box::new(ret) });
        true
    }

    pub fn deliver(&mut self, message: Message, deaf: bool) {
        match message {
            Message::Exec { to, request, signed } => {
                self.tell_peel(&to, end::Event::Exec { request, signed, terms: end::Terms::default() });
            }
            Message::Cancel { to, cancel } => {
                let (jid, dispatch_epoch) = (cancel.jid, cancel.dispatch_epoch);
                self.tell_peel(&to, end::Event::Cancel { jid, dispatch_epoch });
            }
            Message::Ack { ref from, ref dispatch } => {
                self.history.push(message.clone());
                for seat in self.hearers(deaf) {
                    let (peel, dispatch_epoch) = (from.clone(), dispatch.epoch);
                    self.tell(seat, Event::Ack { peel, dispatch_epoch });
                }
            }
            Message::Return(ref ret) => {
                self.history.push(message.clone());
                for seat in self.hearers(deaf) {
                    self.tell(seat, Event::Return(ret.clone()));
                }
                let dispatch = Dispatch { jid: ret.jid.clone(), epoch: ret.dispatch_epoch };
                let stored =
                    self.nodes.get(&ret.peel).is_some_and(|node| node.returns.contains_key(&dispatch));
                // The bus has it for good; the peel may or may not hear that.
                if stored && !(deaf && self.dice.roll(2) == 0) {
                    self.tell_peel(&ret.peel.clone(), end::Event::Delivered { dispatch });
                }
            }
        }
    }

    fn hearers(&mut self, deaf: bool) -> Vec<usize> {
        let seats = (0..self.seats.len()).filter(|seat| self.seats[*seat].owner.is_some());
        let hears: Vec<usize> = seats.collect();
        hears.into_iter().filter(|_| !deaf || self.dice.roll(3) > 0).collect()
    }

    pub fn pass(&mut self, millis: u64) {
        self.now = self.now.plus(Duration::from_millis(millis));
        for seat in 0..self.seats.len() {
            if self.seats[seat].owner.is_some() {
                self.tell(seat, Event::Tick);
            }
        }
        let ids: Vec<PeelId> = self.nodes.keys().cloned().collect();
        ids.iter().for_each(|id| self.tell_peel(id, end::Event::Tick));
    }

    /// How many executions began.
    pub fn starts(&self) -> usize {
        self.started.len()
    }

    pub fn undelivered(&self) -> usize {
        self.nodes.values().map(|node| node.machine.undelivered()).sum()
    }
}
