//! `result.json` for people: `report.html` for a browser, `report.md` for a pull request, `summary.csv` for a spreadsheet.
//!
//! It decides nothing: figures and verdicts are in the result, and a report can be written again from it at any time.
//! [`write()`] makes the files, [`serve`] shows them while a run goes on. [`html`] is the page, panel by panel;
//! `reader` reads results, `import` makes one of a single load, fortio's too.
//! `words`, `group` and `compared` are what all three forms say alike; `axis`, `frame` and `svg` draw.

mod axis;
mod chart;
mod compared;
mod csv;
mod family;
mod forest;
mod frame;
mod group;
mod html;
mod import;
mod logs;
mod markdown;
mod reader;
pub mod serve;
mod svg;
mod versus;
mod words;

use crate::result::Campaign;
use anyhow::{Context as _, Result};
pub(crate) use forest::Row;
use leno_runtime::file::write_durably;
use logs::Logs;
pub(crate) use reader::{Unreadable, parse};
use std::fs;
use std::path::{Path, PathBuf};
pub(crate) use versus::{Versus, page as versus_page};

/// The result itself, beside which all else is written.
pub const RESULT: &str = "result.json";
const HTML: &str = "report.html";
const MARKDOWN: &str = "report.md";
const CSV: &str = "summary.csv";

/// Writes `report.html`, `report.md` and `summary.csv` into the directory, each whole or not at all.
///
/// # Errors
/// The directory cannot be written.
pub fn write(campaign: &Campaign, directory: &Path) -> Result<Vec<PathBuf>> {
    let files = [
        (HTML, html::page(campaign, &Logs::beside(directory), "")),
        (MARKDOWN, markdown::report(campaign)),
        (CSV, csv::summary(campaign)),
    ];
    files
        .into_iter()
        .map(|(name, text)| {
            let path = directory.join(name);
            write_durably(&path, text.as_bytes(), 0o644)
                .with_context(|| format!("write {}", path.display()))?;
            Ok(path)
        })
        .collect()
}

/// Reads a result: its file, or the directory that has it.
///
/// # Errors
/// There is none, or it is not a result of a version that is known here.
pub fn read(path: &Path) -> Result<Campaign> {
    let file = file(path);
    let text = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
    parse(&text).with_context(|| file.display().to_string())
}

/// Reads the result at `path` (a file or its directory) and writes its reports beside it.
///
/// One load (`leno bench load --json`, or what fortio wrote) becomes a result with one repetition, in a directory that
/// has the file's name without its end.
///
/// # Errors
/// As of [`read`] and [`write()`].
pub fn again(path: &Path) -> Result<Vec<PathBuf>> {
    let file = file(path);
    let text = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
    let beside = file.parent().unwrap_or(Path::new("."));
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let import = import::campaign(&text, &name)
        .with_context(|| format!("{} is not a load", file.display()))?;
    let Some(campaign) = import else {
        let campaign = parse(&text).with_context(|| file.display().to_string())?;
        return write(&campaign, beside);
    };
    let directory = beside.join(&name);
    fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
    let result = directory.join(RESULT);
    write_durably(&result, serde_json::to_string(&campaign)?.as_bytes(), 0o644)?;
    let mut written = vec![result];
    written.extend(write(&campaign, &directory)?);
    Ok(written)
}

fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(RESULT) } else { path.to_owned() }
}
