//! `leno completion`: a script for a shell, made of the flags.

use crate::args::{self, Shell};
use crate::output;
use clap::Command;
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
    let mut command = args::command();
    command.build();
    clap_complete::generate(of, &mut visible(&command), "leno", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// A built command without its hidden flags and verbs, which `clap_complete` would complete, too.
fn visible(command: &Command) -> Command {
    // Names have to be static. The program prints one script and ends.
    let name: &'static str = command.get_name().to_owned().leak();
    let arguments = command.get_arguments().filter(|one| !one.is_hide_set());
    // Each verb of a built command has the flags that all verbs have.
    let arguments = arguments.map(|one| one.clone().global(false));
    let verbs = command.get_subcommands().filter(|one| !one.is_hide_set()).map(visible);
    let copy = Command::new(name)
        // Each built command has its flags of help and version among its own.
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .args(arguments)
        .subcommands(verbs);
    match command.get_about() {
        Some(about) => copy.about(about.clone()),
        None => copy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shell prints that reads the script from a file and runs these lines.
    fn printed(shell: Shell, program: &str, lines: &str) -> String {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("_leno"), script(shell)).unwrap();
        let mut command = std::process::Command::new(program);
        command.args(if program == "fish" { &["--no-config"][..] } else { &[] });
        let output =
            command.args(["-c", lines]).current_dir(place.path()).env("HOME", place.path());
        let output = output.output().unwrap_or_else(|error| panic!("{program}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{program}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn shells_complete_verbs_and_flags() {
        let bash = "source ./_leno; complete -p leno
            try() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
                _leno leno \"${@: -1}\" \"${@: -2:1}\"; echo \"$* gives ${COMPREPLY[*]}\"; }
            try leno ed; try leno bench sea; try leno up --det; try leno ps --state-d";
        let seen = printed(Shell::Bash, "bash", bash);
        for expected in [
            "-F _leno leno\n",
            "leno ed gives edges\n",
            "leno bench sea gives search\n",
            "leno up --det gives --detach\n",
            "leno ps --state-d gives --state-dir\n",
        ] {
            assert!(seen.contains(expected), "{expected}: {seen}");
        }
        let fish = "source ./_leno; complete -C 'leno ed'; complete -C 'leno bench sea'; complete -C 'leno up --det'";
        let seen = printed(Shell::Fish, "fish", fish);
        for expected in ["edges\t", "search\t", "--detach\t"] {
            assert!(seen.lines().any(|line| line.starts_with(expected)), "{expected}: {seen}");
        }
        // zsh completes in its line editor alone; here it reads the script, and finds the function as the one for leno.
        let zsh = "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; echo $_comps[leno]; autoload +X _leno; which _leno";
        let seen = printed(Shell::Zsh, "zsh", zsh);
        assert!(seen.starts_with("_leno\n"), "{seen}");
        assert!(seen.contains("edges") && seen.contains("--detach"), "{seen}");
    }

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
            for hidden in ["detached", "sidecar-arg", "wait-ongoing-requests"] {
                assert!(!script.contains(hidden), "{shell:?}: {hidden} is hidden in help, too");
            }
        }
    }
}
