//! The laws of the bus, held to by the one in memory and by the one over NATS. Whoever adds a law adds it to the list below,
//! and it runs on both. `ZESTER_NATS_SERVER` picks the server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod durable;
mod keys;
mod life;
mod messages;
mod stores;
mod streams;
mod trouble;
mod watches;

macro_rules! laws {
    ($($file:ident::$law:ident,)*) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $law() {
                crate::$file::$law(crate::bench::Bench::memory()).await;
            })*
        }
        mod nats {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                crate::$file::$law(crate::bench::Bench::nats()).await;
            })*
        }
    };
}

/// Those of reading, for who reads message by message because its account has no JetStream.
macro_rules! reading_laws {
    ($($file:ident::$law:ident,)*) => {
        mod single_reads {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                crate::$file::$law(crate::bench::Bench::single_reads()).await;
            })*
        }
    };
}

reading_laws! {
    keys::create_loses_to_an_existing_key,
    keys::an_update_with_a_stale_revision_loses,
    keys::a_purged_key_is_gone_from_get_and_listing,
    keys::the_latest_value_is_what_was_written_last,
    keys::all_keys_of_a_pattern_are_purged_at_once,
    keys::keys_are_listed_by_pattern,
    keys::a_scan_gives_the_entries_of_a_pattern,
    keys::a_value_expires,
    streams::a_replay_gives_everything_in_order_and_leaves_no_consumer,
    streams::a_replay_from_any_place_gives_all_that_follows,
    streams::a_replay_may_cross_the_subjects_of_a_stream,
    streams::a_long_replay_comes_in_pages,
    streams::few_messages_of_many_are_found_wherever_they_lie,
    streams::the_newest_message_of_a_subject_is_read_without_a_consumer,
    streams::the_message_at_a_place_says_whose_a_duplicate_is,
    streams::the_end_of_a_store_is_its_newest_message,
    streams::a_client_that_listens_and_gets_holds_no_consumer,
}

laws! {
    messages::a_subscriber_gets_messages_in_order,
    messages::a_pattern_gets_what_it_matches_and_nothing_else,
    messages::a_queue_group_delivers_to_exactly_one,
    messages::a_request_is_answered,
    messages::a_request_without_a_responder_fails_at_once,
    messages::a_request_that_nobody_answers_times_out,
    messages::a_payload_that_is_too_large_is_an_error_before_sending,
    messages::what_is_no_subject_is_refused,
    messages::a_full_subscription_says_what_it_dropped,
    messages::a_dropped_subscription_is_gone,
    keys::create_loses_to_an_existing_key,
    keys::an_update_with_a_stale_revision_loses,
    keys::of_many_creates_one_wins,
    keys::a_purged_key_is_gone_from_get_and_listing,
    keys::a_purge_with_a_stale_revision_loses,
    keys::the_latest_value_is_what_was_written_last,
    keys::all_keys_of_a_pattern_are_purged_at_once,
    keys::keys_are_listed_by_pattern,
    keys::a_scan_gives_the_entries_of_a_pattern,
    keys::a_value_expires,
    keys::a_bucket_that_does_not_exist_is_a_failure_that_may_pass,
    keys::a_value_larger_than_the_bucket_takes_is_refused,
    streams::a_message_id_is_kept_once,
    streams::the_first_of_a_subject_is_kept_and_no_other,
    streams::a_replay_gives_everything_in_order_and_leaves_no_consumer,
    streams::a_replay_from_any_place_gives_all_that_follows,
    streams::a_replay_may_cross_the_subjects_of_a_stream,
    streams::a_long_replay_comes_in_pages,
    streams::few_messages_of_many_are_found_wherever_they_lie,
    streams::the_newest_message_of_a_subject_is_read_without_a_consumer,
    streams::the_message_at_a_place_says_whose_a_duplicate_is,
    streams::the_end_of_a_store_is_its_newest_message,
    streams::what_no_stream_takes_is_unavailable,
    streams::a_full_stream_drops_its_oldest_and_a_full_bucket_refuses,
    streams::a_client_that_listens_and_gets_holds_no_consumer,
    durable::what_came_while_nobody_read_is_given_and_acked_once,
    durable::readers_of_one_name_share_the_messages,
    durable::what_is_not_acknowledged_comes_again,
    durable::a_durable_reader_waits_for_what_comes,
    durable::no_more_are_given_than_may_be_unacked,
    durable::what_is_handed_back_for_a_while_keeps_its_room,
    durable::a_reader_without_room_goes_on_once_there_is_some,
    durable::a_durable_reader_lives_through_a_crash,
    durable::a_reader_of_what_is_new_begins_when_it_is_made,
    durable::what_a_stream_dropped_unread_shows_in_the_numbers,
    durable::after_its_last_delivery_a_message_never_comes_again,
    durable::who_says_that_it_works_on_a_message_keeps_it,
    durable::an_acknowledgement_of_an_earlier_delivery_counts,
    durable::drift_of_an_existing_reader_is_told_and_not_repaired,
    durable::how_an_existing_reader_gives_is_adjusted_and_its_place_stays,
    watches::a_watch_tells_what_is_there_and_what_comes,
    watches::a_watch_of_nothing_is_current_at_once,
    watches::a_watch_lives_through_a_crash,
    watches::a_watch_of_a_bucket_that_was_made_again_ends_and_the_next_one_tells_all,
    stores::the_table_is_created_once_and_then_as_wanted,
    stores::drift_of_an_existing_store_is_told_and_not_repaired,
    life::after_a_crash_everything_works_again_and_what_was_stored_is_there,
    life::without_a_server_calls_fail_at_once,
    life::a_closed_bus_answers_errors,
    life::closing_ends_a_request_under_way,
    trouble::a_write_that_timed_out_lands_later,
    trouble::what_is_sent_into_a_silence_comes_when_it_ends,
    trouble::a_request_into_a_silence_times_out_and_is_heard_later,
    trouble::a_full_bucket_keeps_the_old_value_and_takes_a_smaller_one,
    trouble::a_bucket_that_was_made_again_counts_from_one,
    trouble::a_short_silence_is_not_noticed,
    trouble::a_connection_that_is_given_up_is_made_again,
}
