//! `leno completion`: a script for a shell, made of the flags.

use crate::args::{self, Shell};
use crate::output;
use clap_complete::Shell as Script;

pub(super) fn run(shell: Shell) -> std::io::Result<()> {
    output::print(&script(shell))
}

fn script(shell: Shell) -> String {
    let of = match shell {
        Shell::Bash => Script::Bash,
        Shell::Fish => Script::Fish,
        Shell::Zsh => Script::Zsh,
    };
    let mut script = Vec::new();
    clap_complete::generate(of, &mut args::command(), "leno", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_know_verbs_and_flags() {
        for (shell, expected) in [
            (Shell::Bash, "complete -F _leno"),
            (Shell::Fish, "complete -c leno"),
            (Shell::Zsh, "#compdef leno"),
        ] {
            let script = script(shell);
            for part in [expected, "validate", "kubeconfig"] {
                assert!(script.contains(part), "{shell:?}: {part}");
            }
        }
    }
}
