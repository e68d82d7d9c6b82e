//! `leno bench serve`: past results and running ones, in a browser.
//!
//! An ordinary small server for one person on this machine: it only reads, unless loads on demand are enabled. A name in a path is one plain component and the file behind it lies within the results, or there is nothing at
//! that path.

use super::html::{self, POLICY};
use super::logs::Logs;
use super::svg::escape;
use super::{RESULT, Unreadable, parse, words};
use crate::compare;
use crate::load::rest;
use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use leno_runtime::page_server;
use serde::Deserialize;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// Bytes of what is asked of a load.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// A run that has written nothing for so long may have been killed: repetitions of the longest study take less.
const STALE: Duration = Duration::from_secs(3_600);
/// A larger file is not a result.
const HEAD_BYTES_MAX: u64 = 1 << 30;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Route<'a> {
    /// All results.
    List,
    /// What changes when the list does.
    ListVersion,
    /// One result's page, made from its `result.json` as it is now.
    Page(&'a str),
    /// The same without the slash that relative links need.
    Slash(&'a str),
    /// What changes when the result does.
    Version(&'a str),
    /// A file of the result.
    File(&'a str, &'a str),
    /// The first result against the second, which was before it.
    Against(&'a str, &'a str),
}

/// Serves the results below `directory` on `address` until a signal ends it; `listening` is told where. With `makes_loads`
/// it makes loads, too, for whoever asks in the words of [`rest`].
///
/// # Errors
/// The directory is not there, or the port is taken.
pub fn run(
    directory: &Path,
    address: SocketAddr,
    makes_loads: bool,
    listening: impl FnOnce(SocketAddr),
) -> Result<()> {
    let root = fs::canonicalize(directory)
        .with_context(|| format!("no results in {}", directory.display()))?;
    if !root.is_dir() {
        bail!("{} is not a directory", root.display());
    }
    let runs = makes_loads.then(rest::Runs::default);
    let site = Site { root, runs, loopback: address.ip().is_loopback() };
    let served = async |site: Rc<Site>, request| site.answer(request).await;
    page_server::run(address, site, served, listening)
        .with_context(|| format!("listen on {address}"))
}

/// Where the results are, canonical, and whether only this machine can ask.
struct Site {
    root: PathBuf,
    /// Where loads are made on demand.
    runs: Option<rest::Runs>,
    loopback: bool,
}

impl Site {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        // A page elsewhere could give its own name the address 127.0.0.1 and read what is here.
        if self.loopback && !host.is_some_and(page_server::is_loopback_host) {
            return text(
                StatusCode::MISDIRECTED_REQUEST,
                "this server answers to localhost only\n",
            );
        }
        if let Some(runs) = &self.runs
            && let Some(path) = request.uri().path().strip_prefix(rest::PREFIX)
        {
            let path = path.to_owned();
            return load(runs, &path, request).await;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        route(request.uri().path())
            .and_then(|route| self.find(&route))
            .unwrap_or_else(|| text(StatusCode::NOT_FOUND, "not found\n"))
    }

    fn find(&self, route: &Route<'_>) -> Option<Response<Full<Bytes>>> {
        match route {
            Route::List => Some(self.list()),
            Route::ListVersion => Some(text(StatusCode::OK, &list_version(&self.places()))),
            Route::Slash(name) => {
                self.within(name, RESULT)?;
                let mut moved = text(StatusCode::PERMANENT_REDIRECT, "");
                moved
                    .headers_mut()
                    .insert(header::LOCATION, HeaderValue::from_str(&format!("/{name}/")).ok()?);
                Some(moved)
            }
            Route::Page(name) => Some(self.page(&self.within(name, RESULT)?)),
            Route::Version(name) => {
                Some(text(StatusCode::OK, &version(&self.within(name, RESULT)?)))
            }
            Route::Against(name, before) => {
                Some(self.against(&self.within(name, RESULT)?, &self.within(before, RESULT)?))
            }
            Route::File(name, file) => {
                let kind = kind(file)?;
                let bytes = fs::read(self.within(name, file)?).ok()?;
                Some(typed(StatusCode::OK, bytes, kind))
            }
        }
    }

    /// The file of a result, where it really is within the results: a link that leads out leads nowhere.
    fn within(&self, name: &str, file: &str) -> Option<PathBuf> {
        let path = fs::canonicalize(self.root.join(name).join(file)).ok()?;
        (path.starts_with(&self.root) && path.is_file()).then_some(path)
    }

    fn page(&self, result: &Path) -> Response<Full<Bytes>> {
        // The version first: a change in between is then seen as news, not missed.
        let version = version(result);
        let read = || -> Result<_> { Ok(parse(&fs::read(result)?)?) };
        match read() {
            Ok(campaign) => {
                let logs = Logs::beside(result.parent().unwrap_or(&self.root));
                page(html::page(&campaign, &logs, &version))
            }
            Err(error) => unreadable(&error),
        }
    }

    /// What changed from one result to another.
    fn against(&self, result: &Path, before: &Path) -> Response<Full<Bytes>> {
        let read = |path: &Path| super::read(path);
        match read(before).and_then(|before| Ok((before, read(result)?))) {
            Ok((before, after)) => page(compare::compare(&before, &after, 0.0).html()),
            Err(error) => unreadable(&error),
        }
    }

    /// Directories that have a result, the newest first, with what changes when it does.
    fn places(&self) -> Vec<(String, PathBuf, String)> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut places: Vec<_> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok().filter(|name| is_plain(name))?;
                let path = self.within(&name, RESULT)?;
                let version = version(&path);
                Some((name, path, version))
            })
            .collect();
        places.sort_by(|a, b| b.0.cmp(&a.0));
        places
    }

    fn list(&self) -> Response<Full<Bytes>> {
        let places = self.places();
        let heads: Vec<Head> = places.iter().map(|(_, path, _)| Head::read(path)).collect();
        let row = |(index, (name, path, _)): (usize, &(String, PathBuf, String))| {
            let head = &heads[index];
            let same = |other: &usize| {
                !head.scenario.id.is_empty() && heads[*other].scenario.id == head.scenario.id
            };
            let before = (index + 1..heads.len()).find(same).map(|other| places[other].0.as_str());
            list_row(name, head, age(path), before)
        };
        let rows: String = places.iter().enumerate().map(row).collect();
        let body = if rows.is_empty() {
            "<p>No results yet: <code>leno bench run</code> makes one.</p>".to_owned()
        } else {
            format!(
                "<div class=\"scroll\"><table><thead><tr><th>result</th><th>verdict</th><th>scenario</th><th>meshes</th>\
                 <th class=\"n\">repetitions</th><th class=\"n\">written</th><th></th></tr></thead><tbody>{rows}</tbody></table></div>"
            )
        };
        let body = format!(
            "<header><div class=\"bar\"><span class=\"product\">leno bench</span><span class=\"scenario\">results</span>\
             <button type=\"button\" id=\"theme\" title=\"light or dark\">◐</button></div></header><section>{body}</section>"
        );
        // The list is always watched: a run may begin at any time.
        page(html::document("leno bench · results", &body, &list_version(&places), true))
    }
}

/// One result of the list; `before` is the last one of the same scenario.
fn list_row(name: &str, head: &Head, age: Option<Duration>, before: Option<&str>) -> String {
    let verdict = if head.state == "running" { "running" } else { head.verdict.as_str() };
    let class = match verdict {
        "pass" | "fail" | "invalid" | "running" => verdict,
        _ => "none",
    };
    // A run that was killed says for ever that it goes on.
    let stale = verdict == "running" && age.is_some_and(|age| age > STALE);
    let mut meshes: Vec<&str> = Vec::new();
    for cell in &head.cells {
        if !meshes.contains(&cell.mesh.as_str()) {
            meshes.push(&cell.mesh);
        }
    }
    meshes.sort_by_key(|mesh| words::place(mesh));
    let meshes: Vec<String> = meshes.iter().map(|mesh| words::mesh(mesh)).collect();
    let (all, valid) = head
        .cells
        .iter()
        .flat_map(|cell| &cell.runs)
        .fold((0, 0), |(all, valid), run| (all + 1, valid + u32::from(run.valid)));
    let against = before.map_or_else(String::new, |before| {
        format!(
            "<a href=\"/{}/against/{}\">against the one before</a>",
            escape(name),
            escape(before)
        )
    });
    format!(
        "<tr><td><a href=\"/{0}/\">{0}</a></td><td class=\"{class}\"><span class=\"badge\">{1}</span>{2}</td><td><b>{3}</b> {4}</td>\
         <td>{5}</td><td class=\"n\">{valid} of {all} valid</td><td class=\"n\">{6}</td><td>{against}</td></tr>",
        escape(name),
        escape(if verdict.is_empty() { "unreadable" } else { verdict }),
        if stale { " <small>or killed: nothing was written for long</small>" } else { "" },
        escape(&head.scenario.id),
        escape(&head.scenario.title),
        escape(&meshes.join(", ")),
        age.map_or_else(|| "–".to_owned(), ago),
    )
}

/// How long ago the file was written.
fn age(path: &Path) -> Option<Duration> {
    fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()
}

/// `3 min ago`.
fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// A result that is torn may be whole when it is asked for again; one of another version, or none at all, will not.
fn unreadable(error: &anyhow::Error) -> Response<Full<Bytes>> {
    let lasts = error.downcast_ref::<Unreadable>().is_some_and(|why| !why.may_pass());
    let (status, now) = match lasts {
        true => (StatusCode::INTERNAL_SERVER_ERROR, ""),
        false => (StatusCode::SERVICE_UNAVAILABLE, " now"),
    };
    text(status, &format!("this result cannot be read{now}: {error:#}\n"))
}

/// Answers who wants a load. A page in a browser that comes from elsewhere may not: its user does not know of it.
async fn load(runs: &rest::Runs, path: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let is_elsewhere = head.headers.contains_key(header::ORIGIN)
        || head.headers.get("sec-fetch-site").is_some_and(|site| site != "none");
    if is_elsewhere {
        return text(StatusCode::FORBIDDEN, "pages in a browser cannot start loads\n");
    }
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "the request is larger than 64 KiB\n");
    };
    let query = head.uri.query().unwrap_or_default();
    let reply = runs.answer(path, query, &body.to_bytes()).await;
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    typed(status, format!("{:#}\n", reply.body).into_bytes(), "application/json")
}

/// What the list shows of a result; the histograms are not decoded for it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    scenario: HeadScenario,
    state: String,
    verdict: String,
    cells: Vec<HeadCell>,
}

impl Head {
    /// What can be read of it: nothing of what is torn or foreign.
    fn read(path: &Path) -> Self {
        let known = fs::metadata(path).is_ok_and(|file| file.len() <= HEAD_BYTES_MAX);
        let text = if known { fs::read(path).unwrap_or_default() } else { Vec::new() };
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HeadCell {
    mesh: String,
    runs: Vec<HeadRun>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HeadRun {
    valid: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HeadScenario {
    id: String,
    title: String,
}

/// What a path asks for. Nothing is decoded: names that would need it are refused with all others.
fn route(path: &str) -> Option<Route<'_>> {
    let mut parts = path.strip_prefix('/')?.split('/');
    let route = match (parts.next()?, parts.next(), parts.next()) {
        ("", None, _) => Route::List,
        ("version", None, _) => Route::ListVersion,
        (name, None, _) => Route::Slash(name),
        (name, Some(""), None) => Route::Page(name),
        (name, Some("version"), None) => Route::Version(name),
        (name, Some(file), None) => Route::File(name, file),
        (name, Some("against"), Some(before)) if parts.next().is_none() => {
            Route::Against(name, before)
        }
        _ => return None,
    };
    let plain = match &route {
        Route::List | Route::ListVersion => true,
        Route::Page(name) | Route::Slash(name) | Route::Version(name) => is_plain(name),
        Route::File(name, other) | Route::Against(name, other) => is_plain(name) && is_plain(other),
    };
    plain.then_some(route)
}

/// Letters, digits and a few signs, and no dot in front: never `..`, never hidden.
fn is_plain(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+@,=".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(known)
}

/// The kinds of files that a result has; others are not shown.
fn kind(file: &str) -> Option<&'static str> {
    Some(match file.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "json" => "application/json",
        "csv" => "text/csv; charset=utf-8",
        "md" | "hlog" | "log" | "txt" | "yaml" => "text/plain; charset=utf-8",
        _ => return None,
    })
}

/// Changes whenever the file is written.
fn version(path: &Path) -> String {
    let Ok(known) = fs::metadata(path) else { return String::new() };
    let written =
        known.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    format!("{:x}-{:x}", written.unwrap_or_default().as_nanos(), known.len())
}

fn list_version(places: &[(String, PathBuf, String)]) -> String {
    let mut hasher = DefaultHasher::new();
    for (name, _, version) in places {
        (name, version).hash(&mut hasher);
    }
    format!("{:x}", hasher.finish())
}

fn page(html: String) -> Response<Full<Bytes>> {
    typed(StatusCode::OK, html.into_bytes(), "text/html; charset=utf-8")
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    typed(status, text.as_bytes().to_vec(), "text/plain; charset=utf-8")
}

fn typed(status: StatusCode, body: Vec<u8>, kind: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        check("/", Some(Route::List));
        check("/version", Some(Route::ListVersion));
        check("/2026-11-21T09-12-03-quick", Some(Route::Slash("2026-11-21T09-12-03-quick")));
        check("/a/", Some(Route::Page("a")));
        check("/a/version", Some(Route::Version("a")));
        check("/a/run1.hlog", Some(Route::File("a", "run1.hlog")));
        check("/a/against/b", Some(Route::Against("a", "b")));
        for refused in [
            "",
            "/..",
            "/../",
            "/../etc/passwd",
            "/a/..",
            "/a/.hidden",
            "/%2e%2e/x",
            "/a/b/c",
            "//",
            "/a//",
            "/a/b%2f.json",
            "/a\\b/",
            "/a/against/..",
            "/a/against/b/c",
        ] {
            check(refused, None);
        }
    }

    #[track_caller]
    fn check(path: &str, expected: Option<Route<'_>>) {
        assert_eq!(route(path), expected, "{path}");
    }

    #[test]
    fn a_link_that_leads_out_leads_nowhere() {
        let directory = tempfile::tempdir().expect("a directory");
        let (inside, outside) =
            (directory.path().join("results"), directory.path().join("secret.json"));
        fs::create_dir_all(inside.join("a")).expect("make it");
        fs::write(&outside, "{}").expect("write it");
        fs::write(inside.join("a/own.json"), "{}").expect("write it");
        std::os::unix::fs::symlink(&outside, inside.join("a/result.json")).expect("link it");
        let root = fs::canonicalize(&inside).expect("it is there");
        let site = Site { root, runs: None, loopback: true };
        assert!(site.within("a", "own.json").is_some());
        assert_eq!(site.within("a", "result.json"), None);
        assert_eq!(site.within("a", "none.json"), None);
    }

    #[test]
    fn what_is_torn_or_foreign_is_listed_and_breaks_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(directory.path()).expect("it is there");
        let torn = &br#"{"schema":"leno-bench/result/v1","cells":[{"mesh":"none""#[..];
        let other = &br#"{"schema":"leno-bench/result/v9","verdict":"<b>","state":"finished"}"#[..];
        // Only what may be whole a moment later is to be asked for again.
        let (again, never) = (StatusCode::SERVICE_UNAVAILABLE, StatusCode::INTERNAL_SERVER_ERROR);
        let files: [(&str, &[u8], StatusCode); 5] = [
            ("torn", torn, again),
            ("empty", b"", again),
            ("binary", &[0xff, 0x00, 0x9f], again),
            ("foreign", br#"{"cells":7,"state":["x"]}"#, never),
            ("other", other, never),
        ];
        for (name, bytes, _) in files {
            fs::create_dir(root.join(name)).expect("made");
            fs::write(root.join(name).join(RESULT), bytes).expect("written");
        }
        // A directory in the place of the file, a directory without one, a file among the directories.
        fs::create_dir_all(root.join("odd").join(RESULT)).expect("made");
        fs::create_dir(root.join("bare")).expect("made");
        fs::write(root.join("notes.txt"), "mine").expect("written");
        let site = Site { root, runs: None, loopback: true };
        let names: Vec<String> = site.places().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["torn", "other", "foreign", "empty", "binary"]);
        assert_eq!(site.list().status(), StatusCode::OK);
        for (name, _, status) in files {
            let page = site.find(&Route::Page(name)).expect("it is there");
            assert_eq!(page.status(), status, "{name}");
            // The one before is read first.
            let against = site.find(&Route::Against("torn", name)).expect("they are there");
            assert_eq!(against.status(), status, "{name}");
        }
        for name in ["odd", "bare", "notes.txt", "none"] {
            assert!(site.find(&Route::Page(name)).is_none(), "{name}");
        }
    }

    #[test]
    fn a_row_says_what_is_known() {
        let head: Head = serde_json::from_str(
            r#"{"scenario":{"id":"quick"},"state":"running","cells":[{"mesh":"none","runs":[{"valid":true},{"valid":false}]},{"mesh":"leno"}]}"#,
        )
        .expect("it is JSON");
        let row = list_row("b", &head, Some(Duration::from_secs(200)), Some("a"));
        for part in ["no mesh, leno", "1 of 2 valid", "3 min ago", "/b/against/a", "running"] {
            assert!(row.contains(part), "{part}: {row}");
        }
        assert!(!row.contains("killed"));
        let row = list_row("b", &head, Some(STALE * 2), None);
        assert!(row.contains("or killed") && !row.contains("against"), "{row}");
        assert!(list_row("c", &Head::default(), None, None).contains("unreadable"));
    }
}
