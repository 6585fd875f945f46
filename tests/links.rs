//! What the Markdown files name exists: the files that they link to, other files, and what their commands run.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where there are Markdown files besides the guide.
const FOLDERS: [&str; 4] = ["", "docs", "docs/architecture", "fuzz"];

/// The packages that commands name, and their folders.
const PACKAGES: [(&str, &str); 8] = [
    ("zk-recipes-benches", "benches"),
    ("zk-recipes-fencing", "examples/fencing"),
    ("zk-recipes-metrics", "examples/metrics"),
    ("zk-recipes-model", "tests/thorough/model"),
    ("zk-recipes-asan", "tests/asan"),
    ("zk-recipes-security", "tests/security"),
    ("zk-recipes-thorough", "tests/thorough"),
    ("zklock", "zklock"),
];

#[test]
fn relative_links_lead_to_files() {
    let mut broken = Vec::new();
    for file in FOLDERS.into_iter().flat_map(markdown) {
        let folder = file.parent().unwrap();
        for target in links(&fs::read_to_string(&file).unwrap()) {
            let path = target.split('#').next().unwrap();
            if !target.contains(':') && !folder.join(path).exists() {
                broken.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Each link is defined twice: in `links*.md` for docs.rs, which rustdoc checks, and at the end of the chapter for readers
/// of the file.
#[test]
fn links_of_the_guide_lead_to_items_and_to_the_files_that_have_them() {
    let read = |file: &Path| fs::read_to_string(file).unwrap();
    let items =
        ["links.md", "links_of_discovery.md"].map(|file| read(&root().join("src/guide").join(file))).concat();
    let mut unused: HashSet<_> = definitions(&items).map(|(label, _)| label).collect();
    for file in chapters() {
        let text = read(&file);
        let mut elsewhere =
            links(&text).filter(|target| !target.starts_with("http") && !target.starts_with('#'));
        assert_eq!(elsewhere.next(), None, "{}", file.display());
        let files: HashMap<_, _> = definitions(&text).collect();
        let prose: String =
            text.split_inclusive('\n').filter(|line| definitions(line).next().is_none()).collect();
        for (label, item) in definitions(&items) {
            let is_used = prose.split(&format!("[{label}]")).skip(1).any(|rest| !rest.starts_with('['));
            assert_eq!(
                is_used,
                files.contains_key(label),
                "{}: {label} has no file, or no use",
                file.display()
            );
            let Some(target) = files.get(label) else { continue };
            unused.remove(label);
            let path = file.with_file_name(target.split('#').next().unwrap());
            let name = item.split('#').next().unwrap().rsplit("::").next().unwrap();
            let is_there = path.to_string_lossy().contains(name) || read(&path).contains(name);
            assert!(is_there, "{}: {label} is not in {target}", file.display());
        }
        let unknown: Vec<_> = files.keys().filter(|label| !items.contains(&format!("[{label}]: "))).collect();
        assert!(unknown.is_empty(), "{}: not in links.md: {unknown:?}", file.display());
    }
    assert!(unused.is_empty(), "{unused:?}");
}

/// Paths are those of files at the root or in `src`; plain names are those of files anywhere.
#[test]
fn files_that_are_named_exist() {
    let all = files_below(&root());
    let is_file = |name: &str| {
        [root(), root().join("src")].iter().any(|folder| folder.join(name).exists())
            || !name.contains('/') && all.iter().any(|file| file.ends_with(name))
    };
    let mut missing = Vec::new();
    for (file, code) in documents().into_iter().flat_map(|file| codes(&file)) {
        let is_name = code.ends_with(".rs") && !code.contains(['*', ' ', '{']);
        // In upstream's sources.
        if is_name && !file.ends_with("docs/upstream.md") && !is_file(&code) {
            missing.push(format!("{}: {code}", file.display()));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn the_crate_page_names_all_chapters_and_features() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let (page, readme) = (read("src/lib.rs"), read("README.md"));
    for file in chapters() {
        let chapter = file.file_stem().unwrap().to_string_lossy();
        assert!(page.contains(&format!("guide::{chapter}")), "{chapter}");
    }
    let manifest = read("Cargo.toml");
    let features = manifest.split("[features]").nth(1).unwrap().split("\n[").next().unwrap();
    let features = features.lines().filter_map(|line| line.split_once(" = [")).map(|(name, _)| name);
    let features: Vec<_> = features.filter(|name| *name != "default").collect();
    assert!(features.len() > 5, "{features:?}");
    for (file, text) in [("src/lib.rs", &page), ("README.md", &readme)] {
        let missing: Vec<_> = features.iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "{file}: {missing:?}");
    }
}

/// What an event in a log means is in the guide.
#[test]
fn the_guide_has_every_event_from_info_on() {
    let guide = fs::read_to_string(root().join("src/guide/observing.md")).unwrap();
    let rows: Vec<_> = guide.lines().filter(|line| line.starts_with('|')).collect();
    let mut missing = Vec::new();
    let mut checked = 0;
    for file in
        files_below(&root().join("src")).into_iter().filter(|file| file.extension() == Some("rs".as_ref()))
    {
        let text = fs::read_to_string(&file).unwrap();
        for level in ["info", "warn", "error"] {
            for rest in text.split(&format!("tracing::{level}!(")).skip(1) {
                let event = rest.split('"').nth(1).unwrap();
                let is_told = |row: &&str| row.contains(&format!("`{event}`")) && row.contains(level);
                if !rows.iter().any(is_told) {
                    missing.push(format!("{level} {event}, in {}", file.display()));
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 25 && missing.is_empty(), "{checked} checked: {missing:#?}");
}

/// The guide shows code that needs crates of other packages. It is compiled there.
#[test]
fn code_that_is_not_compiled_here_is_that_of_an_example() {
    let examples: String = ["examples", "tests/simulation/examples"]
        .iter()
        .flat_map(|folder| files_below(&root().join(folder)))
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let mut checked = 0;
    for file in chapters() {
        let text = fs::read_to_string(&file).unwrap();
        for block in text.split("```ignore\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            for line in block.lines() {
                assert!(examples.contains(line), "{}: {line}", file.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 0);
}

#[test]
fn commands_name_programs_that_exist() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for (file, code) in documents().into_iter().flat_map(|file| codes(&file)) {
        let Some(at) = ["cargo test", "cargo run", "cargo bench"].iter().find_map(|verb| code.find(verb))
        else {
            continue;
        };
        checked += 1;
        let words: Vec<_> = code[at..].split_whitespace().take_while(|word| *word != "#").collect();
        let folder = code[..at].trim().strip_prefix("cd ").and_then(|to| to.strip_suffix(" &&"));
        if let Err(what) = what_it_names_exists(folder.unwrap_or_default(), &words) {
            wrong.push(format!("{}: {}: no {what}", file.display(), words.join(" ")));
        }
    }
    assert!(checked > 20 && wrong.is_empty(), "{checked} checked: {wrong:#?}");
}

/// Answers with what does not exist.
fn what_it_names_exists(folder: &str, command: &[&str]) -> Result<(), String> {
    let after = |option: &str| {
        let at = command.iter().position(|word| *word == option)?;
        command.get(at + 1).copied()
    };
    let package = match after("-p") {
        None => "",
        Some(name) => {
            PACKAGES.iter().find(|(package, _)| *package == name).ok_or(format!("package {name}"))?.1
        }
    };
    let folder_of =
        |programs: &str| root().join(folder).join(if package.is_empty() { programs } else { package });
    for (option, programs) in [("--test", "tests"), ("--example", "examples"), ("--bench", "benches")] {
        let Some(program) = after(option) else { continue };
        let program = folder_of(programs).join(program);
        let files = [program.with_extension("rs"), program.join("main.rs")];
        let main = files.iter().find(|file| file.exists()).ok_or(format!("{}", program.display()))?;
        for test in command.iter().filter(|word| word.contains("::")) {
            let (modules, name) = test.rsplit_once("::").expect("it has a ::");
            let module = main.with_file_name(modules.replace("::", "/"));
            let files = [module.with_extension("rs"), module.join("mod.rs")];
            let file = files.iter().find(|file| file.exists()).ok_or(modules)?;
            let text = fs::read_to_string(file).unwrap();
            if !name.is_empty() && !text.contains(&format!("fn {name}")) {
                return Err(name.to_owned());
            }
        }
    }
    Ok(())
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Markdown files.
fn documents() -> Vec<PathBuf> {
    FOLDERS.into_iter().flat_map(markdown).chain(chapters()).collect()
}

fn chapters() -> impl Iterator<Item = PathBuf> {
    markdown("src/guide").into_iter().filter(|file| !file.to_string_lossy().contains("/guide/links"))
}

/// The Markdown files in a folder of the repository.
fn markdown(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let files: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    assert!(!files.is_empty(), "no Markdown in {folder}");
    files
}

/// The sources, without what is built from them.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            files.push(path);
        } else if !path.ends_with("target") {
            files.extend(files_below(&path));
        }
    }
    files
}

/// What stands between `](` and `)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// What stands in `[label]: target` at the beginning of a line.
fn definitions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
}

/// What a file shows as code: each line of a block, and what stands between backticks, also over a line break.
fn codes(file: &Path) -> Vec<(PathBuf, String)> {
    let text = fs::read_to_string(file).unwrap();
    let mut codes = Vec::new();
    for (index, part) in text.split("```").enumerate() {
        if index % 2 == 1 {
            codes.extend(part.lines().skip(1).map(str::to_owned));
        } else {
            let spans = part.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
            codes.extend(spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    codes.into_iter().map(|code| (file.to_owned(), code)).collect()
}
