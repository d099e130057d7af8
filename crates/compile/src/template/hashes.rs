//! Digests that templates ask for, in hexadecimal.

use sha2::{Digest, Sha256, Sha512};

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of a text by the name of its algorithm.
pub fn digest(algorithm: &str, text: &str) -> Option<String> {
    Some(match algorithm {
        "md5" => hexadecimal(&md5(text.as_bytes())),
        "sha256" => hexadecimal(&Sha256::digest(text.as_bytes())),
        "sha512" => hexadecimal(&Sha512::digest(text.as_bytes())),
        _ => return None,
    })
}

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// RFC 1321. Formulas fingerprint configuration with it; nothing of ours trusts it.
fn md5(message: &[u8]) -> [u8; 16] {
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let bits = (message.len() as u64).wrapping_mul(8);
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() < message.len() + 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&bits.to_le_bytes());
    for block in padded.chunks_exact(64) {
        round(&mut state, block);
    }
    let mut digest = [0; 16];
    for (place, word) in digest.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

fn round(state: &mut [u32; 4], block: &[u8]) {
    let word = |index: usize| {
        let bytes = block.iter().skip(index * 4).take(4);
        bytes.rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte))
    };
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let (mixed, at) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let sine = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(mixed).wrapping_add(sine).wrapping_add(word(at));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4]));
    }
    for (old, new) in state.iter_mut().zip([a, b, c, d]) {
        *old = old.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-10")]
    fn s10_digests_are_those_of_the_standards() {
        for (text, wanted) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(digest("md5", text).as_deref(), Some(wanted), "{text}");
        }
        // Around the edges of a block, where padding goes wrong.
        let lengths: Vec<String> = (54..=66).map(|length| "a".repeat(length)).collect();
        let mut seen: Vec<Option<String>> = lengths.iter().map(|text| digest("md5", text)).collect();
        seen.dedup();
        assert_eq!(seen.len(), lengths.len());
        assert_eq!(digest("md5", &"a".repeat(64)).as_deref(), Some("014842d480b571495a4a0363793f7367"));
        let short = digest("sha256", "abc").unwrap_or_default();
        assert!(short.starts_with("ba7816bf"), "{short}");
        assert!(digest("sha512", "abc").is_some_and(|it| it.starts_with("ddaf35a1")));
        assert_eq!(digest("crc", "abc"), None);
    }
}
