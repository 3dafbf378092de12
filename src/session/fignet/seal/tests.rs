use std::collections::BTreeSet;

use super::*;
use crate::session::fignet::keys::KEY_BYTES;

const HEADER: [u8; 18] = *b"an 18-byte header!";

fn key(first: u8) -> [u8; KEY_BYTES] {
    std::array::from_fn(|at| first.wrapping_add(at as u8))
}

fn ends(epoch: u32) -> (Seal, Seal) {
    let key = Key::new(key(3));
    (Seal::new(&key, End::Client, epoch), Seal::new(&key, End::Server, epoch))
}

fn sealed(seal: &mut Seal, text: &[u8]) -> Vec<u8> {
    let mut envelope = vec![0xEE; ENVELOPE_BYTES + text.len()];
    envelope[NONCE_BYTES..NONCE_BYTES + text.len()].copy_from_slice(text);
    seal.seal_in_place(&HEADER, &mut envelope).unwrap();
    envelope
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

const SUNSCREEN: &[u8] =
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
                           sunscreen would be it.";

/// RFC 8439, section 2.8.2.
#[test]
fn rfc_8439_aead_vector() {
    let cipher = ChaCha20Poly1305::new(&key(0x80).into());
    let nonce = hex("07000000 4041424344454647").try_into().unwrap();
    let mut text = SUNSCREEN.to_vec();
    let tag = encrypt(&cipher, nonce, &hex("50515253c0c1c2c3c4c5c6c7"), &mut text);
    let expected = "d31a8d34648e60db7b86afbc53ef7ec2 a4aded51296e08fea9e2b5a736ee62d6
                    3dbea45e8ca9671282fafb69da92728b 1a71de0a9e060b2905d6a5b67ecd3b36
                    92ddbd7f2d778b8c9803aee328091b58 fab324e4fad675945585808b4831d7bc
                    3ff4def08e4b7a9de576d26586cec64b 6116";
    assert_eq!(text, hex(expected));
    assert_eq!(tag.to_vec(), hex("1ae10b594f09e26a7e902ecbd0600691"));
}

/// RFC 8439, section 2.4.2: the text is encrypted with the key stream from block 1 on.
#[test]
fn rfc_8439_cipher_vector() {
    let cipher = ChaCha20Poly1305::new(&key(0).into());
    let nonce = hex("000000000000004a00000000").try_into().unwrap();
    let mut text = SUNSCREEN.to_vec();
    encrypt(&cipher, nonce, b"", &mut text);
    let expected = "6e2e359a2568f98041ba0728dd0d6981 e97e7aec1d4360c20a27afccfd9fae0b
                    f91b65c5524733ab8f593dabcd62b357 1639d624e65152ab8f530c359f0861d8
                    07ca0dbf500d6a6156a38e088a22b65e 52bc514d16ccf806818ce91ab7793736
                    5af90bbf74a35be6b40b8eedf2785e42 874d";
    assert_eq!(text, hex(expected));
}

#[test]
fn both_directions_carry_texts_of_every_length() {
    let (mut client, mut server) = ends(1_700_000_000);
    let text: Vec<u8> = (0..=255).cycle().take(1200).collect();
    for len in (0..200).chain([1100, 1172]) {
        let mut there = sealed(&mut client, &text[..len]);
        assert_eq!(there[..4], [0; 4]);
        assert_eq!(server.open_in_place(&HEADER, &mut there), Ok(&mut text.clone()[..len]));
        let mut back = sealed(&mut server, &text[..len]);
        assert_eq!(back[..4], [1, 0, 0, 0]);
        assert_eq!(client.open_in_place(&HEADER, &mut back), Ok(&mut text.clone()[..len]));
    }
    assert_eq!(server.remaining(), (1 << 32) - 202);
}

/// Any flipped bit of header, nonce, ciphertext or tag drops the packet, and neither the buffer nor the seal has
/// changed: the genuine packet still opens afterwards, once.
#[test]
fn a_flipped_bit_anywhere_changes_nothing() {
    let (mut client, mut server) = ends(9);
    for filler in 0..3 {
        let mut other = sealed(&mut client, &[filler; 8]);
        server.open_in_place(&HEADER, &mut other).unwrap();
    }
    let genuine = sealed(&mut client, b"a payload of some bytes");
    let before = (server.window.clone(), server.next);
    for bit in 0..(HEADER.len() + genuine.len()) * 8 {
        let (mut header, mut envelope) = (HEADER, genuine.clone());
        let at = bit / 8;
        match at.checked_sub(HEADER.len()) {
            None => header[at] ^= 1 << (bit % 8),
            Some(at) => envelope[at] ^= 1 << (bit % 8),
        }
        let damaged = envelope.clone();
        assert!(server.open_in_place(&header, &mut envelope).is_err(), "bit {bit}");
        assert_eq!(envelope, damaged, "bit {bit}");
        assert_eq!((server.window.clone(), server.next), before, "bit {bit}");
    }
    assert!(server.open_in_place(&HEADER[..17], &mut genuine.clone()).is_err(), "a shorter header");
    for len in 0..genuine.len() {
        assert!(server.open_in_place(&HEADER, &mut genuine.clone()[..len]).is_err(), "cut to {len}");
    }
    assert!(server.open_in_place(&HEADER, &mut genuine.clone()).is_ok());
    assert_eq!(server.open_in_place(&HEADER, &mut genuine.clone()), Err(OpenError::Replayed));
}

#[test]
fn replays_and_reflections_are_refused_and_reordering_is_not() {
    let (mut client, mut server) = ends(0);
    let packets: Vec<_> = (0..1025u32).map(|n| sealed(&mut client, &n.to_le_bytes())).collect();
    for at in [1, 0, 5, 3] {
        assert!(server.open_in_place(&HEADER, &mut packets[at].clone()).is_ok());
        assert_eq!(server.open_in_place(&HEADER, &mut packets[at].clone()), Err(OpenError::Replayed));
    }
    assert!(server.open_in_place(&HEADER, &mut packets[1024].clone()).is_ok());
    assert_eq!(server.open_in_place(&HEADER, &mut packets[0].clone()), Err(OpenError::Replayed));
    assert!(server.open_in_place(&HEADER, &mut packets[2].clone()).is_ok(), "late, but within the window");
    assert_eq!(client.open_in_place(&HEADER, &mut packets[7].clone()), Err(OpenError::Direction));
}

#[test]
fn another_key_opens_nothing() {
    let (mut client, _) = ends(0);
    let mut stranger = Seal::new(&Key::new(key(4)), End::Server, 0);
    assert_eq!(stranger.open_in_place(&HEADER, &mut sealed(&mut client, b"hello")), Err(OpenError::Forged));
    assert_eq!(stranger.window, ReplayWindow::new());
}

/// Both ends, twice started with the very same key: every nonce is another one.
#[test]
fn no_nonce_repeats_across_a_restart() {
    let mut nonces = BTreeSet::new();
    let mut count = 0;
    for started_at_s in [1_700_000_000, 1_700_000_001] {
        let (client, server) = ends(started_at_s);
        for mut end in [client, server] {
            for _ in 0..3000 {
                nonces.insert(sealed(&mut end, b"")[..NONCE_BYTES].to_vec());
                count += 1;
            }
        }
    }
    assert_eq!(nonces.len(), count);
}

/// The last counter of an epoch is used, and then none: neither 0 again nor the next epoch's.
#[test]
fn an_exhausted_counter_refuses() {
    for epoch in [0, 7, u32::MAX] {
        let (mut client, _) = ends(epoch);
        client.next = Some(u64::from(epoch) << 32 | 0xFFFF_FFFE);
        assert_eq!(client.remaining(), 2);
        let mut envelope = [0; ENVELOPE_BYTES];
        assert_eq!(client.seal_in_place(&HEADER, &mut envelope), Ok(()));
        assert_eq!(client.seal_in_place(&HEADER, &mut envelope), Ok(()));
        assert_eq!(envelope[4..8], [0xFF; 4]);
        assert_eq!(envelope[8..12], epoch.to_le_bytes());
        let last = envelope;
        assert_eq!(client.seal_in_place(&HEADER, &mut envelope), Err(Exhausted));
        assert_eq!(envelope, last, "untouched");
        assert_eq!(client.remaining(), 0);
    }
}
