//! The relative links of the Markdown files lead to files that exist.

use std::fs;
use std::path::{Path, PathBuf};

/// The Markdown files in these folders; where the crate is unpacked without one of them, not those.
const FOLDERS: [&str; 3] = ["", "docs", "fuzz"];

#[test]
fn relative_links_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files: Vec<_> = FOLDERS.iter().flat_map(|folder| markdown(&root.join(folder))).collect();
    assert!(files.contains(&root.join("README.md")), "{files:?}");
    let mut broken = Vec::new();
    for file in files {
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

/// The chapters of the guide are shown on docs.rs, where there are no files: they link to items and to sites only.
#[test]
fn the_guide_links_to_no_files() {
    for file in markdown(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide")) {
        for target in links(&fs::read_to_string(&file).unwrap()) {
            let is_file = !target.contains(':') && target.contains(['.', '/']);
            assert!(!is_file, "{}: {target}", file.display());
        }
    }
}

fn markdown(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// What stands between `](` and `)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}
