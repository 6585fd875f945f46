//! Tests whose process must be theirs alone, since they measure it.

use std::process::Command;

/// Set for the process of such a test: which one it is.
const ALONE: &str = "ZK_RECIPES_TEST_ALONE";

/// Whether the test is alone in its process. If not, it has been run in a process of its own, and has passed.
///
/// Its name is the one that the harness knows it by, with its modules.
pub fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some_and(|alone| alone == test) {
        return true;
    }
    let mut process = Command::new(std::env::current_exe().unwrap());
    let output = process
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env(ALONE, test)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let is_passed = output.status.success() && printed.contains("1 passed");
    assert!(is_passed, "{}: {printed}{}", output.status, String::from_utf8_lossy(&output.stderr));
    println!("{printed}");
    false
}
