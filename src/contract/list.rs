//! The rules of the suite by name, once for all who need them, and where the others are tested.

use super::backend::Backend;
use super::rules::{cancellation, consumers, damage, handles, metadata, ownership, visibility, write_behind};
use super::stage::Outcome;

/// Calls a macro of this crate with `$args` and every rule of the suite, by the file that it stands in.
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_rules {
    ($then:ident $args:tt) => {
        $crate::$then! {
            $args
            ownership {
                r045_create_returns_a_write_handle_on_an_empty_log
                r046_a_create_that_is_refused_leaves_the_id_free
                r047_of_two_creates_one_succeeds
                r048_create_finds_what_another_instance_stored_wherever
                r049_opening_an_absent_id_is_not_found_and_leaves_nothing
                r050_one_write_handle_at_a_time_in_an_instance
                r051_readers_open_beside_a_writer
                r052_a_write_open_that_fails_fails_alike_the_next_time
                r053_one_write_handle_at_a_time_across_instances
                r054_a_crash_of_the_holder_frees_the_session_at_once
                r055_another_instance_reads_beside_a_writer
                r056_of_two_pending_sessions_of_one_id_the_first_to_write_stays
                r057_a_flushed_empty_session_is_owned_until_close
                r058_a_session_that_was_never_written_has_no_artifact
                r058_looking_and_reading_take_no_lock
                r059_sessions_are_owned_independently
                r060_a_refusal_while_locking_is_told_as_one
                r061_a_failed_open_and_a_failed_release_are_both_told
            }
            handles {
                r062_reads_are_exact_slices
                r064_a_write_handle_reads_its_own_appends_at_once
                r065_a_batch_that_does_not_continue_the_log_is_refused_whole
                r066_a_batch_with_what_is_no_event_is_refused_whole
                r067_an_empty_batch_changes_nothing
                r068_append_and_flush_on_a_read_handle_are_refused
                r069_appends_of_several_threads_are_each_stored_whole
                r069_an_append_that_waits_goes_before_one_that_is_called_later
                r070_a_batch_whose_write_failed_can_be_appended_again
                r070_a_batch_whose_sync_failed_can_be_appended_again
                r071_after_a_failed_write_or_sync_the_artifact_is_as_before
                r071_a_session_that_failed_to_appear_is_as_new
                r072_flush_is_repeatable_and_stores_an_empty_session
                r073_what_a_flush_covered_survives_a_crash
                r073_appends_that_wait_for_a_flush_are_durable_from_it_on
                r073_a_flush_covers_what_an_earlier_handle_had_accepted
                r073_an_append_is_durable_by_itself
                r074_without_a_flush_a_crash_leaves_a_prefix
                r075_after_close_everything_is_refused_before_its_arguments
                r075_every_caller_of_close_hears_the_one_failure
                r075_a_second_close_frees_nothing
                r076_close_lets_the_running_operation_finish_and_refuses_the_queued
                r077_closing_a_session_that_was_never_written_erases_it
                r078_a_reader_of_an_erased_session_finds_nothing
                r079_close_frees_the_session_whatever_fails
                r080_an_unknown_event_that_was_stored_is_refused_to_readers
                r080_by_default_an_event_that_no_reader_knows_is_not_stored
                r081_an_unknown_event_that_may_be_ignored_keeps_its_place
                r082_payloads_come_back_byte_for_byte
            }
            visibility {
                r083_a_created_session_is_visible_to_its_instance_without_counts
                r084_a_pending_session_is_invisible_elsewhere
                r084_a_pending_session_is_gone_after_a_crash
                r085_what_was_appended_or_flushed_is_seen_by_everybody
                r085_what_was_appended_is_seen_before_it_is_durable
                r086_a_reader_of_a_pending_session_sees_it_once_it_is_written
                r087_a_log_that_became_shorter_is_an_error
                r088_another_instance_goes_on_at_the_stored_seq
                r089_a_write_handle_reads_what_was_stored_before_its_first_append
                r090_a_read_beside_appends_is_a_prefix_and_ends
                r091_an_unchanged_log_is_parsed_at_most_once
                r091_every_append_is_seen_by_what_is_opened_next
            }
            damage {
                r092_a_torn_tail_is_never_returned_and_reading_changes_nothing
                r093_complete_records_before_a_torn_fragment_are_returned
                r094_a_write_open_after_a_tear_goes_on_where_reading_ends
                r095_recovered_records_are_durable_before_the_next_batch
                r096_a_repair_that_failed_is_completed_by_the_next_append
                r097_bytes_before_the_repair_do_not_change
                r098_opening_and_closing_repairs_nothing
                r099_damage_before_a_later_turn_end_is_corruption
                r100_damage_without_a_later_turn_end_bounds_the_log
                r102_a_cut_at_any_byte_serves_whole_events_before_it
                r103_a_log_without_a_header_is_refused_and_listed
                r104_a_newer_generation_is_refused_with_advice_and_listed
                r105_header_and_marker_of_a_fork_must_agree
                r106_a_header_of_another_session_is_refused
            }
            consumers {
                r107_a_malformed_message_makes_no_session
                r107_a_query_calls_a_malformed_message_corrupt
            }
            damage {
                r108_an_open_turn_is_returned_as_it_is
                r109_refusals_name_what_stores_the_session
            }
            write_behind {
                r111_a_window_is_stored_at_its_end_and_not_a_tick_before
                r112_later_events_do_not_extend_a_window
                r113_events_during_a_drain_are_the_next_batch_of_it
                r114_without_a_write_handle_nothing_is_stored_and_a_flush_succeeds
                r115_a_session_flush_drains_at_once_and_stores_a_session
                r116_a_failed_drain_is_told_once_keeps_everything_and_pauses
                r117_a_flush_after_a_failure_stores_everything_once
                r117_so_it_does_after_a_failure_of_the_storage
                r118_a_service_flush_flushes_every_handle_and_gathers_what_fails
                r119_a_session_that_leaves_is_drained_and_closed
                r120_events_that_come_while_close_waits_are_stored_before_it_resolves
                r121_closing_the_instance_stores_everything_and_closes_every_handle
                r122_a_new_handle_gets_the_later_events_and_none_twice
            }
            metadata {
                r123_stat_list_and_a_reader_agree
                r124_what_changes_the_log_changes_the_revision
                r124_a_repair_changes_the_revision
                r125_instances_agree_on_a_revision_and_storages_do_not
                r126_the_event_count_is_that_of_the_log
                r127_the_size_is_that_of_the_artifact
                r128_a_session_with_a_corrupt_body_is_listed
                r129_an_id_both_pending_and_stored_is_listed_once_as_stored
                r129_a_session_that_is_stored_during_a_list_is_never_missing
                r130_what_vanished_is_none_and_not_listed_as_sound
                r130_what_vanishes_during_a_look_is_no_fault
                r130_a_fault_is_told_as_one
                r132_hostile_ids_never_collide
            }
            cancellation {
                r134_a_cancelled_call_fails_with_the_very_reason_and_changes_nothing
                r134_cancelling_in_the_middle_undoes_no_durable_step
            }
            consumers {
                r135_a_cold_query_closes_an_interrupted_log_in_memory_only
                r135_an_unchanged_revision_is_not_read_again_and_a_changed_one_is
                r136_a_resumed_session_is_owned_and_closed_once
                r136_a_second_resume_adds_nothing
                r136_a_resume_that_was_killed_is_resumed
                r137_a_session_is_published_when_all_of_its_start_is_stored
                r137_a_start_that_fails_leaves_nothing
            }
            write_behind {
                r139_a_failed_checkpoint_keeps_the_model_and_the_tool_from_running
                r139_after_a_crash_past_a_checkpoint_the_call_is_in_the_log
            }
            consumers {
                r140_an_exported_text_is_the_header_and_what_was_appended
                r140_the_blank_probe_never_hides_a_session_with_a_turn
            }
        }
    };
}

/// One function of the suite.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) run: fn(&dyn Backend) -> Outcome,
}

impl Rule {
    /// The number in the contract: what stands behind the `r`.
    pub(super) fn number(self) -> u32 {
        self.name
            .get(1..4)
            .and_then(|digits| digits.parse().ok())
            .expect("rules are named after their number")
    }

    /// What the name states, in words.
    pub(super) fn words(self) -> String {
        self.name.get(5..).unwrap_or_default().replace('_', " ")
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_list {
    (() $($file:ident { $($rule:ident)* })*) => {
        &[$($(Rule { name: stringify!($rule), run: $file::$rule },)*)*]
    };
}

/// Every function of the suite, by number.
pub(super) const RULES: &[Rule] = crate::__contract_rules! { __contract_list () };

/// The last number of the contract.
pub(super) const LAST: u32 = 140;

const SESSION: &str = "session logic, which no storage takes part in";
const FILES: &str = "a matter of files: seslog's own tests hold it for its files";
const LIVE: &str = "a matter of live sessions and their readers, above the seam";

/// Why no function here has a number. A number that has one is not among them.
pub(super) const ELSEWHERE: &[(u32, u32, &str)] = &[
    (1, 44, SESSION),
    (63, 63, "offsets and lengths are unsigned integers here"),
    (101, 101, FILES),
    (110, 110, FILES),
    (131, 131, FILES),
    (133, 133, FILES),
    (138, 138, LIVE),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_function_or_a_reason_and_not_both() {
        for number in 1..=LAST {
            let functions = RULES.iter().filter(|rule| rule.number() == number).count();
            let reasons =
                ELSEWHERE.iter().filter(|(first, last, _)| (*first..=*last).contains(&number)).count();
            assert!((functions == 0) == (reasons == 1) && reasons < 2, "{number}: {functions}, {reasons}");
        }
        assert!(RULES.iter().all(|rule| (1..=LAST).contains(&rule.number())));
        assert!(RULES.is_sorted_by_key(|rule| rule.number()), "in the order of their numbers");
    }
}
