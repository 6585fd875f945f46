//! Puts defects into a copy of the library, and tells how many seeds it takes until a judge notices.
//!
//! `cargo run --release --bin planted [NAME]...`, in this folder. A defect that is not noticed is a failure. All are in
//! one copy, each behind a switch: `./play --plant NAME` plays with one. For that, `planted --play NAME` builds the copy,
//! and says where its `play` is.

mod defects;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs, io};

use self::defects::{DEFECTS, Defect};

/// How many seeds are played at most.
const SEEDS: &str = "400";

/// How much is shown of what a judge says.
const LONGEST: usize = 110;

/// The variable that names the defect.
const SWITCH: &str = "ZK_RECIPES_PLANTED";

/// Returns what the library's copy has in addition.
fn switches() -> String {
    format!(
        r#"
pub(crate) mod planted {{
    static NAME: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| std::env::var({SWITCH:?}).ok());

    pub(crate) fn is(name: &str) -> bool {{
        NAME.as_deref() == Some(name)
    }}
}}
"#
    )
}

fn main() -> io::Result<ExitCode> {
    let mut wanted: Vec<String> = env::args().skip(1).collect();
    let is_to_play = wanted.first().is_some_and(|first| first == "--play");
    if is_to_play {
        wanted.remove(0);
    }
    if let Some(name) = wanted.iter().find(|name| DEFECTS.iter().all(|defect| defect.name != **name)) {
        let names: Vec<_> = DEFECTS.iter().map(|defect| defect.name).collect();
        return Err(io::Error::other(format!("no defect {name:?}; there are: {}", names.join(", "))));
    }
    let play = build()?;
    if is_to_play {
        println!("{}", play.display());
        return Ok(ExitCode::SUCCESS);
    }
    let mut unnoticed = 0;
    println!("| defect | is noticed by | seeds | seconds |\n|---|---|---|---|");
    for defect in DEFECTS {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == defect.name) {
            continue;
        }
        let row = defect.play(&play)?;
        unnoticed += u32::from(row.is_none());
        println!("| {} | {} |", defect.name, row.unwrap_or_else(|| format!("**nothing** | {SEEDS} | ")));
    }
    Ok(if unnoticed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Builds the copy, and returns its `play`.
fn build() -> io::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let copy = root.join("target/planted/copy");
    let planted = |path: &Path| -> io::Result<Vec<u8>> {
        let mut data = fs::read(path)?;
        let name = path.strip_prefix(&root).unwrap_or(path);
        for defect in DEFECTS.iter().filter(|defect| Path::new(defect.file) == name) {
            data = defect.plant(&String::from_utf8_lossy(&data))?.into_bytes();
        }
        if name == Path::new("src/lib.rs") {
            data.extend(switches().bytes());
        }
        Ok(data)
    };
    copy_all(&root, &copy, &planted)?;
    let target = copy.with_file_name("target");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(copy.join("tests/simulation")).env("CARGO_TARGET_DIR", &target);
    let built = cargo.args(["build", "--release", "--quiet", "--bin", "play"]).output()?;
    if !built.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&built.stderr)));
    }
    Ok(target.join("release/play"))
}

impl Defect {
    /// Returns the rest of its row, or `None` if it is not noticed.
    fn play(&self, play: &Path) -> io::Result<Option<String>> {
        let start = Instant::now();
        let mut playing = Command::new(play);
        playing.args(["--until-broken", "--seeds", SEEDS]).args(self.arguments.split(' '));
        let played = playing.env(SWITCH, self.name).env("RUST_BACKTRACE", "0").output()?;
        let seconds = start.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&played.stdout);
        let Some((_, what)) = text.split_once("BROKEN: ") else {
            // A panic is none of the judges.
            eprint!("{}", String::from_utf8_lossy(&played.stderr));
            return Ok(None);
        };
        let runs =
            text.lines().last().and_then(|line| line.split_once(" runs")).map_or("?", |(runs, _)| runs);
        let what: String = what.lines().next().unwrap_or_default().chars().take(LONGEST).collect();
        Ok(Some(format!("{what} | {runs} | {seconds:.1}")))
    }

    /// Returns the source with the defect behind its switch.
    fn plant(&self, source: &str) -> io::Result<String> {
        let parts = self.place.split_once("[[").and_then(|(before, rest)| {
            let (sound, after) = rest.split_once("]]")?;
            Some((before, sound, after))
        });
        let (before, sound, after) = parts.ok_or_else(|| self.error("its place has no brackets"))?;
        let place = format!("{before}{sound}{after}");
        if source.matches(&place).count() != 1 {
            return Err(self.error("its place is not once in the file"));
        }
        let either =
            format!("if crate::planted::is({:?}) {{ {} }} else {{ {sound} }}", self.name, self.broken);
        let either = if sound.ends_with(';') { either } else { format!("({either})") };
        Ok(source.replace(&place, &format!("{before}{either}{after}")))
    }

    fn error(&self, what: &str) -> io::Error {
        io::Error::other(format!("{} in {}: {what}", self.name, self.file))
    }
}

/// Copies the project. Files that are the same stay, so that little is built again.
fn copy_all(from: &Path, to: &Path, read: &impl Fn(&Path) -> io::Result<Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if name == "target" || name == ".git" {
            continue;
        }
        let to = to.join(name);
        if path.is_dir() {
            fs::create_dir_all(&to)?;
            copy_all(&path, &to, read)?;
            continue;
        }
        let data = read(&path)?;
        if fs::read(&to).is_ok_and(|there| there == data) {
            continue;
        }
        fs::write(to, data)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_defect_finds_its_place() -> io::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for defect in DEFECTS {
            defect.plant(&fs::read_to_string(root.join(defect.file))?)?;
        }
        Ok(())
    }
}
