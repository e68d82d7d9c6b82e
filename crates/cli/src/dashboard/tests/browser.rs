//! A real browser loads the page from the real server, light and dark, wide and narrow: no error on its console, and the graph is there.
//! `npm test` in `dashboard/` tests accessibility and speed.

use super::{BEGAN, history, step};
use crate::dashboard::{Shared, serve};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A browser takes seconds to start on a busy machine; this is a bound on a hang.
const LIMIT: Duration = Duration::from_secs(120);
/// The page's own time until the browser writes what it has.
const VIRTUAL_MILLISECONDS: u32 = 3_000;

/// What chromium's page looks like after its script ran.
fn browse(profile: &Path, dark: bool, size: &str, url: &str) -> Output {
    let child = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0", "--dump-dom"])
        .arg(format!("--window-size={size}"))
        .arg(format!("--virtual-time-budget={VIRTUAL_MILLISECONDS}"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("chromium is installed by `cargo xtask setup test`");
    ended(child)
}

fn ended(child: Child) -> Output {
    let (id, (sender, receiver)) = (child.id(), mpsc::channel());
    std::thread::spawn(move || drop(sender.send(child.wait_with_output())));
    receiver
        .recv_timeout(LIMIT)
        .unwrap_or_else(|_| panic!("chromium {id} was not done after {LIMIT:?}"))
        .expect("its output")
}

#[test]
fn the_page_shows_the_graph() {
    let shared = Shared::default();
    *shared.lock() = history(&[step(10.0, 1_090, 10)]);
    assert!(shared.lock().read_at > BEGAN);
    let (sender, receiver) = mpsc::channel();
    // It serves until this test's process ends.
    std::thread::spawn(move || {
        serve::run(shared, ([127, 0, 0, 1], 0).into(), |address| {
            let _sent = sender.send(address);
        })
    });
    let address = receiver.recv_timeout(LIMIT).expect("it listens");
    let directory = tempfile::tempdir().expect("a directory");
    let began = Instant::now();
    for (name, dark, size) in [("light", false, "1280,800"), ("dark", true, "400,900")] {
        let profile = directory.path().join(name);
        let output = browse(&profile, dark, size, &format!("http://{address}/"));
        let (dom, talk) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let errors: Vec<&str> = talk.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(errors.is_empty(), "{name}: the console says {errors:?}");
        for part in [
            "data-ready=\"true\"",
            "data-id=\"front/deployment/gateway\"",
            "data-id=\"shop/deployment/web\"",
            "data-from=\"front/deployment/gateway\" data-to=\"shop/deployment/web\"",
            "90.0 % of requests succeed",
        ] {
            assert!(dom.contains(part), "{name}, after {:?}: no {part} in {dom}", began.elapsed());
        }
    }
}
