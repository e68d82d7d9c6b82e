//! `cargo xtask pictures`: the pictures of the dashboard in `docs/images`, from a mesh with traffic and a browser, light and dark.
//!
//! The pictures are committed. Run this after a change of the page, and look at them.

use crate::command;
use crate::demo::town::Town;
use anyhow::{Context as _, Result, ensure};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Requests per second, and for how long: the graph shows the mean over all of it.
const LOAD: (u32, u32) = (60, 45);
/// Traffic before the first picture.
const WARM_UP: Duration = Duration::from_secs(20);
const SIZE: &str = "1200,760";
/// Chromium's settings for a page that prefers the scheme.
const SCHEMES: [(&str, &str); 2] =
    [("light", "preferredColorScheme=1"), ("dark", "preferredColorScheme=0")];

/// Writes `docs/images/dashboard-light.png` and `dashboard-dark.png`.
pub(crate) fn run() -> Result<()> {
    let target = command::target_directory()?;
    let state = target.join("pictures-state").join(std::process::id().to_string());
    let town = Town::start(&target.join("debug/leno"), &state)?;
    let dashboard = Dashboard::start(&town)?;
    std::thread::scope(|scope| {
        let load = scope.spawn(|| town.load(LOAD.0, LOAD.1));
        std::thread::sleep(WARM_UP);
        for (name, scheme) in SCHEMES {
            dashboard.picture(&format!("docs/images/dashboard-{name}.png"), scheme)?;
        }
        let load = load.join().ok().context("the load ended early")??;
        ensure!(load.failed == 0, "{} of {} requests failed", load.failed, load.sent);
        Ok(())
    })?;
    drop(dashboard);
    let left = town.end()?;
    ensure!(left.is_empty(), "the machine is not what it was before: {left:?}");
    Ok(())
}

/// `leno dashboard`, until it is dropped.
struct Dashboard {
    process: Child,
    address: String,
}

impl Dashboard {
    fn start(town: &Town) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = town.leno(&["dashboard", "--port", &port.to_string()]);
        let process = command.stderr(Stdio::null()).spawn()?;
        let dashboard = Self { process, address: format!("http://127.0.0.1:{port}/") };
        let began = Instant::now();
        let mut ask = Command::new("curl");
        ask.args(["-sSf", "-o", "/dev/null", &dashboard.address]);
        while !command::succeeds(&mut ask) {
            ensure!(began.elapsed() < WARM_UP, "the dashboard does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(dashboard)
    }

    fn picture(&self, path: &str, scheme: &str) -> Result<()> {
        let home = command::target_directory()?.join("pictures-browser");
        let mut browser = Command::new("chromium");
        browser.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        browser.arg(format!("--blink-settings={scheme}")).arg(format!("--window-size={SIZE}"));
        browser.arg(format!("--user-data-dir={}", home.display()));
        // Two updates of the page, then the picture.
        browser.args(["--timeout=6000", &format!("--screenshot={path}"), &self.address]);
        browser.stderr(Stdio::null());
        let is_done = command::succeeds(&mut browser);
        std::fs::remove_dir_all(&home)?;
        ensure!(is_done, "chromium made no picture");
        let bytes = std::fs::metadata(Path::new(path))?.len();
        eprintln!("{path}: {bytes} bytes");
        Ok(())
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
