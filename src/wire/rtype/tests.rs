use super::handshake::Handshake;

/// Section 11.1 and 11.2, to the byte.
#[test]
fn the_example_handshakes() {
    let mut out = [0; 10];
    assert_eq!((Handshake::Hello.emit(&mut out), &out[..6]), (6, &b"RTYP\x01\x01"[..]));
    assert_eq!(Handshake::Welcome { connection: 1 }.emit(&mut out), 10);
    assert_eq!(out, *b"RTYP\x01\x02\x00\x00\x00\x01");
    assert_eq!(Handshake::parse(b"RTYP\x01\x01"), Ok(Handshake::Hello));
    assert_eq!(Handshake::parse(&out), Ok(Handshake::Welcome { connection: 1 }));
}
