//! One line per request, off by default.
//!
//! A data thread makes the line and puts it into a bounded queue; a thread of its own writes it out. Where the
//! reader of stdout is slower than we are, lines are dropped and counted, and no request waits.

use super::request_summary::{RequestSummary, milliseconds};
use super::shown_headers::{self, Name};
use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

/// `21/Nov/2026:09:05:01 +0000`
const APACHE_TIME: StaticFormatDescription =
    format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");
/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache's combined format, the client's identity in place of the user; then the ending and two durations in
    /// milliseconds: to the first byte of the response, and to its last; then the id of a denial, where there is one.
    Apache,
    /// One JSON object a line.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "apache" => Ok(Self::Apache),
            "json" => Ok(Self::Json),
            _ => Err(format!("access log {text:?} is not one of off, json, apache")),
        }
    }
}

/// Settings of the access log, where it is on.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub format: Format,
    /// Request headers in JSON lines.
    pub headers: Vec<Name>,
    /// Share of the requests that are logged, 0 to 1. Requests that failed are always logged.
    pub sampling: f64,
}

enum Message {
    Line(String),
    /// Flush, answer, end.
    Close(SyncSender<()>),
}

/// Takes records; cheap to clone, one per data thread.
#[derive(Clone, Debug)]
pub struct AccessLog {
    settings: Settings,
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl AccessLog {
    /// Starts the writing thread. At most `lines_max` lines wait; `dropped` counts the rest.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(
        settings: Settings,
        lines_max: usize,
        dropped: Arc<AtomicU64>,
        out: impl Write + Send + 'static,
    ) -> std::io::Result<Self> {
        let (queue, lines) = sync_channel(lines_max);
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_lines(&lines, BufWriter::new(out)))?;
        Ok(Self { settings, queue, dropped })
    }

    /// Request headers that its lines have.
    #[must_use]
    pub fn headers(&self) -> &[Name] {
        &self.settings.headers
    }

    /// Queues a line, or leaves the request out by `random`, which is from 0 to 1; never waits.
    pub fn write(&self, record: &RequestSummary<'_>, random: f64) {
        if random >= self.settings.sampling && !record.is_failure() {
            return;
        }
        match self.queue.try_send(Message::Line(line(&self.settings, record))) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until what is queued is written, at most so long; for the end of the process.
    pub fn finish(self, limit: Duration) {
        let (done, wait) = sync_channel(1);
        if self.queue.try_send(Message::Close(done)).is_ok() {
            let _ = wait.recv_timeout(limit);
        }
    }
}

/// Writes until it is closed or all senders are gone. After an error of standard output the lines are lost, and the proxy continues.
fn write_lines(queue: &Receiver<Message>, mut out: impl Write) {
    let mut next = queue.recv().ok();
    while let Some(message) = next {
        match message {
            Message::Line(line) => {
                let _ = out.write_all(line.as_bytes());
            }
            Message::Close(done) => {
                let _ = out.flush();
                let _ = done.send(());
                return;
            }
        }
        next = queue.try_recv().ok().or_else(|| {
            let _ = out.flush(); // Nothing waits: what is written can be seen.
            queue.recv().ok()
        });
    }
    let _ = out.flush();
}

/// The line, with its newline.
fn line(settings: &Settings, record: &RequestSummary<'_>) -> String {
    match settings.format {
        Format::Apache => apache(record),
        Format::Json => json(record, &settings.headers),
    }
}

fn apache(record: &RequestSummary<'_>) -> String {
    let mut line = String::with_capacity(256);
    let time = OffsetDateTime::from(record.began).format(APACHE_TIME).unwrap_or_default();
    let _ = write!(line, "{} - ", record.client.ip().to_canonical());
    quote_less(&mut line, record.client_id.as_bytes());
    let _ = write!(line, " [{time}] \"");
    escape(&mut line, record.method);
    line.push(' ');
    escape(&mut line, record.path);
    let _ = write!(line, " {}\" {} {} \"", record.version, record.status, record.response_bytes);
    quote_less(&mut line, record.referer);
    line.push_str("\" \"");
    quote_less(&mut line, record.user_agent);
    let _ = write!(
        line,
        "\" {} {:.3} {:.3}",
        record.ending.flag(),
        milliseconds(record.first_byte),
        milliseconds(record.total)
    );
    if let Some(id) = record.denial {
        let _ = write!(line, " {id}");
    }
    line.push('\n');
    line
}

/// `-` where there is nothing.
fn quote_less(line: &mut String, bytes: &[u8]) {
    if bytes.is_empty() {
        line.push('-');
    } else {
        escape(line, bytes);
    }
}

/// As Apache does: what would break the line, or is not printable ASCII, as `\xhh`.
fn escape(line: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'"' | b'\\' => {
                line.push('\\');
                line.push(char::from(*byte));
            }
            b' '..=b'~' => line.push(char::from(*byte)),
            _ => {
                let _ = write!(line, "\\x{byte:02x}");
            }
        }
    }
}

fn json(record: &RequestSummary<'_>, headers: &[Name]) -> String {
    let mut fields = record.fields();
    let mut put = |name: &str, bytes: &[u8]| {
        fields.insert(name.to_owned(), String::from_utf8_lossy(bytes).into());
    };
    put("uri", record.path);
    put("user_agent", record.user_agent);
    put("referer", record.referer);
    if !headers.is_empty() {
        fields.insert("headers".to_owned(), shown_headers::json(record.headers, headers));
    }
    let mut line = serde_json::Value::Object(fields).to_string();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::Ending;
    use crate::telemetry::request_summary::tests::summary;
    use leno_runtime::denial::DenialId;
    use std::sync::Mutex;

    fn settings(format: Format) -> Settings {
        Settings { format, headers: Vec::new(), sampling: 1.0 }
    }

    #[test]
    fn apache_lines() {
        let check = |record: &RequestSummary<'_>, expected: &str| {
            assert_eq!(line(&settings(Format::Apache), record), expected);
        };
        check(
            &summary(),
            concat!(
                "10.0.0.7 - spiffe://cluster.local/ns/default/sa/web [21/Nov/2026:09:05:01 +0000] ",
                r#""GET /a?b=\"c\"\x0a\xff HTTP/1.1" 200 12 "-" "curl/8" complete 1.500 2.250"#,
                "\n"
            ),
        );
        let denied =
            RequestSummary { denial: Some(DenialId::new("shop", "web-1", 7)), ..summary() };
        assert!(line(&settings(Format::Apache), &denied).ends_with("00000007\n"));
        let plain = RequestSummary {
            client_id: "",
            user_agent: b"",
            ending: Ending::NoEndpoints,
            status: 503,
            path: b"/",
            ..summary()
        };
        check(
            &plain,
            concat!(
                "10.0.0.7 - - [21/Nov/2026:09:05:01 +0000] ",
                r#""GET / HTTP/1.1" 503 12 "-" "-" no_endpoints 1.500 2.250"#,
                "\n"
            ),
        );
    }

    #[test]
    fn json_lines() {
        let text = line(&settings(Format::Json), &summary());
        assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["timestamp"], "2026-11-21T09:05:01.023Z");
        assert_eq!(value["uri"], "/a?b=\"c\"\n\u{fffd}");
        assert_eq!(value["status"], 200);
        assert_eq!(value["first_byte_ms"], 1.5);
        assert_eq!(value["attempts"], 1);
        assert_eq!(value["ending"], "complete");
        assert_eq!(value["denial"], "");
        assert_eq!(value.get("headers"), None);
        let chosen = Settings { headers: vec!["x-tenant".into()], ..settings(Format::Json) };
        let headers = [("x-tenant".into(), b"a".to_vec()), ("x-other".into(), b"b".to_vec())];
        let text = line(&chosen, &RequestSummary { headers: &headers, ..summary() });
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["headers"], serde_json::json!({"x-tenant": "a"}));
    }

    #[test]
    fn sampled_lines() {
        let out = Shared::default();
        let some = Settings { sampling: 0.5, ..settings(Format::Json) };
        let log = AccessLog::start(some, 16, Arc::default(), out.clone()).unwrap();
        log.write(&summary(), 0.4);
        log.write(&summary(), 0.5);
        log.write(&RequestSummary { status: 503, ..summary() }, 0.9);
        log.finish(Duration::from_mins(1));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let statuses: Vec<_> =
            ["\"status\":200", "\"status\":503"].map(|status| text.matches(status).count()).into();
        assert_eq!(statuses, [1, 1], "{text}");
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn finish_writes_what_is_queued() {
        let out = Shared::default();
        let log =
            AccessLog::start(settings(Format::Json), 16, Arc::default(), out.clone()).unwrap();
        for _ in 0..10 {
            log.write(&summary(), 0.0);
        }
        log.finish(Duration::from_mins(1));
        assert_eq!(out.0.lock().unwrap().iter().filter(|byte| **byte == b'\n').count(), 10);
    }

    /// Stdout that nobody reads: a write blocks until the test lets it go.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stuck_stdout_drops_lines_and_blocks_nobody() {
        let (let_go, stuck) = std::sync::mpsc::channel();
        let dropped = Arc::new(AtomicU64::new(0));
        let log =
            AccessLog::start(settings(Format::Apache), 4, dropped.clone(), Stuck(stuck)).unwrap();
        for _ in 0..1000 {
            log.write(&summary(), 0.0);
        }
        // Four wait in the queue; what the thread holds fits its buffer or is the one that is stuck.
        let lost = dropped.load(Ordering::Relaxed);
        assert!(lost > 0 && lost < 1000, "{lost} dropped");
        drop(let_go);
        log.finish(Duration::from_mins(1));
    }
}
