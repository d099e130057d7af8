//! From the first request to the end of a key.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;
use zester_identity::enrollment::{
    self, Asked, Decider, Newcomer, NotDone, Refused, Transition, Waiting, address_is, asked, ended_keys,
    id_of, peel_of_id, step,
};
use zester_identity::join_token::{self, Voucher};
use zester_identity::limits::{NEWS_AGAIN, PENDING_LIFE, PENDING_MAX, PENDING_OF_ADDRESS_MAX, REKEY_OVERLAP};
use zester_identity::{KeyKind, KeyPair};
use zester_rule::rule;
use zester_wire::{Enrollment, EnrollmentStatus as Status, PeelId, Token, TokenName, UnixMillis};

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);
const ANN: Decider<'static> = Decider { by: "ann", reason: "because" };

struct Machine {
    peel: PeelId,
    pair: KeyPair,
    address: IpAddr,
}

impl Machine {
    fn new(seed: u8) -> Machine {
        let pair = KeyPair::new(KeyKind::User, [seed; 32]).unwrap();
        Machine { peel: PeelId::parse("web-1").unwrap(), pair, address: "192.0.2.7".parse().unwrap() }
    }

    fn asks(&self, record: Option<&Enrollment>, voucher: Option<&Voucher>) -> Result<Asked, Refused> {
        self.asks_at(record, voucher, NOW)
    }

    fn asks_at(
        &self,
        record: Option<&Enrollment>,
        voucher: Option<&Voucher>,
        now: UnixMillis,
    ) -> Result<Asked, Refused> {
        let by = Newcomer { peel: &self.peel, key: self.pair.public(), address: self.address };
        asked(record, &by, voucher, Waiting::default(), now)
    }

    fn pending(&self) -> Enrollment {
        self.asks(None, None).unwrap().record
    }

    fn key(&self) -> &str {
        self.pair.public().as_str()
    }
}

fn voucher(approves: bool, exact: bool) -> Voucher {
    Voucher { token: TokenName { id: Token::parse("t1").unwrap(), label: "fleet".into() }, approves, exact }
}

fn through(record: &Enrollment, steps: &[Transition]) -> Enrollment {
    steps.iter().fold(record.clone(), |record, what| step(&record, *what, ANN, NOW).unwrap())
}

const ISSUE: Transition = Transition::Issue { until: UnixMillis(NOW.0 + 1_000_000) };

#[test]
#[rule("I-4")]
fn i4_every_transition_is_legal_a_repetition_or_refused() {
    use Status::{Active, Approved, Issued, Pending, Rejected, Revoked};
    let statuses = [Pending, Approved, Issued, Active, Rejected, Revoked];
    let transitions = [Transition::Approve, Transition::Reject, Transition::Revoke, ISSUE, Transition::Seen];
    // One row a status, one column a transition: what it becomes, `=` a repetition, `-` never.
    let table = [
        ["approved", "rejected", "-", "-", "-"],
        ["=", "-", "revoked", "issued", "-"],
        ["=", "-", "revoked", "issued", "active"],
        ["=", "-", "revoked", "active", "="],
        ["-", "=", "-", "-", "-"],
        ["-", "-", "=", "-", "-"],
    ];
    for (status, row) in statuses.into_iter().zip(table) {
        for (what, wanted) in transitions.into_iter().zip(row) {
            let record = Enrollment { status, ..Machine::new(1).pending() };
            let found = step(&record, what, ANN, NOW);
            let word = match &found {
                Ok(next) => next.status.as_str(),
                Err(NotDone::Duplicate(_)) => "=",
                Err(NotDone::Unfit { .. }) => "-",
            };
            assert_eq!(word, wanted, "{status:?} {what:?}");
        }
    }
}

#[test]
#[rule("I-4")]
fn i4_a_decision_says_who_and_why_and_credentials_until_when() {
    let pending = Machine::new(1).pending();
    assert_eq!((pending.status, pending.address.as_str()), (Status::Pending, "192.0.2.7"));
    let approved = step(&pending, Transition::Approve, ANN, NOW).unwrap();
    assert_eq!((approved.by.as_str(), approved.reason.as_str()), ("ann", "because"));
    let active = through(&approved, &[ISSUE, Transition::Seen]);
    assert_eq!((active.by.as_str(), active.until), ("ann", Some(UnixMillis(NOW.0 + 1_000_000))));
}

#[test]
#[rule("I-4")]
fn i4_two_requests_for_one_name_are_one_record_and_the_other_is_told() {
    let (first, second) = (Machine::new(1), Machine::new(2));
    let pending = first.pending();
    // The same machine again: nothing changes, and after a minute nobody is told again.
    let again = first.asks(Some(&pending), None).unwrap();
    assert_eq!(again, Asked { record: pending.clone(), is_changed: false, is_news: true });
    let later = first.asks_at(Some(&pending), None, NOW.plus(NEWS_AGAIN)).unwrap();
    assert_eq!(later, Asked { record: pending.clone(), is_changed: false, is_news: false });
    for record in [
        pending.clone(),
        through(&pending, &[Transition::Approve]),
        through(&pending, &[Transition::Approve, ISSUE, Transition::Seen]),
    ] {
        let refused = second.asks(Some(&record), None).unwrap_err();
        assert!(
            matches!(&refused, Refused::NameTaken { status, .. } if *status == record.status),
            "{refused}"
        );
        // A glob is not this very name, and a word that holds is nobody's yes.
        for weak in [voucher(true, false), voucher(false, true)] {
            // Who only asked, and brought nothing, keeps nobody out who brings a word.
            if record.status == Status::Pending && weak.approves {
                continue;
            }
            assert!(second.asks(Some(&record), Some(&weak)).is_err(), "{weak:?}");
        }
    }
    assert_ne!(id_of(&first.peel, first.key()), id_of(&second.peel, second.key()));
}

#[test]
#[rule("I-4")]
fn i4_a_machine_that_was_installed_anew_gets_its_name_with_a_token_or_an_operators_word() {
    let (before, after) = (Machine::new(1), Machine::new(2));
    let active = through(&before.pending(), &[Transition::Approve, ISSUE, Transition::Seen]);
    // A token for this very name: the key before has nothing to say any more.
    let taken = after.asks(Some(&active), Some(&voucher(true, true))).unwrap();
    assert_eq!((taken.record.status, taken.record.key.as_str()), (Status::Approved, after.key()));
    assert_eq!(taken.record.by, enrollment::BY_TOKEN);
    assert_eq!(ended_keys(&taken.record).collect::<Vec<_>>(), [(before.key(), UnixMillis(0))]);
    assert_eq!(taken.record.until, None, "a re-used name inherits nothing");
    assert_eq!(before.asks(Some(&taken.record), Some(&voucher(true, true))), Err(Refused::KeyEnded));
    // An operator ends the one before: then the new one asks like anybody.
    let revoked = through(&active, &[Transition::Revoke]);
    assert_eq!(before.asks(Some(&revoked), None), Err(Refused::KeyEnded));
    let asked = after.asks(Some(&revoked), None).unwrap();
    assert!(asked.is_news && asked.record.status == Status::Pending);
    assert_eq!(ended_keys(&asked.record).collect::<Vec<_>>(), [(before.key(), UnixMillis(0))]);
    // Once its credentials have ended by themselves it needs no place any more.
    let later = UnixMillis(NOW.0 + 1_000_000_000);
    let asked = after.asks_at(Some(&revoked), None, later).unwrap();
    assert_eq!(ended_keys(&asked.record).count(), 0);
}

#[test]
#[rule("I-4")]
fn i4_a_rejected_key_stays_out_until_an_operator_gives_it_a_token() {
    let machine = Machine::new(1);
    let rejected = through(&machine.pending(), &[Transition::Reject]);
    let again = machine.asks(Some(&rejected), None).unwrap();
    assert!(!again.is_changed && again.record.status == Status::Rejected);
    assert!(
        machine.asks(Some(&rejected), Some(&voucher(false, true))).unwrap().record.status == Status::Rejected
    );
    let let_in = machine.asks(Some(&rejected), Some(&voucher(true, false))).unwrap();
    assert_eq!(let_in.record.status, Status::Approved);
    // The name is free for others, and who was never let in leaves nothing behind.
    let other = Machine::new(2).asks(Some(&rejected), None).unwrap();
    assert!(other.is_news && ended_keys(&other.record).count() == 0);
}

#[test]
#[rule("I-4", "R-7")]
fn i4_a_token_that_holds_makes_news_once_and_leaves_the_word_to_others() {
    let machine = Machine::new(1);
    let asked = machine.asks(None, Some(&voucher(false, false))).unwrap();
    assert!(asked.is_news && asked.record.status == Status::Pending);
    assert_eq!(asked.record.token.as_ref().unwrap().label, "fleet");
    assert!(!machine.asks(Some(&asked.record), Some(&voucher(false, false))).unwrap().is_changed);
    // One that waited without it is news again when it brings one.
    let later = machine.asks(Some(&machine.pending()), Some(&voucher(false, false))).unwrap();
    assert!(later.is_news && later.is_changed);
}

#[test]
#[rule("I-13")]
fn i13_so_many_may_wait_and_no_more_unless_they_bring_a_token() {
    let machine = Machine::new(1);
    let by = Newcomer { peel: &machine.peel, key: machine.pair.public(), address: machine.address };
    for full in [
        Waiting { all: PENDING_MAX, of_address: 0 },
        Waiting { all: PENDING_OF_ADDRESS_MAX, of_address: PENDING_OF_ADDRESS_MAX },
    ] {
        assert_eq!(asked(None, &by, None, full, NOW), Err(Refused::Full));
        assert!(asked(None, &by, Some(&voucher(true, false)), full, NOW).is_ok());
        // Who waits already is not refused by those who came later.
        assert!(asked(Some(&machine.pending()), &by, None, full, NOW).is_ok());
    }
    // A name is not blocked for ever by one whom nobody wants.
    let late = UnixMillis(NOW.plus(PENDING_LIFE).0 + 1);
    assert!(Machine::new(2).asks_at(Some(&machine.pending()), None, late).unwrap().is_news);
    // Nor are the keys of a name endless.
    let mut record = machine.pending();
    let refused = (2..255).find_map(|seed| {
        record = through(&record, &[Transition::Approve, ISSUE, Transition::Revoke]);
        Machine::new(seed).asks(Some(&record), None).map(|asked| record = asked.record).err()
    });
    assert_eq!(refused, Some(Refused::WornOut));
}

#[test]
#[rule("I-4", "I-11")]
fn i11_an_id_names_its_peel_and_nothing_else() {
    let machine = Machine::new(1);
    let id = id_of(&machine.peel, machine.key()).unwrap();
    assert_eq!(peel_of_id(id.as_str()), Some(machine.peel.clone()));
    for bad in
        ["", "web-1", "0123456789abcdef", "0123456789abcdeF-web-1", "0123456789abcdef-", "ä23456789abcdef-w"]
    {
        assert_eq!(peel_of_id(bad), None, "{bad}");
    }
    let long = PeelId::parse(&"x".repeat(112)).unwrap();
    assert_eq!(id_of(&long, machine.key()), Err(Refused::NameTooLong));
    assert!(id_of(&PeelId::parse(&"x".repeat(111)).unwrap(), machine.key()).is_ok());
}

#[test]
fn words_say_what_to_do() {
    let revoked = through(&Machine::new(1).pending(), &[Transition::Approve, Transition::Revoke]);
    let words = step(&revoked, Transition::Approve, ANN, NOW).unwrap_err().to_string();
    assert!(words.contains("new one"), "{words}");
}

#[test]
#[rule("R-7")]
fn r7_an_address_is_one_or_of_a_network() {
    for (wanted, found, is) in [
        ("192.0.2.7", "192.0.2.7", true),
        ("192.0.2.7", "192.0.2.8", false),
        ("10.1.0.0/16", "10.1.255.3", true),
        ("10.1.0.0/16", "10.2.0.1", false),
        ("0.0.0.0/0", "192.0.2.7", true),
        ("0.0.0.0/0", "2001:db8::1", false),
        ("2001:db8::/32", "2001:db8:1::1", true),
        ("2001:db8::/32", "2001:db9::1", false),
        ("192.0.2.7", "::ffff:192.0.2.7", true),
        ("10.0.0.0/33", "10.0.0.0", false),
        ("10.0.0.0/", "10.0.0.0", false),
        ("10.*", "10.0.0.1", false),
        ("10.0.0.1", "", false),
    ] {
        assert_eq!(address_is(wanted, found), is, "{wanted} {found}");
    }
}

#[test]
#[rule("I-4", "I-5")]
fn i5_a_key_that_was_ended_is_not_forgotten_while_its_credentials_count() {
    let (first, second) = (Machine::new(1), Machine::new(2));
    let until = |days: u64| UnixMillis(NOW.0 + days * 86_400_000);
    let approved = through(&first.pending(), &[Transition::Approve]);
    // Renewed for a shorter time: what was given out before counts for its own.
    let issued =
        through(&approved, &[Transition::Issue { until: until(30) }, Transition::Issue { until: until(1) }]);
    assert_eq!(issued.until, Some(until(30)));
    let revoked = through(&issued, &[Transition::Revoke]);
    // Somebody else asks for the name and is left waiting until nobody cares any more.
    let later = until(10);
    let asked = second.asks_at(Some(&revoked), None, later).unwrap().record;
    assert_eq!(asked.status, Status::Pending);
    assert!(asked.former.iter().any(|former| former.key == first.key()));
    let stale = UnixMillis(later.0 + PENDING_LIFE.as_millis() as u64 + 1);
    assert!(!enrollment::is_forgotten(&asked, stale), "the ended key would count again");
    assert!(enrollment::is_forgotten(&asked, until(31)));
    assert!(enrollment::is_forgotten(&second.pending(), stale), "who waits for nothing goes");
    assert!(!enrollment::is_forgotten(&second.pending(), NOW));
}

#[test]
#[rule("I-4", "I-13")]
fn i13_who_brings_nothing_keeps_nobody_out_who_brings_a_token_for_many_names() {
    let (squatter, machine) = (Machine::new(1), Machine::new(2));
    let squatted = squatter.pending();
    let record = machine.asks(Some(&squatted), Some(&voucher(true, false))).unwrap().record;
    assert_eq!((record.status, record.key.as_str()), (Status::Approved, machine.key()));
    // A token that only vouches is no word yet, and a name that another had is not for many.
    assert!(machine.asks(Some(&squatted), Some(&voucher(false, false))).is_err());
    let held = squatter.asks(None, Some(&voucher(false, true))).unwrap().record;
    assert!(machine.asks(Some(&held), Some(&voucher(true, false))).is_err());
}

#[test]
#[rule("I-15", "I-4")]
fn i15_a_machine_gives_its_name_a_new_key_and_nobody_else_does() {
    let (before, after, thief) = (Machine::new(1), Machine::new(2), Machine::new(3));
    let steps = [Transition::Approve, ISSUE, Transition::Seen];
    let active = through(&before.pending(), &steps);
    let rekeyed = |record: &Enrollment, old: &Machine, new: &Machine| {
        let by = Newcomer { peel: &new.peel, key: new.pair.public(), address: new.address };
        enrollment::rekeyed(record, old.pair.public(), &by, NOW)
    };
    let next = rekeyed(&active, &before, &after).unwrap().unwrap();
    assert_eq!((next.key.as_str(), next.status, &next.by), (after.key(), Status::Approved, &active.by));
    assert!(next.serial > active.serial && next.id != active.id && next.until.is_none());
    // What the old one signed counts for a while, and it gets nothing any more.
    let until = NOW.plus(REKEY_OVERLAP);
    assert_eq!(ended_keys(&next).collect::<Vec<_>>(), [(before.key(), until)]);
    assert_eq!(before.asks(Some(&next), None), Err(Refused::KeyEnded));
    assert_eq!(rekeyed(&next, &before, &thief), Ok(None), "whoever has the old key is too late");
    assert_eq!(rekeyed(&next, &after, &before), Ok(None), "it has none yet");
    let issued = through(&next, &[ISSUE]);
    assert_eq!(rekeyed(&issued, &after, &before), Err(Refused::KeyEnded), "no key comes back");
    // Whoever is not in has nothing to hand over, and the key of another name is nobody's here.
    for record in [
        before.pending(),
        through(&before.pending(), &[Transition::Approve]),
        through(&active, &[Transition::Revoke]),
    ] {
        assert_eq!(rekeyed(&record, &before, &after), Ok(None), "{:?}", record.status);
    }
    assert_eq!(rekeyed(&active, &thief, &after), Ok(None));
    // An operator who ends the name ends every key of it, and a machine that takes the name over inherits nothing.
    let revoked = through(&issued, &[Transition::Revoke]);
    let never = UnixMillis(0);
    assert_eq!(ended_keys(&revoked).collect::<Vec<_>>(), [(after.key(), never), (before.key(), never)]);
    let taken =
        thief.asks(Some(&through(&issued, &[Transition::Seen])), Some(&voucher(true, true))).unwrap().record;
    assert!(ended_keys(&taken).all(|(_, until)| until == never), "{:?}", taken.former);
}

#[test]
#[rule("I-15")]
fn i15_a_key_hands_over_to_one_key_for_one_name_and_one_nonce() {
    let (before, after) = (Machine::new(1), Machine::new(2));
    let proof = join_token::hand_over(&before.pair, &before.peel, b"nonce", after.pair.public());
    let holds = |key: &Machine, peel: &str, nonce: &[u8], to: &Machine| {
        let peel = PeelId::parse(peel).unwrap();
        join_token::is_handed_over(key.pair.public(), &peel, nonce, to.pair.public(), &proof)
    };
    assert!(holds(&before, "web-1", b"nonce", &after));
    assert!(!holds(&after, "web-1", b"nonce", &after) && !holds(&before, "web-2", b"nonce", &after));
    assert!(
        !holds(&before, "web-1", b"other", &after) && !holds(&before, "web-1", b"nonce", &Machine::new(3))
    );
    // What shows that a machine has its key hands over nothing.
    let shown = join_token::prove(&before.pair, &before.peel, b"nonce");
    assert!(!join_token::is_handed_over(
        before.pair.public(),
        &before.peel,
        b"nonce",
        after.pair.public(),
        &shown
    ));
}

#[test]
#[rule("I-12")]
fn i12_every_change_of_an_enrollment_has_a_higher_serial() {
    let machine = Machine::new(1);
    let mut record = machine.pending();
    assert!(record.serial >= NOW.0, "higher than that of any record that was removed before");
    for what in [Transition::Approve, ISSUE, Transition::Seen, ISSUE, Transition::Revoke] {
        let next = step(&record, what, ANN, UnixMillis(NOW.0 - 1_000)).unwrap();
        assert!(next.serial > record.serial, "{what:?}");
        record = next;
    }
    assert!(enrollment::signed_anew(&record, true, NOW).serial > record.serial);
    assert!(Machine::new(2).asks(Some(&record), None).unwrap().record.serial > record.serial);
}
