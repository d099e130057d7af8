//! Every invariant by name, with the rule of the spec that it is.

macro_rules! invariants {
    ($($name:ident = $text:literal,)*) => {
        /// Something that must hold.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Invariant {
            $($name,)*
        }

        impl Invariant {
            pub fn text(self) -> &'static str {
                match self {
                    $(Invariant::$name => $text,)*
                }
            }
        }
    };
}

invariants! {
    SimulatorWorks = "the simulator works",
    TerminalStays = "J-1: a terminal status never changes",
    FollowerIsTold = "J-1: whoever follows a job learns how it ended",
    AcceptedIsRecorded = "J-2: what was accepted is recorded",
    RunningBeforeSent = "J-2: a job is running before its work is sent",
    NotRefusedForGood = "J-3: a sound request is not refused for good",
    EveryJobEnds = "J-5: every job ends",
    EndsByItsDeadline = "J-5: a job ends by its deadline",
    EndsEarlyForAReason = "J-5: a job ends before its deadline only if nobody is missing who may work on it",
    StatusFollowsReturns = "J-5: the status follows from the stored returns",
    CountsFollowReturns = "J-5: the counts follow from the stored returns",
    PeelEndsByItself = "J-5: a peel ends its work by its own clock",
    TargetsGetTheJob = "J-6: a target that was connected gets the job",
    AtMostOnce = "J-7: a dispatch executes at most once",
    OnDiskFirst = "J-7: nothing starts that is not on disk, or was over",
    DispatchEpochStays = "J-7: an adopter keeps the dispatch epoch of running work",
    NoReturnLost = "J-9: every return that the stream kept is stored",
    NoReturnOverlooked = "J-9: no return in time is missing from the record",
    LateReturnsAreMarked = "J-9: a return after the end is marked late",
    SupersededWritesNothing = "J-10: a superseded owner writes nothing",
    ActiveKeyGoes = "J-10: the active key of a job that is over is purged",
    CanceledStartsNothing = "J-11: a canceled job starts nothing new",
    CanceledWorkStops = "J-11: work of a job that was canceled stops",
    NobodyIsCanceledEarly = "J-11: nobody is canceled before the deadline of a job that nobody killed",
    KillReplyIsTrue = "J-11: the reply to a kill is true",
    LiveOwnerKeepsItsJob = "J-13: no job is taken from an owner that is there",
    OrphanIsAdopted = "J-13: a job whose owner died is taken over in time",
    MissingReasonIsTrue = "J-17: the reason of a missing peel is true",
    OneFinalizedEvent = "J-19: every job that is over has one finalized event",
    EveryExecutionReturns = "J-22: every execution has a return",
    OutboxEmpties = "J-22: nothing waits in an outbox for ever",
    ExitOneRanNothing = "J-28: exit 1 means that nothing ran",
    NoMixedTree = "D-1: a run sees the files of one revision",
    PeelsGetTheTree = "D-3: every peel comes to have what was published last",
    NothingCalledUnread = "R-1: no event is called unread in a stream that dropped none",
    DroppedDoesNothing = "R-3: an event that a gate drops starts nothing",
    OneJobPerReaction = "R-8: an event, a rule and a block make one job",
    OneSentEvent = "R-9: an event, a rule and a block send one event",
    NoSentEventLost = "R-9: a rule that sends an event has sent it",
    NoEventLost = "R-10: an event that matches a rule has its job",
    ReactionRunsOnce = "R-10: a reaction runs at most once on a peel",
    EventsAreDoneWith = "R-10: every event is acknowledged at last",
    HolderDecides = "D-14: what counts is the tree of the master that holds the lease",
}

impl Invariant {
    /// What the product does not hold yet. Told apart, so that everything else is held.
    pub const OPEN: &[Invariant] = &[];

    pub fn is_open(self) -> bool {
        Invariant::OPEN.contains(&self)
    }
}
