//! A real browser loads the report, light and dark, from a file and from the server of `leno bench serve`: no error on
//! its console, drawings whose texts do not touch, buttons that work, a screenshot.

use crate::made_up;
use leno_bench::report;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A browser takes seconds to start on a busy machine; this is a bound on a hang.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs in the page after its own script: presses every button, and leaves what it sees in the page's own tree.
const PROBE: &str = r#"<script>
const seen = document.body.dataset;
document.querySelectorAll("details").forEach((one) => { one.open = true; });
seen.back = getComputedStyle(document.body).backgroundColor;
seen.svgs = document.querySelectorAll("svg").length;
const touching = () => {
  let found = [];
  for (const svg of document.querySelectorAll("svg")) {
    const texts = [...svg.querySelectorAll("text")].map((text) => [text, text.getBoundingClientRect()]).filter(([, box]) => box.width);
    texts.forEach(([text, a], index) => texts.slice(index + 1).forEach(([other, b]) => {
      const over = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (over > 2 && down > 3) found.push(svg.getAttribute("aria-label") + ": " + text.textContent + " / " + other.textContent);
    }));
  }
  return found;
};
let found = touching(), shown = 0;
for (const button of document.querySelectorAll("button[data-key]")) {
  button.click();
  if (button.getAttribute("aria-pressed") === "true") shown += 1;
  found.push(...touching());
}
seen.pressed = shown + " of " + document.querySelectorAll("button[data-key]").length;
seen.touching = [...new Set(found)].slice(0, 20).join(" | ");
seen.hiddenAll = [...document.querySelectorAll("section")].filter((one) => one.querySelector(".variant") && !one.querySelector(".variant:not([hidden])")).map((one) => one.id).join(" ");
document.getElementById("theme").click();
seen.after = getComputedStyle(document.body).backgroundColor;
</script></body>"#;

/// What the browser answered.
struct Said {
    dom: String,
    talk: String,
}

/// Starts Debian's browser without a window and with nothing of its own, and waits for its end.
fn browse(profile: &Path, dark: bool, arguments: &[&str]) -> Said {
    let mut child = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--hide-scrollbars",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", profile.display()))
        // What `prefers-color-scheme` says: 0 is dark, 1 is light.
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("chromium is installed by `cargo xtask setup test`");
    let (out, error) = (drain(child.stdout.take()), drain(child.stderr.take()));
    wait(&mut child);
    Said { dom: out.recv().unwrap_or_default(), talk: error.recv().unwrap_or_default() }
}

/// Reads a pipe to its end beside us, so that the browser is never held up.
fn drain(pipe: Option<impl std::io::Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _read = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        let _sent = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn wait(child: &mut Child) {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            assert!(status.success(), "the browser ended with {status}");
            return;
        }
        if began.elapsed() > LIMIT {
            let _killed = child.kill();
            panic!("the browser was not done after {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The value of an attribute that the probe or the page left.
fn attribute<'a>(dom: &'a str, name: &str) -> &'a str {
    let start = dom.find(&format!("{name}=\"")).unwrap_or_else(|| panic!("no {name} in the page"));
    let rest = &dom[start + name.len() + 2..];
    rest.split('"').next().unwrap_or_default()
}

#[track_caller]
fn no_error(said: &Said) {
    let errors: Vec<&str> = said.talk.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(errors.is_empty(), "the console says {errors:?}");
    assert!(
        !said.dom.contains("data-error="),
        "the script failed: {}",
        attribute(&said.dom, "data-error")
    );
    assert_eq!(attribute(&said.dom, "data-ready"), "true");
}

#[test]
fn light_and_dark() {
    let directory = tempfile::tempdir().expect("a directory");
    report::write(&made_up::campaign("<script>throw 1</script>"), directory.path())
        .expect("write it");
    let html = fs::read_to_string(directory.path().join("report.html")).expect("it was written");
    let probed = directory.path().join("probed.html");
    fs::write(&probed, html.replace("</body>", PROBE)).expect("write it");
    let file = format!("file://{}", probed.display());
    let (light, dark) = ("rgb(255, 255, 255)", "rgb(15, 19, 24)");
    for (name, is_dark, back, after) in [("light", false, light, dark), ("dark", true, dark, light)]
    {
        let profile = directory.path().join(name);
        let said = browse(&profile, is_dark, &["--window-size=1280,1000", "--dump-dom", &file]);
        no_error(&said);
        assert_eq!(attribute(&said.dom, "data-back"), back, "{name}");
        assert_eq!(attribute(&said.dom, "data-after"), after, "{name}, the button pressed");
        assert_eq!(attribute(&said.dom, "data-touching"), "", "{name}: texts touch");
        assert_eq!(attribute(&said.dom, "data-hidden-all"), "", "{name}: a panel shows nothing");
        let (pressed, all) =
            attribute(&said.dom, "data-pressed").split_once(" of ").expect("two numbers");
        assert!(pressed == all && pressed != "0", "{name}: {pressed} of {all} buttons work");
        assert!(attribute(&said.dom, "data-svgs").parse::<usize>().expect("a number") > 20);
        let picture = directory.path().join(format!("{name}.png"));
        let screenshot = format!("--screenshot={}", picture.display());
        let plain = format!("file://{}/report.html", directory.path().display());
        let said = browse(&profile, is_dark, &["--window-size=1280,7200", &screenshot, &plain]);
        assert!(!said.talk.contains("CONSOLE"), "{}", said.talk);
        let png = fs::read(&picture).expect("a screenshot");
        assert!(png.starts_with(b"\x89PNG") && png.len() > 100_000, "{name}: {} bytes", png.len());
    }
}

#[test]
fn served() {
    let directory = tempfile::tempdir().expect("a directory");
    let results = directory.path().join("results");
    let mut campaign = made_up::campaign("");
    campaign.state = "running".into();
    for name in ["2026-11-20T10-00-00-quick", "2026-11-21T09-12-03-quick"] {
        fs::create_dir_all(results.join(name)).expect("make it");
        let json = serde_json::to_vec(&campaign).expect("it is JSON");
        fs::write(results.join(name).join("result.json"), json).expect("write it");
        campaign.state = "finished".into();
    }
    let (sender, receiver) = mpsc::channel();
    let served = results.clone();
    // It serves until the process ends: this test's own process, or the runner's.
    std::thread::spawn(move || {
        report::serve::run(&served, SocketAddr::from(([127, 0, 0, 1], 0)), false, |address| {
            let _sent = sender.send(address);
        })
    });
    let address = receiver.recv_timeout(LIMIT).expect("it listens");
    let base = format!("http://{address}");
    let list =
        browse(&directory.path().join("profile"), false, &["--dump-dom", &format!("{base}/")]);
    no_error(&list);
    assert!(
        list.dom.find("2026-11-21T09").expect("the newer")
            < list.dom.find("2026-11-20T10").expect("the older")
    );
    let page = browse(
        &directory.path().join("profile"),
        false,
        &["--dump-dom", &format!("{base}/2026-11-20T10-00-00-quick/")],
    );
    no_error(&page);
    assert!(page.dom.contains("RUNNING") && attribute(&page.dom, "data-running") == "true");
    // The page that is watched changes its version when the result is written again.
    let before = get(address, "/2026-11-20T10-00-00-quick/version", "localhost");
    assert!(before.contains(attribute(&page.dom, "data-version")), "{before}");
    fs::write(results.join("2026-11-20T10-00-00-quick/result.json"), "{").expect("write it");
    assert_ne!(get(address, "/2026-11-20T10-00-00-quick/version", "localhost"), before);
    assert!(get(address, "/2026-11-20T10-00-00-quick/", "localhost").starts_with("HTTP/1.1 503"));
    for path in [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/2026-11-20T10-00-00-quick/..",
        "/.hidden/x.json",
    ] {
        assert!(get(address, path, "localhost").starts_with("HTTP/1.1 404"), "{path}");
    }
    assert!(get(address, "/", "rebound.example").starts_with("HTTP/1.1 421"));
}

/// One request as it is written here: no client tidies its path.
fn get(address: SocketAddr, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connect");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
