//! What a content is to be, by its digest: `source_hash`.

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use std::fmt::{self, Write};

/// Digests that files of sums hold, strongest first.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Algorithm {
    Sha512,
    Sha384,
    Sha256,
    Sha224,
    Sha1,
    Md5,
}

const ALL: [(Algorithm, &str, usize); 6] = [
    (Algorithm::Sha512, "sha512", 128),
    (Algorithm::Sha384, "sha384", 96),
    (Algorithm::Sha256, "sha256", 64),
    (Algorithm::Sha224, "sha224", 56),
    (Algorithm::Sha1, "sha1", 40),
    (Algorithm::Md5, "md5", 32),
];

impl Algorithm {
    fn named(name: &str) -> Option<Algorithm> {
        let name = name.trim().to_ascii_lowercase().replace('-', "");
        ALL.iter().find(|(_, known, _)| *known == name).map(|(algorithm, ..)| *algorithm)
    }

    /// By how long its digests are, which differs for all of them.
    fn of_length(digits: usize) -> Option<Algorithm> {
        ALL.iter().find(|(.., length)| *length == digits).map(|(algorithm, ..)| *algorithm)
    }

    fn name(self) -> &'static str {
        ALL.iter().find(|(algorithm, ..)| *algorithm == self).map_or("", |(_, name, _)| name)
    }

    fn of(self, content: &[u8]) -> String {
        match self {
            Algorithm::Sha512 => hex(&Sha512::digest(content)),
            Algorithm::Sha384 => hex(&Sha384::digest(content)),
            Algorithm::Sha256 => hex(&Sha256::digest(content)),
            Algorithm::Sha224 => hex(&Sha224::digest(content)),
            Algorithm::Sha1 => hex(&Sha1::digest(content)),
            Algorithm::Md5 => hex(&Md5::digest(content)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The digest of a content, by the name of its algorithm (`sha256`); none for a name that is none.
pub fn digest_of(algorithm: &str, content: &[u8]) -> Option<String> {
    Algorithm::named(algorithm).map(|algorithm| algorithm.of(content))
}

/// A digest that a content is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checksum {
    algorithm: Algorithm,
    digits: String,
}

impl fmt::Display for Checksum {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.algorithm.name(), self.digits)
    }
}

impl Checksum {
    /// `sha256=…`, `sha256:…` or the digits alone. `None`: it is the name of a file of sums.
    pub(crate) fn parse(text: &str) -> Option<Result<Checksum, String>> {
        let text = text.trim();
        if is_hex(text) {
            let wrong = || format!("{} digits are the length of no digest that is known", text.len());
            let known = Algorithm::of_length(text.len());
            return Some(known.map(|algorithm| Checksum::new(algorithm, text)).ok_or_else(wrong));
        }
        let (name, digits) = text.split_once(['=', ':'])?;
        let algorithm = Algorithm::named(name)?;
        let digits = digits.trim();
        let fits = is_hex(digits) && Algorithm::of_length(digits.len()) == Some(algorithm);
        let wrong = || format!("`{digits}` is no {} digest", algorithm.name());
        Some(fits.then(|| Checksum::new(algorithm, digits)).ok_or_else(wrong))
    }

    fn new(algorithm: Algorithm, digits: &str) -> Checksum {
        Checksum { algorithm, digits: digits.to_ascii_lowercase() }
    }

    pub(crate) fn fits(&self, content: &[u8]) -> bool {
        self.algorithm.of(content) == self.digits
    }

    /// What a content has in its stead.
    pub(crate) fn found(&self, content: &[u8]) -> Checksum {
        Checksum { algorithm: self.algorithm, digits: self.algorithm.of(content) }
    }

    /// The sum of a file, out of a text that holds the sums of several. Best is a line that names the file by its whole path, then by
    /// its last name, then a sum that stands alone; among these the strongest. `name` is what is looked for there.
    pub(crate) fn of_file(sums: &str, name: &str) -> Option<Checksum> {
        let wanted = name.trim_start_matches("./");
        let base = base_name(wanted);
        let mut found: Vec<(u8, Checksum)> = Vec::new();
        for line in sums.lines().map(str::trim) {
            let Some((checksum, file)) = sum_line(line) else { continue };
            let rank = match file.map(|file| file.trim_start_matches("./")) {
                Some(file) if file == wanted => 0,
                Some(file) if base_name(file) == base => 1,
                None => 2,
                Some(_) => continue,
            };
            found.push((rank, checksum));
        }
        found.sort_by_key(|(rank, checksum)| (*rank, checksum.algorithm));
        found.into_iter().next().map(|(_, checksum)| checksum)
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `DIGEST  name`, `DIGEST *name`, `SHA256 (name) = DIGEST`, `name: sha256=DIGEST`, `sha256=DIGEST`, `DIGEST`.
fn sum_line(line: &str) -> Option<(Checksum, Option<&str>)> {
    if let Some((algorithm, rest)) = line.split_once(" (")
        && let Some((file, digits)) = rest.rsplit_once(") = ")
    {
        let checksum = Checksum::parse(&format!("{algorithm}={digits}"))?.ok()?;
        return Some((checksum, Some(file)));
    }
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if let Some(Ok(checksum)) = Checksum::parse(first) {
        let file = line[first.len()..].trim_start();
        let file = file.strip_prefix('*').unwrap_or(file);
        return Some((checksum, Some(file).filter(|file| !file.is_empty())));
    }
    // The other way round: the name first.
    let last = words.next_back()?;
    let checksum = Checksum::parse(last)?.ok()?;
    Some((checksum, Some(first.trim_end_matches(':'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    const MD5: &str = "5d41402abc4b2a76b9719d911017c592";
    const SHA1: &str = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d";

    #[test]
    fn a_digest_is_known_by_its_name_or_by_its_length() {
        for text in
            [SHA256.to_string(), format!("sha256={SHA256}"), format!("SHA-256:{}", SHA256.to_uppercase())]
        {
            let checksum = Checksum::parse(&text).unwrap().unwrap();
            assert!(checksum.fits(b"hello") && !checksum.fits(b"other"), "{text}");
        }
        for digits in [MD5, SHA1] {
            assert!(Checksum::parse(digits).unwrap().unwrap().fits(b"hello"));
        }
        for algorithm in ALL {
            let digits = algorithm.0.of(b"x");
            assert_eq!(digits.len(), algorithm.2);
            assert!(Checksum::parse(&digits).unwrap().unwrap().fits(b"x"));
        }
        let checksum = Checksum::parse(MD5).unwrap().unwrap();
        assert_eq!(checksum.found(b"").to_string(), "md5=d41d8cd98f00b204e9800998ecf8427e");
    }

    #[test]
    fn what_is_no_digest_is_said_and_what_names_a_file_is_left_to_others() {
        assert_eq!(Checksum::parse("https://host/SHA256SUMS"), None);
        assert_eq!(Checksum::parse("salt://sums"), None);
        assert!(Checksum::parse("sha256=zz").unwrap().is_err());
        assert!(Checksum::parse(&format!("sha1={SHA256}")).unwrap().is_err());
        assert!(Checksum::parse("abcd").unwrap().unwrap_err().contains("4 digits"));
    }

    #[test]
    fn the_sum_of_a_file_is_found_in_every_usual_form() {
        let other = "0".repeat(64);
        for sums in [
            format!("{other}  a.tar\n{SHA256}  b.tar\n"),
            format!("{other} *a.tar\n{SHA256} *./b.tar\n"),
            format!("SHA256 (a.tar) = {other}\nSHA256 (b.tar) = {SHA256}\n"),
            format!("# sums\na.tar: sha256={other}\nb.tar: sha256={SHA256}\n"),
            format!("{SHA256}\n"),
            format!("sha256={SHA256}"),
            format!("{MD5}  b.tar\n{SHA256}  b.tar\n"),
            format!("{other}  old/b.tar\n{SHA256}  b.tar\n"),
        ] {
            let found = Checksum::of_file(&sums, "b.tar");
            assert_eq!(found.map(|sum| sum.to_string()), Some(format!("sha256={SHA256}")), "{sums}");
        }
        assert_eq!(Checksum::of_file(&format!("{other}  a.tar\n"), "b.tar"), None);
        let path = Checksum::of_file(&format!("{other}  x/b.tar\n{SHA256}  y/b.tar\n"), "y/b.tar");
        assert_eq!(path.map(|sum| sum.digits), Some(SHA256.to_string()));
    }
}
