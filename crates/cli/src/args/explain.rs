//! Flags of `leno explain`.

use super::question::QuestionFlags;
use clap::Args as ClapArgs;
use std::ffi::OsString;

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// The id of a denial (the header leno-denial, or the log), or CLIENT to SERVER:PORT [METHOD] [PATH]. CLIENT is deploy/NAME, pod/NAME, sa/NAME, an identity or an address; SERVER is svc/NAME, deploy/NAME, pod/NAME, a name in full or an address; NAMESPACE/ may come before
    #[arg(value_name = "QUESTION", num_args = 0..)]
    pub(crate) question: Vec<String>,
    /// The client
    #[arg(long, value_name = "CLIENT", requires = "to")]
    pub(crate) from: Option<String>,
    /// The server and its port
    #[arg(long, value_name = "SERVER:PORT", requires = "from")]
    pub(crate) to: Option<String>,
    /// A header of the request, for routes that match headers; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    #[command(flatten)]
    pub(crate) flags: QuestionFlags,
}

/// The line with `to` in the place of the word `->` after `explain`. As it is, the word looks like flags, and a question that takes
/// words with hyphens would also take the flags behind it.
pub(crate) fn without_arrows(words: Vec<OsString>) -> Vec<OsString> {
    let (mut is_question, mut is_over) = (false, false);
    let word = |word: OsString| {
        is_over |= word == "--";
        is_question |= word == "explain" && !is_over;
        if is_question && !is_over && word == "->" { "to".into() } else { word }
    };
    words.into_iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_arrow_is_a_word_of_a_question() {
        let check = |line: &str, expected: &str| {
            let words = line.split(' ').map(Into::into).collect();
            let read: Vec<_> = super::without_arrows(words);
            let read: Vec<_> = read.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(read.join(" "), expected);
            assert!(crate::args::command().try_get_matches_from(expected.split(' ')).is_ok());
        };
        let expected = "leno explain deploy/a to svc/b:80 GET / -n shop";
        check("leno explain deploy/a -> svc/b:80 GET / -n shop", expected);
        check(expected, expected);
        let other = "leno exec web -- explain a -> b";
        check(other, other);
    }
}
