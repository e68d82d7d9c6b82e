//! What a test must find again as it was: mounts, rules and interfaces of the machine.

use std::process::Command;

/// The machine at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    mounts: String,
    rules: String,
    interfaces: String,
}

impl Machine {
    /// As it is now.
    pub(crate) fn now() -> Self {
        let said = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().expect(program);
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        Self {
            mounts: std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo"),
            rules: said("nft", &["list", "ruleset"]),
            interfaces: said("ip", &["-o", "link"]),
        }
    }
}
