//! `zklock completions`.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::support::within;
use crate::zklock::{Running, zklock};

async fn script(shell: &str) -> String {
    let ended = Running::start(zklock("nowhere", &["completions", shell])).ended().await;
    assert_eq!((ended.code, &*ended.errors), (Some(0), ""), "{ended:?}");
    ended.output
}

#[tokio::test]
async fn each_shell_is_told_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = script(shell).await;
        for word in ["deadlocks", "doctor", "participant", "auth-file"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let unknown = Running::start(zklock("nowhere", &["completions", "csh"])).ended().await;
    assert_eq!(unknown.code, Some(122), "{unknown:?}");
}

#[tokio::test]
async fn bash_completes_by_it() {
    let ask = r#"
        COMP_WORDS=(zklock dea); COMP_CWORD=1; _zklock zklock dea zklock; echo "${COMPREPLY[@]}"
        COMP_WORDS=(zklock kick --par); COMP_CWORD=2; _zklock zklock --par kick; echo "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.arg("--norc").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bash = bash.kill_on_drop(true).spawn().unwrap();
    let mut input = bash.stdin.take().unwrap();
    input.write_all(format!("{}\n{ask}", script("bash").await).as_bytes()).await.unwrap();
    drop(input);
    let output = within(bash.wait_with_output()).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "deadlocks\n--participant\n", "{output:?}");
}
