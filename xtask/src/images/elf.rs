//! Whether a program is static: it names no loader and needs no library. Reads 64-bit little-endian ELF and refuses all else.

use anyhow::{Context as _, Result, bail, ensure};

/// Program headers.
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;
/// Entry of the dynamic section that names a library.
const NEEDED: u64 = 1;

/// Fails when the program would not run in an empty file system.
///
/// # Errors
/// When it asks for a loader or a library, or is no program.
pub(super) fn require_static(program: &[u8]) -> Result<()> {
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "no 64-bit little-endian ELF");
    let table = number(program, 32, 8)?;
    let entry_bytes = number(program, 54, 2)?;
    for index in 0..number(program, 56, 2)? {
        let header = table.checked_add(index * entry_bytes).context("offset")?;
        match number(program, header, 4)? {
            INTERPRETER => bail!("it is linked dynamically: it names a loader"),
            DYNAMIC => {
                let (begin, bytes) =
                    (number(program, header + 8, 8)?, number(program, header + 32, 8)?);
                for entry in 0..bytes / 16 {
                    let tag = number(program, begin + entry * 16, 8)?;
                    ensure!(tag != NEEDED, "it is linked dynamically: it needs a library");
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn number(program: &[u8], offset: u64, bytes: usize) -> Result<u64> {
    let begin = usize::try_from(offset)?;
    let field = program.get(begin..).and_then(|rest| rest.get(..bytes)).context("it is cut off")?;
    Ok(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::require_static;

    #[test]
    fn dynamic_programs_are_refused() {
        // This test program itself is linked dynamically.
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let refused = require_static(&program).unwrap_err().to_string();
        assert!(refused.contains("linked dynamically"), "{refused}");
        assert!(require_static(b"#!/bin/sh").is_err());
        assert!(require_static(&program[..40]).is_err());
    }
}
