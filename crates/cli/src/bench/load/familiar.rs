//! The words of fortio where they are not words of ours. Pure.
//!
//! Go's flags have one dash and as many letters as they like (`-qps 100`, `-keepalive=false`), which ordinary programs read
//! as many flags of one letter. What has a counterpart becomes it, what means nothing here is left out and said, and what
//! would change the result is refused with what to write instead. oha's words need none of this: they are flags or
//! aliases of `leno bench load` itself.

use Meaning::{Nothing, Refused, Switch, Value};
use std::ffi::OsString;

/// What becomes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// A flag of ours with the same value.
    Value(&'static str),
    /// On or off: our word for each, empty where that is how it is anyway.
    Switch(&'static str, &'static str),
    /// It makes no difference here; whether a value follows.
    Nothing(bool),
    /// What to write instead.
    Refused(&'static str),
}

const WORDS: [(&str, Meaning); 53] = [
    ("qps", Value("--qps")),
    ("json", Value("--json")),
    ("timeout", Value("--timeout")),
    ("labels", Value("--labels")),
    ("payload", Value("--body")),
    ("payload-size", Value("--payload-size")),
    ("payload-file", Value("--body-file")),
    ("content-type", Value("--content-type")),
    ("user", Value("--basic-auth")),
    ("cert", Value("--cert")),
    ("key", Value("--key")),
    ("cacert", Value("--cacert")),
    ("connection-reuse", Value("--connection-reuse")),
    ("keepalive", Switch("", "--disable-keepalive")),
    ("nocatchup", Switch("--nocatchup", "")),
    ("uniform", Switch("--uniform", "")),
    ("jitter", Switch("--jitter", "")),
    ("grpc", Switch("--grpc", "")),
    ("ping", Switch("--ping", "")),
    ("h2", Switch("--http2", "")),
    ("quiet", Switch("--no-tui", "")),
    ("compression", Switch("--header=accept-encoding: gzip", "")),
    ("https-insecure", Switch("--insecure", "")),
    ("allow-initial-errors", Nothing(false)),
    ("stdclient", Nothing(false)),
    ("sequential-warmup", Nothing(false)),
    ("no-reresolve", Nothing(false)),
    ("log-errors", Nothing(false)),
    ("logcaller", Nothing(false)),
    ("mtls", Nothing(false)),
    ("loglevel", Nothing(true)),
    ("logprefix", Nothing(true)),
    ("runid", Nothing(true)),
    ("gomaxprocs", Nothing(true)),
    ("http-buffer-kb", Nothing(true)),
    ("httpbufferkb", Nothing(true)),
    ("httpccch", Nothing(false)),
    ("a", Refused("--fortio-json FILE (fortio's -a), or --basic-auth USER:PASSWORD (oha's)")),
    (
        "r",
        Refused(
            "nothing: histograms always have three digits (fortio), and redirects are not followed (oha)",
        ),
    ),
    ("data-dir", Refused("--fortio-json FILE")),
    ("access-log-file", Refused("--csv FILE or --hlog FILE, which have a line for each second")),
    ("abort-on", Refused("a scenario with an assertion (leno bench run)")),
    ("http1.0", Refused("-H 'connection: close' or --disable-keepalive: requests are HTTP/1.1")),
    ("unix-socket", Refused("an address: only TCP is supported")),
    ("resolve", Refused("the address in the URL, and -H 'host: NAME'")),
    ("resolve-ip-type", Refused("--ipv4 or --ipv6")),
    ("offset", Refused("sleep before it")),
    ("health", Refused("the URL grpc://HOST:PORT/grpc.health.v1.Health/Check")),
    ("healthservice", Refused("the URL grpc://HOST:PORT/grpc.health.v1.Health/Check")),
    ("grpc-ping-delay", Refused("a server that waits, such as leno-worker")),
    ("grpc-metadata", Refused("-H 'NAME: VALUE'")),
    ("grpc-compression", Refused("nothing: messages are sent unchanged")),
    ("udp-timeout", Refused("another tool: UDP is not supported")),
];

/// Flags of one letter that have a value: the word behind one of them is not looked at.
const WITH_VALUE: &str = "cnztqmXHdDTAspor";

/// A command line in our own words, and what was left out of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spoken {
    pub(crate) words: Vec<OsString>,
    pub(crate) left_out: Vec<String>,
}

/// Reads the words of a whole command line. Those of other verbs than `bench load` and `bench search` stay as they are.
///
/// # Errors
/// A word has no counterpart and would have changed the result.
pub(crate) fn translate(words: Vec<OsString>) -> Result<Spoken, String> {
    let mut spoken = Spoken { words: Vec::with_capacity(words.len()), left_out: Vec::new() };
    let verb = words
        .windows(2)
        .position(|pair| pair[0] == "bench" && (pair[1] == "load" || pair[1] == "search"));
    let Some(verb) = verb else {
        spoken.words = words;
        return Ok(spoken);
    };
    let mut words = words.into_iter();
    spoken.words.extend(words.by_ref().take(verb + 2));
    while let Some(word) = words.next() {
        if word == "--" {
            spoken.words.push(word);
            spoken.words.extend(words.by_ref());
            break;
        }
        let known = word.to_str().and_then(read);
        let Some((name, meaning, given)) = known else {
            let has_value = word.to_str().is_some_and(is_short_with_value);
            spoken.words.push(word);
            spoken.words.extend(has_value.then(|| words.next()).flatten());
            continue;
        };
        match meaning {
            Value(ours) => {
                let value = given.map(OsString::from).or_else(|| words.next());
                let value = value.ok_or_else(|| format!("-{name} needs a value"))?;
                let mut flag = OsString::from(ours);
                flag.push("=");
                flag.push(value);
                spoken.words.push(flag);
            }
            Switch(on, off) => {
                let ours = if switch(name, given.as_deref())? { on } else { off };
                spoken.words.extend((!ours.is_empty()).then(|| ours.into()));
            }
            Nothing(has_value) => {
                if has_value && given.is_none() {
                    let _its = words.next();
                }
                spoken.left_out.push(format!("-{name} has no effect here"));
            }
            Refused(instead) => {
                return Err(format!("-{name} is not supported; use instead: {instead}"));
            }
        }
    }
    Ok(spoken)
}

/// `-c`, `-H`: the word behind is theirs.
fn is_short_with_value(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next() == Some('-')
        && letters.next().is_some_and(|letter| WITH_VALUE.contains(letter))
        && letters.next().is_none()
}

/// The word's name, what it means and the value that it has with it.
fn read(word: &str) -> Option<(&'static str, Meaning, Option<String>)> {
    let (dashes, rest) = match word.strip_prefix("--") {
        Some(rest) => (2, rest),
        None => (1, word.strip_prefix('-')?),
    };
    let (name, given) = match rest.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (rest, None),
    };
    let (name, meaning) = *WORDS.iter().find(|(known, _)| *known == name)?;
    // With two dashes our own words are meant, where there are such.
    let own = match meaning {
        Value(ours) => dashes == 2 && ours.trim_start_matches('-') == name,
        Switch(on, _) => dashes == 2 && given.is_none() && on.trim_start_matches('-') == name,
        Nothing(_) | Refused(_) => false,
    };
    (!own).then_some((name, meaning, given))
}

/// Go's words for true and false.
fn switch(name: &str, given: Option<&str>) -> Result<bool, String> {
    match given {
        None | Some("1" | "t" | "T" | "true" | "True" | "TRUE") => Ok(true),
        Some("0" | "f" | "F" | "false" | "False" | "FALSE") => Ok(false),
        Some(other) => Err(format!("-{name}={other} is not valid: use true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<&str, &str>) {
        let words = format!("leno bench load {line}");
        let spoken = translate(words.split(' ').map(OsString::from).collect());
        let words = spoken.map(|spoken| {
            let words: Vec<_> =
                spoken.words[3..].iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        });
        assert_eq!(words.as_deref().map_err(String::as_str), expected, "{line}");
    }

    #[test]
    fn words_of_fortio() {
        check("-qps 100 -c 8 -t 30s http://a/", Ok("--qps=100 -c 8 -t 30s http://a/"));
        check("-qps=100 -c=8 http://a/", Ok("--qps=100 -c=8 http://a/"));
        check("-qps -1 http://a/", Ok("--qps=-1 http://a/"));
        check("-json - http://a/", Ok("--json=- http://a/"));
        check(
            "-keepalive=false -nocatchup http://a/",
            Ok("--disable-keepalive --nocatchup http://a/"),
        );
        check(
            "--keepalive=false -uniform=true -keepalive a",
            Ok("--disable-keepalive --uniform a"),
        );
        check("-k -n 10 -quiet a", Ok("-k -n 10 --no-tui a"));
        check("-loglevel warning -stdclient a", Ok("a"));
        check(
            "-payload-size 10 -payload x -user u:p a",
            Ok("--payload-size=10 --body=x --basic-auth=u:p a"),
        );
        check("-h2 -grpc -ping -s 4 a", Ok("--http2 --grpc --ping -s 4 a"));
    }

    #[test]
    fn words_of_ours_stay() {
        check("--qps 5 --json f --grpc a", Ok("--qps 5 --json f --grpc a"));
        check("-c8 -z5s -q2000 a", Ok("-c8 -z5s -q2000 a"));
        // Values are not words.
        check("-H -json: -d -qps a", Ok("-H -json: -d -qps a"));
        check("a -- -qps", Ok("a -- -qps"));
        let other: Vec<OsString> = ["leno", "bench", "run", "-qps"].map(OsString::from).into();
        let expected = Spoken { words: other.clone(), left_out: Vec::new() };
        assert_eq!(translate(other), Ok(expected));
    }

    #[test]
    fn words_that_cannot_be_followed() {
        check("-qps", Err("-qps needs a value"));
        check("-keepalive=no a", Err("-keepalive=no is not valid: use true or false"));
        check("-offset 1s a", Err("-offset is not supported; use instead: sleep before it"));
        check(
            "-resolve-ip-type ip6 a",
            Err("-resolve-ip-type is not supported; use instead: --ipv4 or --ipv6"),
        );
    }
}
