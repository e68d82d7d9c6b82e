//! Import circles: files of a crate that use each other in a loop.
//!
//! A file uses another one where a path of it, in a `use` or in the code, ends at an item of the other: re-exports are followed to the file that
//! has the item. A path that ends at a module takes nothing from its file. A part of a file (`a/b.rs` of `a.rs`) may use what the file has for
//! all of its parts. Tests are left out.

use crate::rust::{Kind, Token, tokens, without_tests};
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Files that use each other in a loop, and what each takes from the others: user, used, names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Circle {
    pub(super) files: BTreeSet<String>,
    pub(super) uses: Vec<(String, String, Vec<String>)>,
}

/// The circles that stand today, each with its reason. The list can only become shorter: a file that is in no circle any more has to go.
const STANDING: &str = "xtask/circles.toml";

/// [`STANDING`], read.
pub(super) struct Standing(Vec<(BTreeSet<String>, String)>);

impl Standing {
    pub(super) fn read() -> Result<Self> {
        Self::parse(&fs::read_to_string(STANDING).context(STANDING)?).context(STANDING)
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let mut entries = Vec::new();
        for entry in table.get("circle").and_then(toml::Value::as_array).into_iter().flatten() {
            let files = entry.get("files").and_then(toml::Value::as_array).context("files")?;
            let files = files.iter().filter_map(toml::Value::as_str).map(str::to_owned);
            let reason = entry.get("reason").and_then(toml::Value::as_str).unwrap_or_default();
            entries.push((files.collect(), reason.to_owned()));
        }
        Ok(Self(entries))
    }

    /// Adds circles without an entry, and entries that are not needed.
    pub(super) fn compare(&self, found: &[Circle], wrong: &mut Vec<String>) {
        for circle in found {
            if !self.0.iter().any(|(files, _)| circle.files.is_subset(files)) {
                wrong.push(circle.shown());
            }
        }
        for (files, reason) in &self.0 {
            let first = files.first().map_or("an entry without files", String::as_str);
            if reason.split_whitespace().count() < 4 {
                wrong.push(format!("{STANDING}: the circle of {first} needs a reason"));
            }
            let covered = found.iter().filter(|circle| circle.files.is_subset(files));
            let needed: BTreeSet<&String> = covered.flat_map(|circle| &circle.files).collect();
            for file in files.iter().filter(|file| !needed.contains(file)) {
                wrong.push(format!("{STANDING}: {file} is in no circle any more; remove it"));
            }
        }
    }
}

impl Circle {
    fn shown(&self) -> String {
        let uses = self
            .uses
            .iter()
            .map(|(user, used, names)| format!("\n    {user} uses {} of {used}", names.join(", ")));
        let uses: String = uses.collect();
        format!("import circle of {} files:{uses}", self.files.len())
    }
}

/// The circles of all crates, with paths from the project's folder.
pub(super) fn of_all(roots: Vec<PathBuf>) -> Result<Vec<Circle>> {
    let project = std::env::current_dir()?;
    let mut found = Vec::new();
    for root in roots {
        let root = root.strip_prefix(&project).unwrap_or(&root);
        found.extend(of(root).with_context(|| root.display().to_string())?);
    }
    Ok(found)
}

/// The circles below a crate's root file, such as `crates/model/src/lib.rs`.
fn of(root: &Path) -> io::Result<Vec<Circle>> {
    let mut house = House::default();
    house.read(root, &[])?;
    Ok(circles(&house.uses()))
}

/// A module by its names from the root.
type Module = Vec<String>;
/// Which file uses which, with the names that it takes.
type Uses = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// All modules of a crate.
#[derive(Default)]
struct House {
    rooms: BTreeMap<Module, Room>,
}

/// What one module has.
#[derive(Default)]
struct Room {
    file: String,
    children: BTreeSet<String>,
    defined: BTreeSet<String>,
    /// By the name that it has here: the path that a `use` gives it.
    imported: BTreeMap<String, Vec<String>>,
    /// Paths whose every item is imported.
    globs: Vec<Vec<String>>,
    /// Every path that the module writes, those of its `use` among them.
    paths: Vec<Vec<String>>,
}

impl House {
    /// Reads a file and the files of its modules. Modules whose file is elsewhere (`#[path]`) belong to tests here.
    fn read(&mut self, path: &Path, module: &[String]) -> io::Result<()> {
        let source = fs::read_to_string(path)?;
        let code = tokens(&source);
        let code: Vec<Token<'_>> = without_tests(&code)
            .into_iter()
            .filter(|token| !matches!(token.kind, Kind::Comment | Kind::Documentation))
            .collect();
        let file = path.to_string_lossy().into_owned();
        let mut reader = Reader { code: &code, at: 0, file, outside: Vec::new() };
        reader.module(module.to_vec(), &mut self.rooms);
        let folder = folder(path);
        for child in reader.outside {
            let names = child.last().map_or("", String::as_str);
            // A module inside of braces has its files in a folder of its name.
            let place = child[module.len()..child.len() - 1]
                .iter()
                .fold(folder.clone(), |place, name| place.join(name));
            let places = [place.join(format!("{names}.rs")), place.join(names).join("mod.rs")];
            if let Some(file) = places.iter().find(|place| place.exists()) {
                self.read(file, &child)?;
            }
        }
        Ok(())
    }

    fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (module, room) in &self.rooms {
            for path in &room.paths {
                let Some((place, name)) = self.resolve(module, path, 16) else { continue };
                let file = &self.rooms[&place].file;
                // A part may use what its whole has for all parts: `a/b.rs` uses `a.rs`.
                if *file != room.file && !module.starts_with(&place) {
                    let of = uses.entry(room.file.clone()).or_default();
                    of.entry(file.clone()).or_default().insert(name);
                }
            }
        }
        uses
    }

    /// The module that has the item at the end of a path, and the item's name. Nothing for modules and other crates' items.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<(Module, String)> {
        let mut place = from.to_vec();
        let mut rest = path;
        let mut began = false;
        while let Some((name, after)) = rest.split_first() {
            match name.as_str() {
                "crate" => place.clear(),
                "self" => {}
                "super" => drop(place.pop()?),
                name => return self.look(&place, name, after, !began, depth.checked_sub(1)?),
            }
            began = true;
            rest = after;
        }
        None
    }

    /// From a module on by one name. `bare`: nothing stood before it, so it may be of another crate.
    fn look(
        &self,
        place: &[String],
        name: &str,
        after: &[String],
        bare: bool,
        depth: usize,
    ) -> Option<(Module, String)> {
        let room = self.rooms.get(place)?;
        if room.children.contains(name) {
            let (next, after) = after.split_first()?;
            let child = [place, &[name.to_owned()]].concat();
            return self.look(&child, next, after, false, depth);
        }
        if !room.defined.contains(name) {
            if let Some(path) = room.imported.get(name) {
                let path = [path, after].concat();
                // `use name::…` and `name` of the same place are one path, which would be looked for forever.
                let depth = if path.first().is_some_and(|first| first == name) {
                    1.min(depth)
                } else {
                    depth
                };
                return self.resolve(place, &path, depth);
            }
            let globbed = room.globs.iter().find_map(|glob| {
                let path = [glob, &[name.to_owned()][..], after].concat();
                self.resolve(place, &path, depth.checked_sub(1)?)
            });
            if globbed.is_some() || bare {
                return globbed;
            }
        }
        Some((place.to_vec(), name.to_owned())).filter(|_| !bare)
    }
}

/// Where the files of a file's modules are.
fn folder(path: &Path) -> PathBuf {
    let directory = path.parent().unwrap_or(Path::new("")).to_owned();
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") | None => directory,
        Some(stem) => directory.join(stem),
    }
}

/// Reads the tokens of one file.
struct Reader<'a> {
    code: &'a [Token<'a>],
    at: usize,
    file: String,
    /// Modules with files of their own.
    outside: Vec<Module>,
}

impl<'a> Reader<'a> {
    fn peek(&self, ahead: usize) -> &'a str {
        let token = self.code.get(self.at + ahead);
        token.filter(|token| token.kind != Kind::Text).map_or("", |token| token.text)
    }

    fn is_word(&self) -> bool {
        self.code.get(self.at).is_some_and(|token| token.kind == Kind::Word)
    }

    /// Reads up to the brace that closes the module, or to the end of the file.
    fn module(&mut self, module: Module, rooms: &mut BTreeMap<Module, Room>) {
        let mut room = Room { file: self.file.clone(), ..Room::default() };
        let mut depth = 0_usize;
        while self.at < self.code.len() {
            match self.peek(0) {
                "mod" if matches!(self.peek(2), ";" | "{") => {
                    let child = [&module[..], &[self.peek(1).to_owned()]].concat();
                    room.children.insert(self.peek(1).to_owned());
                    let inside = self.peek(2) == "{";
                    self.at += 3;
                    if inside {
                        self.module(child, rooms);
                    } else {
                        self.outside.push(child);
                    }
                    continue;
                }
                "use" => {
                    self.at += 1;
                    self.tree(&[], &mut room);
                    continue;
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
                    if depth == 0 =>
                {
                    let name = if self.peek(1) == "mut" { self.peek(2) } else { self.peek(1) };
                    room.defined.insert(name.to_owned());
                }
                "{" => depth += 1,
                "}" if depth == 0 => {
                    self.at += 1;
                    break;
                }
                "}" => depth -= 1,
                _ => {}
            }
            if self.is_word() && self.peek(1) == "::" && !self.continues() {
                let path = self.path();
                room.paths.push(path);
            } else {
                self.at += 1;
            }
        }
        rooms.insert(module, room);
    }

    /// Whether what stands here belongs to something before it: `::std`, `value.method::<T>`.
    fn continues(&self) -> bool {
        let before = self.at.checked_sub(1).map(|before| self.code[before].text);
        matches!(before, Some("::" | "."))
    }

    fn path(&mut self) -> Vec<String> {
        let mut path = vec![self.peek(0).to_owned()];
        self.at += 1;
        while self.peek(0) == "::" {
            self.at += 1;
            if !self.is_word() {
                break;
            }
            path.push(self.peek(0).to_owned());
            self.at += 1;
        }
        path
    }

    /// The rest of a `use`, below what its braces share.
    fn tree(&mut self, above: &[String], room: &mut Room) {
        let mut path = above.to_vec();
        if self.peek(0) == "::" && above.is_empty() {
            // Of another crate, whatever modules there are here.
            path.push("::".to_owned());
            self.at += 1;
        }
        loop {
            match self.peek(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(0), "}" | "") {
                        self.tree(&path, room);
                        if self.peek(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    room.globs.push(path);
                    return;
                }
                "::" => self.at += 1,
                _ if self.is_word() => {
                    path.push(self.peek(0).to_owned());
                    self.at += 1;
                    if self.peek(0) != "::" {
                        break;
                    }
                }
                _ => return,
            }
        }
        if path.last().is_some_and(|last| last == "self") && !above.is_empty() {
            path.pop();
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.peek(0) == "as" {
            name = self.peek(1).to_owned();
            self.at += 2;
        }
        room.imported.insert(name, path.clone());
        room.paths.push(path);
    }
}

/// Groups of files of which each reaches each other one.
fn circles(uses: &Uses) -> Vec<Circle> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|file| (file, reach(uses, file))).collect();
    let mut groups: BTreeSet<BTreeSet<&String>> = BTreeSet::new();
    for (file, targets) in &reached {
        let circle: BTreeSet<&String> = targets
            .iter()
            .filter(|target| reached.get(*target).is_some_and(|back| back.contains(file)))
            .copied()
            .collect();
        if circle.contains(file) {
            groups.insert(circle);
        }
    }
    let circle = |group: BTreeSet<&String>| {
        let mut inside = Vec::new();
        for user in &group {
            for (used, names) in uses.get(*user).into_iter().flatten() {
                if group.contains(used) {
                    inside.push(((*user).clone(), used.clone(), names.iter().cloned().collect()));
                }
            }
        }
        Circle { files: group.into_iter().cloned().collect(), uses: inside }
    };
    groups.into_iter().map(circle).collect()
}

fn reach<'a>(uses: &'a Uses, from: &String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = uses.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(file) = open.pop() {
        if found.insert(file) {
            open.extend(uses.get(file).into_iter().flat_map(BTreeMap::keys));
        }
    }
    found
}

#[cfg(test)]
mod tests;
