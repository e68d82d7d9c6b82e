//! The dates of a certificate, read from its DER. rustls-webpki checks them but does not show them, and a whole
//! X.509 parser would be 200 KB of proxy for twenty bytes.

use crate::refused::Refused;

/// A certificate's life, in seconds of Unix time; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its first second.
    pub not_before: u64,
    /// Its last second.
    pub not_after: u64,
}

impl Validity {
    /// Whether the moment is in the certificate's life.
    ///
    /// # Errors
    /// [`Refused::NotYetValid`] or [`Refused::Expired`].
    pub fn check(self, now: u64) -> Result<(), Refused> {
        if now < self.not_before {
            return Err(Refused::NotYetValid { not_before: self.not_before, now });
        }
        if now > self.not_after {
            return Err(Refused::Expired { not_after: self.not_after, now });
        }
        Ok(())
    }
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Walks Certificate → tbsCertificate → (version, serial, signature, issuer) → validity (RFC 5280 §4.1).
#[must_use]
pub fn read(certificate: &[u8]) -> Option<Validity> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (body, _) = expect(certificate, SEQUENCE)?;
    let (_, rest) = expect(body, VERSION)?;
    let (_, rest) = expect(rest, INTEGER)?;
    let (_, rest) = expect(rest, SEQUENCE)?;
    let (_, rest) = expect(rest, SEQUENCE)?;
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (not_before, rest) = time(validity)?;
    let (not_after, _) = time(rest)?;
    Some(Validity { not_before, not_after })
}

/// The serial number that the issuer gave, without leading zeros: its name among all that the issuer signed.
#[must_use]
pub fn serial(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (body, _) = expect(certificate, SEQUENCE)?;
    let (_, rest) = expect(body, VERSION)?;
    let (serial, _) = expect(rest, INTEGER)?;
    let first = serial.iter().position(|byte| *byte != 0)?;
    Some(&serial[first..])
}

/// Splits one DER element off: its content, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |sum, digit| (sum << 8) | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn expect(bytes: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    (tag == expected).then_some((content, rest))
}

/// UTCTime `YYMMDDHHMMSSZ` until 2049, GeneralizedTime `YYYYMMDDHHMMSSZ` after (RFC 5280 §4.1.2.5).
fn time(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    let digits = content.strip_suffix(b"Z")?;
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_u64, |sum, digit| {
            digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
        })
    };
    let (year, digits) = match tag {
        UTC_TIME => {
            let (year, digits) = digits.split_at_checked(2)?;
            let year = number(year)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, digits)
        }
        GENERALIZED_TIME => {
            let (year, digits) = digits.split_at_checked(4)?;
            (number(year)?, digits)
        }
        _ => return None,
    };
    if digits.len() != 10 || year < 1970 {
        return None;
    }
    let pair = |at: usize| number(&digits[at..at + 2]);
    let (month, day) = (pair(0)?, pair(2)?);
    let (hour, minute, second) = (pair(4)?, pair(6)?, pair(8)?);
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return None;
    }
    Some((days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second, rest))
}

/// Days since 1970-01-01; years are counted from March, so that the leap day is a year's last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year / 4 - year / 100 + year / 400;
    // 719,468 is 1970-01-01 in this count.
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |tag: u8, text: &str, expected: Option<u64>| {
            let mut bytes = vec![tag, u8::try_from(text.len()).unwrap()];
            bytes.extend(text.as_bytes());
            assert_eq!(time(&bytes).map(|(seconds, _)| seconds), expected, "{text}");
        };
        check(UTC_TIME, "700101000000Z", Some(0));
        check(UTC_TIME, "000229120000Z", Some(951_825_600));
        check(UTC_TIME, "261121063000Z", Some(1_795_242_600));
        check(UTC_TIME, "491231235959Z", Some(2_524_607_999));
        check(UTC_TIME, "500101000000Z", None); // 1950.
        check(GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000));
        check(GENERALIZED_TIME, "21000301000000Z", Some(4_107_542_400));
        check(GENERALIZED_TIME, "20501301000000Z", None);
        check(GENERALIZED_TIME, "2050010100000Z", None);
        check(UTC_TIME, "261121063000", None);
        check(UTC_TIME, "26112106300xZ", None);
        check(UTC_TIME, "2", None);
        check(INTEGER, "261121063000Z", None);
    }

    #[test]
    fn no_certificate_makes_it_panic() {
        for length in 0..64 {
            for fill in [0x00, 0x30, 0x81, 0x82, 0x83, 0xff] {
                assert_eq!(read(&vec![fill; length]), None);
            }
        }
    }
}
