//! Writes the tables of the tests as seeds into `corpus/`, beside what fuzzing finds itself.

use std::fs;
use std::path::Path;

use leno_http1::corpus::{Case, REQUESTS, RESPONSES};

fn main() -> std::io::Result<()> {
    let seed = |target: &str, name: &str, bytes: &[u8]| -> std::io::Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")), bytes)
    };
    // Cases of the size limits would only slow the fuzzer down.
    let short = |case: &&Case| case.bytes.len() < 4_096;
    for case in REQUESTS.iter().filter(short) {
        seed("http1_request", case.name, case.bytes)?;
        seed("http1_edit", case.name, &[b"\0", case.bytes].concat())?;
        if let Some(end) = case.bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            seed("http1_body", case.name, &case.bytes[end + 4..])?;
        }
        if let Some(target) = case.bytes.split(|&byte| byte == b' ').nth(1) {
            seed("canonical", case.name, target)?;
        }
    }
    for case in RESPONSES.iter().filter(short) {
        seed("http1_response", case.name, &[b"\0", case.bytes].concat())?;
        seed("http1_edit", &format!("response {}", case.name), &[b"\0", case.bytes].concat())?;
    }
    for text in ["/a/../%2e%2e//b%2Fc\\", "/%61%c3%a9{", "Web.Default.:80", "[FD00::0:1]:8080"] {
        seed("canonical", text, text.as_bytes())?;
    }
    Ok(())
}
