//! Curator, kazoo and this library on the same paths, step by step.

mod barriers;
mod cache;
mod candidate;
mod compression;
mod discovery;
mod election;
mod latch;
mod line;
mod multi;
mod mutex;
mod nodes;
mod own_names;
mod peer;
mod read_write;
mod revocation;
mod selector;
mod semaphore;
mod semaphore_mutex;
mod stage;
mod values;

/// What all scenarios are told with.
mod prelude {
    pub(crate) use super::candidate::*;
    pub(crate) use super::line::*;
    pub(crate) use super::peer::*;
    pub(crate) use super::stage::*;
    pub(crate) use crate::installed::{Generation, Peers};
    pub(crate) use crate::support::prelude::*;
}

on_each_generation! {
    mutex: mutex_excludes_in_order, mutex_outlives_the_death_of_others, locks_by_key_are_shared,
        a_lock_that_lingers_lets_others_in, a_cohort_lets_others_in;
    read_write: read_write_excludes_in_order, a_writer_becomes_a_reader;
    semaphore: semaphore_is_shared, semaphore_outlives_the_death_of_others, shared_count_is_shared;
    values: shared_values_are_shared, shared_counts_are_compared, atomic_numbers_are_shared, atomic_values_are_shared,
        nothing_is_lost_when_all_count, nothing_is_lost_or_done_twice_beside_curator;
    semaphore_mutex: semaphore_mutex_excludes_in_order;
    multi: multi_lock_excludes_in_order, multi_locks_taken_at_once_do_not_deadlock;
    revocation: holders_are_asked_to_release;
    latch: latches_lead_in_order, latches_outlive_the_death_of_others, latches_are_asked_and_evicted,
        curator_sleeps_through_the_end_of_a_leader_whose_node_was_written_to, latches_stand_in_containers;
    selector: selectors_lead_in_order, selectors_outlive_the_death_of_others, selectors_are_asked_and_evicted,
        selectors_take_turns;
    nodes: a_kept_node_of_curator_is_respected, numbered_nodes_have_names_of_one_form,
        nodes_with_a_ttl_are_kept_by_both, groups_are_shared;
    barriers: barriers_hold_back_both, double_barriers_are_entered_and_left_together;
    cache: what_curator_writes_is_followed;
    own_names: kazoo_keeps_its_own_names, kazoo_elects_under_its_own_names;
}

// Debian's Curator has it, the current one was brought without.
on_generation! { debian_alone, Debian, discovery: services_are_found_by_both; }

// Of Curator only the later one has it.
on_generation! {
    current_alone, Current,
    cache: what_curator_compresses_is_followed;
    compression: compressed_data_is_understood, clients_that_compress_are_understood;
}
