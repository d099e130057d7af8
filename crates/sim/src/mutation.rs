//! Safeguards that can be taken away, from outside: on the disk, on the way to the bus, in the name of a master. A simulator
//! that does not notice is worth nothing, so each names the invariant that misses it.

use crate::judge::Invariant;

macro_rules! mutations {
    ($($(#[doc = $doc:literal])* $name:ident = $word:literal => $invariant:ident,)*) => {
        /// A safeguard that is taken away.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub enum Mutation {
            #[default]
            None,
            $($(#[doc = $doc])* $name,)*
        }

        impl Mutation {
            pub const ALL: &[Mutation] = &[$(Mutation::$name,)*];

            pub fn name(self) -> &'static str {
                match self {
                    Mutation::None => "none",
                    $(Mutation::$name => $word,)*
                }
            }

            /// The invariant that does not hold without it.
            pub fn missed_by(self) -> Option<Invariant> {
                match self {
                    Mutation::None => None,
                    $(Mutation::$name => Some(Invariant::$invariant),)*
                }
            }
        }
    };
}

mutations! {
    /// A peel does not write down what it takes on (J-7).
    DropDedupWrite = "drop-dedup-write" => EveryExecutionReturns,
    /// A master writes records without comparing revisions (J-10).
    WriteWithoutCompare = "write-without-compare" => SupersededWritesNothing,
    /// An adopter does not send the work again (J-6).
    AdoptWithoutResend = "adopt-without-resend" => TargetsGetTheJob,
    /// A master says that a return is stored, and stores it not (J-9).
    DropReturnWrite = "drop-return-write" => NoReturnLost,
    /// Late returns are stored like those that came in time (J-9).
    UnmarkedLateReturn = "unmarked-late-return" => LateReturnsAreMarked,
    /// `active.<jid>` is never purged (J-10).
    KeepActiveKey = "keep-active-key" => ActiveKeyGoes,
    /// No `finalized` event (J-19).
    NoFinalizedEvent = "no-finalized-event" => OneFinalizedEvent,
    /// Every try to emit the `finalized` event is kept (J-19).
    EachFinalizedEvent = "each-finalized-event" => OneFinalizedEvent,
    /// Cancels do not reach the peels (J-11).
    DropCancelCommand = "drop-cancel-command" => CanceledWorkStops,
    /// A cancel that was answered stands nowhere (J-11).
    CancelNotStored = "cancel-not-stored" => KillReplyIsTrue,
    /// A master writes no heartbeat (J-13).
    NoHeartbeat = "no-heartbeat" => LiveOwnerKeepsItsJob,
    /// The counts of the record are not those of the returns (J-5).
    WrongCount = "wrong-count" => CountsFollowReturns,
    /// The status of the record is not that of the returns (J-5).
    WrongStatus = "wrong-status" => StatusFollowsReturns,
    /// The record says of whoever is missing that it never acked (J-17).
    WrongReason = "wrong-reason" => MissingReasonIsTrue,
    /// An adopter dispatches running work under a new epoch (J-7).
    NewDispatchEpoch = "new-dispatch-epoch" => DispatchEpochStays,
    /// Peels get ten times the time that is left (J-5).
    LongBudget = "long-budget" => PeelEndsByItself,
    /// A peel takes its return for delivered when it was only sent (J-22).
    DeliverBlindly = "deliver-blindly" => EveryExecutionReturns,
    /// A status `running` is answered before it is written (J-2).
    SendBeforeRunning = "send-before-running" => RunningBeforeSent,
    /// A peel that starts again knows nothing of what it took on (J-7).
    ForgetAtStart = "forget-at-start" => AtMostOnce,
    /// A peel begins before what it takes on is on disk (J-7).
    WriteEntryLate = "write-entry-late" => OnDiskFirst,
    /// The end of a job is answered and not written (J-5).
    NoTerminalWrite = "no-terminal-write" => EveryJobEnds,
    /// The end of a job is written half a minute late (J-5).
    LateTerminalWrite = "late-terminal-write" => EndsByItsDeadline,
    /// A job that is over is written once more, with another status (J-1).
    SecondEnd = "second-end" => TerminalStays,
    /// No master gets the job of another (J-13).
    NoTakeover = "no-takeover" => OrphanIsAdopted,
    /// A client takes a master's silence for nobody's (J-28).
    SilenceIsNobody = "silence-is-nobody" => ExitOneRanNothing,
    /// A master hears no returns, and reads none (J-9).
    DeafToReturns = "deaf-to-returns" => NoReturnOverlooked,
    /// The work follows its own cancel (J-11).
    WorkAfterCancel = "work-after-cancel" => CanceledStartsNothing,
    /// No return leaves its peel (J-22).
    ReturnsStay = "returns-stay" => OutboxEmpties,
    /// The record says of whoever is missing that it was not there (J-8).
    AllUnreachable = "all-unreachable" => MissingReasonIsTrue,
    /// A peel that was lost is given up as soon as one that was never there (J-6).
    NoPatience = "no-patience" => EndsEarlyForAReason,
    /// Whoever is missing when a job ends is canceled (J-11).
    CancelTheMissing = "cancel-the-missing" => NobodyIsCanceledEarly,
    /// A peel takes content for what it should be without looking (D-3).
    NoHashCheck = "no-hash-check" => NoMixedTree,
    /// A new tree takes the place of the old one file by file (D-4).
    SwapInPlace = "swap-in-place" => NoMixedTree,
    /// Every master believes that the lease is its own (D-2).
    NoLeaseFence = "no-lease-fence" => HolderDecides,
    /// A peel hears of no new revision, and asks for none (D-3).
    DeafToRevisions = "deaf-to-revisions" => PeelsGetTheTree,
    /// An event is acknowledged before anything is done about it.
    AckBeforeEffect = "ack-before-effect" => NoEventLost,
    /// An event whose effects failed for the moment is taken for done.
    AckFailures = "ack-failures" => NoEventLost,
    /// The server gives an event a few times, and then never again.
    CountDeliveries = "count-deliveries" => NoEventLost,
    /// The job of a reaction has an id with a random part.
    RandomReaction = "random-reaction" => OneJobPerReaction,
    /// The same, where it matters: what was done is done again.
    RandomReactionRuns = "random-reaction-runs" => ReactionRunsOnce,
    /// Whose event it is says nothing: events of two senders with one id are one.
    NoOrigin = "no-origin" => NoEventLost,
    /// The event that a rule sends has an id with a random part.
    RandomSentId = "random-sent-id" => OneSentEvent,
    /// An event that is called a duplicate is taken for sent, whosever it is.
    BelieveDuplicate = "believe-duplicate" => NoSentEventLost,
    /// The payload of an event is not compared with its subject.
    NoSpoofGate = "no-spoof-gate" => DroppedDoesNothing,
    /// What a reactor says of an event does not reach the server.
    DropAcks = "drop-acks" => EventsAreDoneWith,
}

impl Mutation {
    pub fn parse(name: &str) -> Option<Mutation> {
        Mutation::ALL.iter().copied().find(|mutation| mutation.name() == name)
    }
}
