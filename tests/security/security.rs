//! Encrypted connections, authentication and ACLs, on servers of both generations; and that no secret is printed.
//!
//! The servers' class paths are those of the interoperation tests, without which most are ignored.

#[path = "../support/mod.rs"]
mod support;

mod acls;
mod capture;
mod hostile;
#[macro_use]
#[path = "../interop/generations.rs"]
mod generations;
#[path = "../interop/installed.rs"]
mod installed;
mod pki;
mod sasl;
mod secrets;
mod stage;
mod tls;
mod wiretap;

on_each_generation! {
    tls: locks_work_over_mutual_tls_and_nothing_is_sent_in_the_clear, servers_that_cannot_be_trusted_get_nothing,
        an_expired_certificate_is_refused, certificates_are_replaced_while_a_lock_is_held,
        creator_only_counts_certificates;
    sasl: sasl_takes_the_right_password_only;
    acls: creator_only_keeps_other_users_out, open_nodes_of_an_authenticated_client_are_warned_about_once;
    secrets: no_secret_is_printed;
}
