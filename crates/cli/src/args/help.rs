//! What `--help` shows besides flags: verbs in groups, and examples of each.

use super::Args;
use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, value_parser};
use std::fmt::Write as _;

/// Verbs, by what they are for.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run manifests on this machine", &["up", "down", "exec", "validate"]),
    (
        "Look at a mesh",
        &[
            "ps",
            "stat",
            "edges",
            "routes",
            "tap",
            "top",
            "describe",
            "dashboard",
            "logs",
            "events",
            "check",
            "explain",
            "authz",
            "policy",
            "diagnostics",
        ],
    ),
    ("Install in a cluster", &["install", "upgrade", "uninstall", "inject", "uninject"]),
    ("Measure", &["bench"]),
    ("Other", &["version", "completion"]),
];

/// Verbs, separated by blanks, and lines that people type.
const EXAMPLES: [(&str, &[&str]); 37] = [
    ("up", &["leno up -f examples/bookinfo", "leno up -f app.yaml -f routes.yaml --detach"]),
    ("down", &["leno down"]),
    ("ps", &["leno ps", "leno ps -A -o wide", "leno ps -n shop -l app=web -w"]),
    ("events", &["leno events", "leno events -A", "leno events -n shop -o json"]),
    ("validate", &["leno validate -f manifests/", "leno validate -f - --strict -o json"]),
    ("stat", &["leno stat", "leno stat deploy -n shop -t 10s", "leno stat svc/web -o json"]),
    ("edges", &["leno edges", "leno edges -n shop -o json"]),
    ("dashboard", &["leno dashboard", "leno dashboard -n shop --port 9000"]),
    ("routes", &["leno routes", "leno routes svc/web -n shop -t 10s"]),
    (
        "tap",
        &["leno tap deploy/web --to svc/api --slow 100ms", "leno tap svc/web --failed -o json"],
    ),
    ("top", &["leno top deploy/web", "leno top ns/shop --failed"]),
    ("describe", &["leno describe svc/web", "leno describe deploy/web -n shop -o json"]),
    ("exec", &["leno exec deploy/reviews -- curl -s http://ratings:9080/ratings/1"]),
    ("logs", &["leno logs deploy/web -f", "leno logs web --proxy --tail 20", "leno logs control"]),
    (
        "explain",
        &[
            "leno explain deploy/web to svc/reviews:80 GET /reviews/1",
            "leno explain --from shop/sa/web --to db.shop.svc.cluster.local:5432 -o json",
        ],
    ),
    ("authz", &["leno authz deploy/reviews", "leno authz shop/sts/db -o json"]),
    ("policy", &["leno policy suggest -n shop", "leno policy simulate -f policy.yaml"]),
    (
        "policy simulate",
        &["leno policy simulate -f policy.yaml", "leno policy simulate -f policy/ -n shop -o json"],
    ),
    (
        "policy suggest",
        &["leno policy suggest -n shop", "leno policy suggest -n shop --audit > policy.yaml"],
    ),
    (
        "diagnostics",
        &["leno diagnostics policy svc/web 80 -n shop", "leno diagnostics proxy-metrics web"],
    ),
    ("diagnostics endpoints", &["leno diagnostics endpoints web.shop.svc.cluster.local:80"]),
    (
        "diagnostics policy",
        &["leno diagnostics policy svc/web 80 -n shop", "leno diagnostics policy pod/web-0 8080"],
    ),
    ("diagnostics proxy-metrics", &["leno diagnostics proxy-metrics deploy/web -n shop"]),
    ("diagnostics controller-metrics", &["leno diagnostics controller-metrics"]),
    ("inject", &["leno inject app.yaml | kubectl apply -f -"]),
    ("uninject", &["leno uninject app.yaml | kubectl apply -f -"]),
    ("install", &["leno install | kubectl apply -f -", "leno install --ha -f values.yaml -o json"]),
    ("upgrade", &["leno upgrade | kubectl apply -f -"]),
    ("uninstall", &["leno uninstall | kubectl delete -f -"]),
    ("bench", &["leno bench load http://127.0.0.1:8080/", "leno bench run quick"]),
    ("check", &["leno check", "leno check --pre", "leno check --proxy -n shop --wait 2m"]),
    ("version", &["leno version", "leno version --client -o json"]),
    (
        "completion",
        &[
            "leno completion bash > /etc/bash_completion.d/leno",
            "leno completion zsh > \"${fpath[1]}/_leno\"",
            "leno completion fish > ~/.config/fish/completions/leno.fish",
        ],
    ),
    (
        "bench load",
        &[
            "leno bench load http://127.0.0.1:8080/ --qps 1000 -z 30s",
            "leno bench load http://127.0.0.1:8080/ --qps 0 -c 32",
        ],
    ),
    ("bench run", &["leno bench run quick --mesh none,leno", "leno bench run quick --dry-run"]),
    ("bench compare", &["leno bench compare results/before results/after"]),
    ("bench serve", &["leno bench serve"]),
];

/// Verbs without a running mesh on this machine. Their help does not show its flag.
const WITHOUT_MESH: &[&str] =
    &["validate", "inject", "uninject", "install", "upgrade", "uninstall", "bench", "completion"];

/// The flag of all verbs, in the place of the one that clap would show here.
fn unused_state_dir() -> Arg {
    let value = value_parser!(std::path::PathBuf);
    Arg::new("state_dir").long("state-dir").global(true).hide(true).value_parser(value)
}

/// What a person most likely meant whose command line is not valid.
pub(crate) fn tip(words: &[String], kind: ErrorKind) -> Option<&'static str> {
    if kind != ErrorKind::UnknownArgument {
        return None;
    }
    let verbs = || GROUPS.iter().flat_map(|(_, names)| names.iter());
    let verb = words.iter().skip(1).position(|word| verbs().any(|verb| verb == word))?;
    let is_exec = words[verb + 1] == "exec" && !words.iter().any(|word| word == "--");
    let is_early = words[1..=verb].iter().any(|word| ["-o", "-n", "-A"].contains(&word.as_str()));
    if is_exec {
        return Some("write -- before the program: leno exec POD -- PROGRAM ARGUMENTS");
    }
    is_early.then_some("flags of a verb come after it: leno ps -o json")
}

/// Width of help on wide terminals, and where there is no terminal.
const COLUMNS_MAX: usize = 100;

/// The whole command line.
pub(crate) fn command() -> Command {
    let columns = terminal_size::terminal_size().map_or(COLUMNS_MAX, |(width, _)| width.0.into());
    let columns = columns.clamp(40, COLUMNS_MAX);
    let mut command = Args::command().max_term_width(COLUMNS_MAX);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}\n{{options}}\n\n\
         Use leno VERB --help for the flags and examples of a verb.\n",
        grouped(&command, columns),
        heading(&command, "Options:"),
    );
    command = command.help_template(template);
    for verb in WITHOUT_MESH {
        command = command.mut_subcommand(*verb, |verb| verb.arg(unused_state_dir()));
    }
    let title = heading(&command, "Examples:");
    for (path, lines) in EXAMPLES {
        let words: Vec<&str> = path.split(' ').collect();
        let text = lines.iter().fold(title.clone(), |text, line| format!("{text}\n  {line}"));
        command = with_examples(command, &words, &text);
    }
    command
}

fn with_examples(command: Command, path: &[&str], text: &str) -> Command {
    let Some((first, rest)) = path.split_first() else {
        return command.after_help(text.to_owned());
    };
    command.mut_subcommand(*first, |verb| with_examples(verb, rest, text))
}

/// In the style of clap's own headings.
fn heading(command: &Command, text: &str) -> String {
    let style = command.get_styles().get_header();
    format!("{style}{text}{style:#}")
}

/// The verbs in their groups, with what each does.
fn grouped(command: &Command, columns: usize) -> String {
    let named = |name: &str| command.find_subcommand(name);
    let names = GROUPS.iter().flat_map(|(_, names)| names.iter());
    let indent = 4 + names.map(|name| name.len()).max().unwrap_or(0);
    let style = command.get_styles().get_literal();
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{}", heading(command, &format!("{title}:")));
        for name in names {
            let about = named(name).and_then(Command::get_about).map(ToString::to_string);
            let about = wrapped(&about.unwrap_or_default(), indent, columns);
            let gap = " ".repeat(indent - 2 - name.len());
            let _ = writeln!(text, "  {style}{name}{style:#}{gap}{about}");
        }
        text.push('\n');
    }
    text
}

/// Lines of at most so many columns, of which all but the first begin with `indent` blanks.
fn wrapped(text: &str, indent: usize, columns: usize) -> String {
    let mut lines = String::new();
    let mut at = indent;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if at > indent && at + 1 + width > columns {
            let _ = write!(lines, "\n{}", " ".repeat(indent));
            at = indent;
        } else if at > indent {
            lines.push(' ');
            at += 1;
        }
        lines.push_str(word);
        at += width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn every_verb_is_in_one_group_and_has_examples() {
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for verb in Args::command().get_subcommands() {
            let name = verb.get_name();
            assert_eq!(grouped.iter().filter(|one| **one == name).count(), 1, "{name}");
            assert!(EXAMPLES.iter().any(|(path, _)| *path == name), "{name}");
        }
    }

    #[test]
    fn examples_are_valid_lines_of_their_verb() {
        for (path, lines) in EXAMPLES {
            for line in lines {
                // What a shell does with it is not ours.
                let line = line.split(['|', '>']).next().unwrap().trim();
                assert!(line.starts_with(&format!("leno {}", path.split(' ').next().unwrap())));
                let matches = command().try_get_matches_from(line.split(' '));
                let args = matches.and_then(|matches| Args::from_arg_matches(&matches));
                assert!(args.is_ok(), "{line}: {}", args.unwrap_err());
            }
        }
    }

    #[test]
    fn help_shows_groups_and_examples_within_the_width() {
        let mut command = command();
        let root = command.render_help().to_string();
        for expected in ["Look at a mesh:\n  ps", "Options:\n      --state-dir", "leno VERB --help"]
        {
            assert!(root.contains(expected), "{expected}: {root}");
        }
        let up = command.find_subcommand_mut("up").unwrap().render_long_help().to_string();
        assert!(up.contains("Examples:\n  leno up -f examples/bookinfo\n"), "{up}");
        assert!(root.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{root}");
    }

    #[test]
    fn flags_stand_where_they_mean_something() {
        let mut command = command();
        command.build();
        for (path, expected) in [
            ("ps", true),
            ("policy suggest", true),
            ("bench load", false),
            ("inject", false),
            ("completion", false),
        ] {
            let mut verb = &mut command;
            for word in path.split(' ') {
                verb = verb.find_subcommand_mut(word).unwrap();
            }
            let help = verb.render_long_help().to_string();
            assert_eq!(help.contains("--state-dir"), expected, "{path}: {help}");
        }
        let line = ["leno", "--state-dir", "/tmp/x", "validate", "-f", "-"];
        let matches = super::command().try_get_matches_from(line).unwrap();
        let args = Args::from_arg_matches(&matches).unwrap();
        assert_eq!(args.state_dir, Some("/tmp/x".into()));
    }

    #[test]
    fn tips_for_what_people_type() {
        let check = |line: &str, expected: &str| {
            let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
            let error = super::command().try_get_matches_from(&words).unwrap_err();
            assert!(tip(&words, error.kind()).unwrap_or_default().contains(expected), "{line}");
            assert_eq!(tip(&words, error.kind()).is_none(), expected.is_empty(), "{line}");
        };
        check("leno exec web curl", "leno exec POD -- PROGRAM");
        check("leno -o json ps", "flags of a verb come after it");
        check("leno ps --nmaespace", "");
        check("leno nothing", "");
    }

    #[test]
    fn lines_are_broken_between_words() {
        for (text, columns, expected) in [
            ("a b c", 7, "a b\n    c"),
            ("a b c", 40, "a b c"),
            ("unbreakable x", 6, "unbreakable\n    x"),
            ("", 40, ""),
        ] {
            assert_eq!(wrapped(text, 4, columns), expected, "{text:?} in {columns}");
        }
    }
}
