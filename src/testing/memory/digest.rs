//! The hash by which ZooKeeper knows a password: SHA-1, in Base64.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns "user:hash" for "user:password".
pub(super) fn of_credentials(credentials: &str) -> String {
    let user = credentials.split(':').next().unwrap_or_default();
    format!("{user}:{}", base64(&sha1(credentials.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            (0..3).fold(0, |bits, index| bits << 8 | u32::from(chunk.get(index).copied().unwrap_or(0)));
        for index in 0..4 {
            let sextet = (bits >> (18 - 6 * index) & 0x3f) as usize;
            text.push(if index <= chunk.len() { char::from(ALPHABET[sextet]) } else { '=' });
        }
    }
    text
}

fn sha1(message: &[u8]) -> [u8; 20] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((message.len() as u64 * 8).to_be_bytes());

    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for index in 16..80 {
            let mixed = words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16];
            words[index] = mixed.rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (index, word) in words.into_iter().enumerate() {
            let (choice, constant) = match index / 20 {
                0 => (b & c | !b & d, 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(choice)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, value) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(value);
        }
    }
    let mut hash = [0; 20];
    for (bytes, word) in hash.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(message: &[u8]) -> String {
        sha1(message).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_hash_is_sha1() {
        assert_eq!(hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex(&[b'a'; 1_000]), "291e9a6c66994949b57ba5e650361e98fc36b1ba");
    }

    #[test]
    fn base64_is_padded() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn a_digest_is_the_user_and_a_hash_of_everything() {
        // As zkCli shows it after `addauth digest super:admin`.
        assert_eq!(of_credentials("super:admin"), "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");
    }
}
