//! `--color`: whether output has colours. `NO_COLOR` and `CLICOLOR_FORCE` are read by `anstream`.

use anstream::ColorChoice;
use clap::ValueEnum;
use std::ffi::OsStr;

/// When output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On terminals, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    /// The choice in a command line. It is read before all else, because mistakes in the command line are printed in colour too.
    pub(crate) fn of_words<'a>(words: impl Iterator<Item = &'a OsStr>) -> Self {
        let mut words = words.take_while(|word| *word != "--").filter_map(OsStr::to_str);
        let mut choice = Self::default();
        while let Some(word) = words.next() {
            let value = match word.strip_prefix("--color") {
                Some("") => words.next(),
                Some(rest) => rest.strip_prefix('='),
                None => None,
            };
            choice = value.and_then(|text| Self::from_str(text, false).ok()).unwrap_or(choice);
        }
        choice
    }

    /// Makes it the choice of the whole program.
    pub(crate) fn apply(self) {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::AlwaysAnsi,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_choice_before_the_end_of_flags_counts() {
        for (line, expected) in [
            ("leno ps", Color::Auto),
            ("leno --color=never ps", Color::Never),
            ("leno ps --color always", Color::Always),
            ("leno ps --color always --color never", Color::Never),
            ("leno ps --color purple", Color::Auto),
            ("leno exec web -- ls --color=never", Color::Auto),
            ("leno ps --colors=never", Color::Auto),
        ] {
            assert_eq!(Color::of_words(line.split(' ').map(OsStr::new)), expected, "{line}");
        }
    }
}
