//! `leno logs`: reads the files that `leno up` writes.

use crate::args::Logs;
use crate::output;
use anyhow::{Context, bail};
use leno_up::state::Paths;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How soon new lines are shown.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) fn run(state: &Path, logs: &Logs) -> anyhow::Result<()> {
    let pod = super::find_pod(state, &logs.pod)?;
    let paths = Paths::new(state);
    let names: Vec<String> = match (&logs.container, logs.proxy) {
        (_, true) => vec!["leno-proxy".to_owned()],
        (Some(name), _) => vec![name.clone()],
        _ => pod.containers.iter().map(|container| container.name.clone()).collect(),
    };
    let known =
        |name: &String| name == "leno-proxy" || pod.containers.iter().any(|c| c.name == *name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        bail!("pod {} has no container {unknown:?}", pod.name);
    }
    let several = names.len() > 1;
    let mut files: Vec<Followed> = names
        .iter()
        .map(|name| Followed {
            path: paths.log(&pod.namespace, &pod.name, name),
            prefix: if several { format!("{name} | ") } else { String::new() },
            open: None,
            rest: String::new(),
        })
        .collect();
    loop {
        for file in &mut files {
            file.print_new()?;
        }
        if !logs.follow {
            return Ok(());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// A log as far as it was printed.
struct Followed {
    path: PathBuf,
    prefix: String,
    open: Option<(File, u64)>,
    rest: String,
}

impl Followed {
    fn print_new(&mut self) -> anyhow::Result<()> {
        let Ok(now) = std::fs::metadata(&self.path) else { return Ok(()) };
        let put_aside =
            |(file, _): &(File, u64)| file.metadata().is_ok_and(|own| own.ino() != now.ino());
        if self.open.as_ref().is_none_or(put_aside) {
            if let Some(mut before) = self.open.take() {
                self.print_from(&mut before)?;
            } else if let Ok(older) = File::open(self.path.with_extension("log.1")) {
                self.print_from(&mut (older, 0))?;
            }
            let file = File::open(&self.path).with_context(|| self.path.display().to_string())?;
            self.open = Some((file, 0));
        }
        if let Some(mut open) = self.open.take() {
            self.print_from(&mut open)?;
            self.open = Some(open);
        }
        Ok(())
    }

    fn print_from(&mut self, (file, offset): &mut (File, u64)) -> anyhow::Result<()> {
        file.seek(SeekFrom::Start(*offset))?;
        let mut bytes = Vec::new();
        *offset += file.read_to_end(&mut bytes)? as u64;
        self.rest.push_str(&String::from_utf8_lossy(&bytes));
        let mut shown = String::new();
        while let Some(end) = self.rest.find('\n') {
            shown.push_str(&self.prefix);
            shown.push_str(&self.rest[..=end]);
            self.rest.drain(..=end);
        }
        Ok(output::print(&shown)?)
    }
}
