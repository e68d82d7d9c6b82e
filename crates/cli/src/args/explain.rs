//! Flags of `leno explain`.

use super::question::QuestionFlags;
use clap::Args as ClapArgs;

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
