//! The commands of the documentation, as they are written there: "Start", and the tasks that need one machine.
//!
//! A comment before a code block marks it:
//!
//! - `<!-- test: run -->`: a shell runs the block, which ends with 0. `; prints "TEXT"` expects a text in its output, `; exits 0 or 2`
//!   another code.
//! - `<!-- test: until; prints "TEXT" -->`: the block is repeated until it prints the text.
//! - `<!-- test: file PATH -->`: the block is written to this file.
//! - `<!-- test: as in PATH -->`: each line of the block is a line of this document, whose commands another test runs.
//!
//! Where a block of output (```` ```text ````) follows a block that is run, its line of column headings is in the output.
//!
//! Each page has a folder, in which `examples` is the project's, and a mesh of its own.

use anyhow::{Context as _, Result, bail, ensure};
use leno_tests::binaries;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Far more than a block takes that has to be repeated.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq, Eq)]
enum Do {
    Run { codes: Vec<i32>, prints: Option<String> },
    Until { prints: String },
    File { path: String },
    AsIn { path: String },
}

#[derive(Debug)]
struct Block {
    line: usize,
    what: Do,
    text: String,
    /// Words of the headings in the output that the page shows.
    headings: Option<String>,
}

/// The marked blocks of a page.
fn blocks(page: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mark = line.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some(mark) = mark else { continue };
        let what = mark_of(mark).with_context(|| format!("line {}: {mark:?}", index + 1))?;
        let fence = lines.next().map_or("", |(_, line)| line);
        ensure!(fence.starts_with("```"), "line {}: no code block follows the mark", index + 1);
        let text = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        let text = text.map(|line| format!("{line}\n")).collect();
        let mut after = lines.clone().map(|(_, line)| line).skip_while(|line| line.is_empty());
        let shown = after.next().filter(|line| *line == "```text").and_then(|_| after.next());
        let headings = shown.filter(|line| is_headings(line)).map(spaced);
        blocks.push(Block { line: index + 1, what, text, headings });
    }
    Ok(blocks)
}

/// Names of columns: `SEEN BY  DIRECTION  LATENCY_P50`.
fn is_headings(line: &str) -> bool {
    let is_letter =
        |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || ['_', ' ', '/'].contains(&c);
    line.contains("  ") && line.chars().all(is_letter)
}

/// With one blank between words: widths of columns differ from run to run.
fn spaced(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn mark_of(mark: &str) -> Result<Do> {
    if let Some(path) = mark.strip_prefix("file ") {
        return Ok(Do::File { path: path.to_owned() });
    }
    if let Some(path) = mark.strip_prefix("as in ") {
        return Ok(Do::AsIn { path: path.to_owned() });
    }
    let mut parts = mark.split("; ");
    let verb = parts.next();
    let (mut codes, mut prints) = (vec![0], None);
    for part in parts {
        if let Some(text) = part.strip_prefix("prints \"").and_then(|rest| rest.strip_suffix('"')) {
            prints = Some(text.replace("\\\"", "\""));
        } else if let Some(list) = part.strip_prefix("exits ") {
            codes = list.split(" or ").map(str::parse).collect::<Result<_, _>>()?;
        } else {
            bail!("{part:?} is not a known condition");
        }
    }
    match (verb, prints) {
        (Some("run"), prints) => Ok(Do::Run { codes, prints }),
        (Some("until"), Some(prints)) => Ok(Do::Until { prints }),
        (verb, _) => bail!("{verb:?} is not run, until (with prints) or file"),
    }
}

fn project() -> Result<PathBuf> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?)
}

/// A folder to type in, and the mesh that is started there.
struct Shell {
    place: tempfile::TempDir,
    leno: PathBuf,
}

impl Shell {
    fn new(page: &str) -> Result<Self> {
        let place = binaries::scratch(&page.replace('/', "-"))?;
        std::os::unix::fs::symlink(project()?.join("examples"), place.path().join("examples"))?;
        let leno = binaries::find("leno")?;
        Ok(Self { place, leno })
    }

    fn state(&self) -> PathBuf {
        self.place.path().join("state")
    }

    /// Exit code and output of a script.
    fn run(&self, script: &str) -> Result<(Option<i32>, String)> {
        let programs = self.leno.parent().context("programs have a folder")?;
        let output = Command::new("bash")
            .args(["-e", "-o", "pipefail", "-c"])
            .arg(format!("exec 2>&1\nPATH=\"$PROGRAMS:$PATH\"\n{script}"))
            .current_dir(self.place.path())
            .env("PROGRAMS", programs)
            .env("LENO_STATE_DIR", self.state())
            .stdin(std::process::Stdio::null())
            .output()?;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    fn block(&self, Block { what, text, headings, .. }: &Block) -> Result<()> {
        match what {
            Do::File { path } => {
                let path = self.place.path().join(path);
                std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
                std::fs::write(path, text)?;
            }
            Do::AsIn { path } => {
                let there = std::fs::read_to_string(project()?.join(path))?;
                // A comment after a command explains it.
                let there: Vec<&str> =
                    there.lines().map(|line| line.split("  ").next().unwrap_or(line)).collect();
                for line in text.lines() {
                    ensure!(there.contains(&line), "{line:?} is not a line of {path}");
                }
            }
            Do::Run { codes, prints } => {
                let (code, said) = self.run(text)?;
                ensure!(
                    code.is_some_and(|code| codes.contains(&code)),
                    "exit code {code:?}:\n{said}"
                );
                let expected = prints.as_deref().unwrap_or_default();
                ensure!(said.contains(expected), "{expected:?} is not in the output:\n{said}");
                if let Some(headings) = headings {
                    ensure!(
                        said.lines().any(|line| spaced(line) == *headings),
                        "the headings {headings:?} are not in the output:\n{said}"
                    );
                }
            }
            Do::Until { prints } => {
                let began = Instant::now();
                while let (_, said) = self.run(text)?
                    && !said.contains(prints)
                {
                    ensure!(began.elapsed() < PATIENCE, "{prints:?} is not in the output:\n{said}");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Shell {
    /// A page that failed has left its mesh in the background.
    fn drop(&mut self) {
        if self.state().exists() {
            let mut down = Command::new(&self.leno);
            drop(down.arg("--state-dir").arg(self.state()).arg("down").output());
        }
    }
}

#[track_caller]
fn check(page: &str) {
    binaries::require_root().expect("root");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = std::fs::read_to_string(&path).expect("a page");
    let blocks = blocks(&text).unwrap_or_else(|error| panic!("docs/{page}: {error:#}"));
    assert!(!blocks.is_empty(), "docs/{page} has no marked block");
    let shell = Shell::new(page).expect("a folder");
    for block in &blocks {
        if let Err(error) = shell.block(block) {
            panic!("docs/{page}:{}: {error:#}\n\nThe block:\n{}", block.line, block.text);
        }
    }
    assert!(!shell.state().exists(), "docs/{page} does not end its mesh");
}

/// A test for each page.
macro_rules! pages {
    ($($name:ident: $page:literal;)+) => {
        const PAGES: &[&str] = &[$($page),+];
        $(#[test]
        fn $name() {
            check($page);
        })+
    };
}

pages! {
    start_on_a_laptop: "start/laptop.md";
    start_on_a_cluster: "start/cluster.md";
    benchmark_a_mesh: "tasks/benchmark-a-mesh.md";
    benchmark_a_service: "tasks/benchmark-a-service.md";
    canary: "tasks/canary.md";
    debug_502_503: "tasks/debug-502-503.md";
    default_deny: "tasks/default-deny.md";
    mesh_an_application: "tasks/mesh-an-application.md";
    rotate_a_root: "tasks/rotate-a-root.md";
    slow_call: "tasks/slow-call.md";
    upgrade: "tasks/upgrade.md";
}

#[test]
fn every_page_with_marks_is_run() {
    let docs = project().expect("the project").join("docs");
    let (mut folders, mut marked) = (vec![docs.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read_to_string(&path)
                .is_ok_and(|text| text.contains("\n<!-- test: "))
            {
                let page = path.strip_prefix(&docs).expect("below docs");
                marked.push(page.to_string_lossy().into_owned());
            }
        }
    }
    marked.sort();
    let mut run = PAGES.to_vec();
    run.sort_unstable();
    assert_eq!(marked, run);
}

#[test]
fn marks_are_read() {
    let page = "text\n<!-- test: run; exits 0 or 2; prints \"a \\\"b\\\"\" -->\n```sh\nx\ny\n```\n\n```text\nA  B_C\n```\n\
        <!-- test: file a/b.yaml -->\n```yaml\nz\n```\n```sh\nnot marked\n```\n";
    let found = blocks(page).expect("two blocks");
    let seen: Vec<String> = found.iter().map(|block| format!("{block:?}")).collect();
    assert_eq!(
        seen,
        [
            r#"Block { line: 2, what: Run { codes: [0, 2], prints: Some("a \"b\"") }, text: "x\ny\n", headings: Some("A B_C") }"#,
            r#"Block { line: 11, what: File { path: "a/b.yaml" }, text: "z\n", headings: None }"#,
        ]
    );
    for wrong in ["until", "run; print \"x\"", "walk", "run; exits now"] {
        let page = format!("<!-- test: {wrong} -->\n```\n```\n");
        assert!(blocks(&page).is_err(), "{wrong}");
    }
    assert!(blocks("<!-- test: run -->\n\n```\n```\n").is_err());
}
