//! Puts defects into a copy of the library, and tells how many seeds it takes until a judge notices, or which history of
//! `tests/timely` does.
//!
//! `cargo run --release --bin planted [NAME]...`, in this folder. A defect that is not noticed is a failure. All are in
//! one copy, each behind a switch: `./play --plant NAME` plays with one. For that, `planted --play NAME` builds the copy,
//! and says where its `play` is.

mod defects;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs, io};

use self::defects::{DEFECTS, Defect, ShownBy};

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
    let copy = PlantedCopy::make()?;
    let play = copy.play()?;
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
        let start = Instant::now();
        let noticed = match defect.shown_by {
            ShownBy::Play(arguments) => defect.play(&play, arguments)?,
            ShownBy::History(name) => defect.relive(&copy, name)?,
        };
        let seconds = start.elapsed().as_secs_f64();
        unnoticed += u32::from(noticed.is_none());
        let noticed = noticed.unwrap_or_else(|| format!("**nothing** | {SEEDS}"));
        println!("| {} | {noticed} | {seconds:.1} |", defect.name);
    }
    Ok(if unnoticed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The copy of the library, and all that plays it.
struct PlantedCopy {
    folder: PathBuf,
    target: PathBuf,
}

impl PlantedCopy {
    fn make() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let copy = root.join("target/planted/copy");
        let planted = |path: &Path| -> io::Result<Vec<u8>> {
            let mut data = fs::read(path)?;
            let name = path.strip_prefix(&root).unwrap_or(path);
            if DEFECTS.iter().any(|defect| Path::new(defect.file) == name) {
                data = plant_all(name, &String::from_utf8_lossy(&data))?.into_bytes();
            }
            if name == Path::new("src/lib.rs") {
                data.extend(switches().bytes());
            }
            Ok(data)
        };
        copy_all(&root, &copy, &planted)?;
        Ok(Self { target: copy.with_file_name("target"), folder: copy.join("tests/simulation") })
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.target);
        cargo.args([command, "--release", "--quiet"]);
        cargo
    }

    /// Builds `play`, and returns where it is.
    fn play(&self) -> io::Result<PathBuf> {
        let built = self.cargo("build").args(["--bin", "play"]).output()?;
        if !built.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&built.stderr)));
        }
        Ok(self.target.join("release/play"))
    }
}

impl Defect {
    /// Plays seeds. Returns what notices the defect, and in which seed, or `None` if nothing does.
    fn play(&self, play: &Path, arguments: &str) -> io::Result<Option<String>> {
        let mut playing = Command::new(play);
        playing.args(["--until-broken", "--seeds", SEEDS]).args(arguments.split(' '));
        let played = playing.env(SWITCH, self.name).env("RUST_BACKTRACE", "0").output()?;
        let text = String::from_utf8_lossy(&played.stdout);
        let Some((_, what)) = text.split_once("BROKEN: ") else {
            // A panic is none of the judges.
            eprint!("{}", String::from_utf8_lossy(&played.stderr));
            return Ok(None);
        };
        let runs =
            text.lines().last().and_then(|line| line.split_once(" runs")).map_or("?", |(runs, _)| runs);
        let what: String = what.lines().next().unwrap_or_default().chars().take(LONGEST).collect();
        Ok(Some(format!("{what} | {runs}")))
    }

    /// Plays a history. Returns that it notices the defect, or `None` if it succeeds.
    fn relive(&self, copy: &PlantedCopy, history: &str) -> io::Result<Option<String>> {
        let mut testing = copy.cargo("test");
        // Some defects keep a history busy without end.
        testing.args(["--config", r#"target."cfg(all())".runner = ["timeout", "60"]"#]);
        testing.args(["--package", "zk-recipes-simulation-tests", "--test", "timely", history]);
        let tested = testing.env(SWITCH, self.name).output()?;
        let text = String::from_utf8_lossy(&tested.stdout);
        if !text.contains("running ") || text.contains("running 0 tests") {
            return Err(self.error(&String::from_utf8_lossy(&tested.stderr)));
        }
        Ok((!tested.status.success()).then(|| format!("the history `{history}` | ")))
    }

    /// Returns where the text is that is to be broken.
    fn find(&self, source: &str) -> io::Result<Range<usize>> {
        let parts = self.place.split_once("[[").and_then(|(before, rest)| {
            let (sound, after) = rest.split_once("]]")?;
            Some((before, sound, after))
        });
        let (before, sound, after) = parts.ok_or_else(|| self.error("its place has no brackets"))?;
        let found: Vec<_> = source.match_indices(&format!("{before}{sound}{after}")).collect();
        let [(at, _)] = *found else { return Err(self.error("its place is not once in the file")) };
        let start = at + before.len();
        Ok(start..start + sound.len())
    }

    fn error(&self, what: &str) -> io::Error {
        io::Error::other(format!("{} in {}: {what}", self.name, self.file))
    }
}

/// Returns the source with all of its defects, each behind its switch.
fn plant_all(file: &Path, source: &str) -> io::Result<String> {
    // By what they break, the last first: several may break the same.
    let mut broken = BTreeMap::<_, String>::new();
    for defect in DEFECTS.iter().filter(|defect| Path::new(defect.file) == file) {
        let Range { start, end } = defect.find(source)?;
        let either = format!("if crate::planted::is({:?}) {{ {} }} else ", defect.name, defect.broken);
        *broken.entry(Reverse((start, end))).or_default() += &either;
    }
    let mut planted = source.to_owned();
    for (Reverse((start, end)), either) in broken {
        let sound = &source[start..end];
        let either = format!("{either}{{ {sound} }}");
        let either = if sound.ends_with(';') { either } else { format!("({either})") };
        planted.replace_range(start..end, &either);
    }
    Ok(planted)
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
            defect.find(&fs::read_to_string(root.join(defect.file))?)?;
        }
        Ok(())
    }
}
