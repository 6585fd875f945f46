//! The example checks itself what the token is good for.

use std::process::Command;

#[test]
fn the_token_keeps_what_the_next_holder_wrote() {
    let ended = Command::new(env!("CARGO_BIN_EXE_fencing")).status().unwrap();
    assert!(ended.success(), "{ended}");
}
