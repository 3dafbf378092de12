use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// A frame of `body`, pushed whole.
fn frame(body: &[u8]) -> Frame {
    let mut bytes = (body.len() as u16).to_le_bytes().to_vec();
    bytes.extend(body);
    let mut rest = &bytes[..];
    let frame = FrameReader::new().push(&mut rest).expect("a whole frame").expect("a good length");
    assert!(rest.is_empty());
    frame
}

fn login_body(version: u8, name: &[u8]) -> Vec<u8> {
    let [l0, l1] = (name.len() as u16).to_le_bytes();
    [&[1, version, l0, l1], name].concat()
}

fn emitted(emit: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut out = [0xEE; MESSAGE_BYTES_MAX];
    let len = emit(&mut out);
    out[..len].to_vec()
}

const LOGIN_MALFORMED: Result<ClientMessage, StreamError> =
    Err(StreamError::Malformed(MessageKind::LoginRequest));

#[test]
fn a_frame_may_come_byte_by_byte_or_with_the_next() {
    let bytes = [emitted(|out| ClientMessage::login(name("Ada")).emit(out)), vec![2, 0, 4, 3]].concat();
    let expected = [ClientMessage::login(name("Ada")), ClientMessage::Logout(LogoutReason::Timeout)];
    for step in 1..=bytes.len() {
        let mut reader = FrameReader::new();
        let mut messages = Vec::new();
        for chunk in bytes.chunks(step) {
            let mut rest = chunk;
            while let Some(frame) = reader.push(&mut rest) {
                messages.push(frame.unwrap().client_message().unwrap());
            }
            assert!(rest.is_empty());
        }
        assert_eq!(messages, expected, "{step} bytes at a time");
        assert!(!reader.is_inside());
    }
}

#[test]
fn a_cut_message_is_no_frame() {
    let bytes = emitted(|out| ClientMessage::login(name("Ada")).emit(out));
    for len in 0..bytes.len() {
        let mut reader = FrameReader::new();
        assert_eq!(reader.push(&mut &bytes[..len]), None);
        assert_eq!(reader.is_inside(), len > 0);
    }
}

/// A length of 0, or above 4096, is told with its second byte, before any of the body (1.3, field case 20).
#[test]
fn case_20_bad_lengths_are_told_at_once() {
    for (len, error) in [
        (0, StreamError::Empty),
        (4097, StreamError::TooLarge),
        (0x8000, StreamError::TooLarge),
        (u16::MAX, StreamError::TooLarge),
    ] {
        let mut reader = FrameReader::new();
        let [low, high] = u16::to_le_bytes(len);
        assert_eq!(reader.push(&mut &[low][..]), None);
        assert_eq!(reader.push(&mut &[high][..]), Some(Err(error)), "length {len}");
        // Nothing but the error from then on, and a loop over what arrived ends.
        let mut rest = &[2, 0, 4, 0][..];
        assert_eq!(reader.push(&mut rest), Some(Err(error)));
        assert!(rest.is_empty());
        assert_eq!(reader.push(&mut rest), None);
    }
}

#[test]
fn the_longest_message_is_counted_not_kept() {
    let mut bytes = 4096u16.to_le_bytes().to_vec();
    bytes.extend(login_body(1, &[b'x'; 4092]));
    bytes.extend([2, 0, 4, 0]);
    let mut rest = &bytes[..];
    let mut reader = FrameReader::new();
    let first = reader.push(&mut rest).unwrap().unwrap();
    let login = ClientMessage::LoginRequest { version: 1, name: Err(NameError::TooLong) };
    assert_eq!(first.client_message(), Ok(login));
    let second = reader.push(&mut rest).unwrap().unwrap();
    assert_eq!(second.client_message(), Ok(ClientMessage::Logout(LogoutReason::Quit)));
}

/// A name of any length up to what a message can hold is well-formed (6.5): refused, not malformed.
#[test]
fn a_bad_name_is_refused_and_not_malformed() {
    for len in 0..200 {
        let result = frame(&login_body(1, &vec![b'x'; len])).client_message();
        let Ok(ClientMessage::LoginRequest { version: 1, name }) = result else {
            panic!("{len} bytes: {result:?}")
        };
        match len {
            0 => assert_eq!(name, Err(NameError::Empty)),
            1..=16 => assert_eq!(name.unwrap().as_bytes().len(), len),
            _ => assert_eq!(name, Err(NameError::TooLong)),
        }
    }
    let refused = |bytes: &[u8]| match frame(&login_body(1, bytes)).client_message() {
        Ok(ClientMessage::LoginRequest { name, .. }) => name.unwrap_err(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(b"\xFF\xFE"), NameError::Encoding);
    assert_eq!(refused("fifteen bytes..\u{e9}".as_bytes().split_last().unwrap().1), NameError::Encoding);
    assert_eq!(refused(b"a\x1Bb"), NameError::Control);
}

/// Another version is told along with the name, so that the session can check it first (3.2).
#[test]
fn another_version_is_well_formed() {
    let result = frame(&login_body(2, b"")).client_message();
    assert_eq!(result, Ok(ClientMessage::LoginRequest { version: 2, name: Err(NameError::Empty) }));
}

#[test]
fn a_login_request_whose_string_does_not_fill_it_is_malformed() {
    let whole = login_body(1, b"Ada");
    for len in 1..whole.len() {
        assert_eq!(frame(&whole[..len]).client_message(), LOGIN_MALFORMED, "{len} bytes");
    }
    assert_eq!(
        frame(&[&whole[..], &[0]].concat()).client_message(),
        LOGIN_MALFORMED,
        "a byte after the name"
    );
    for announced in [0, 2, 4, 16, 17, 60_000, u16::MAX] {
        let mut body = whole.clone();
        body[2..4].copy_from_slice(&announced.to_le_bytes());
        assert_eq!(frame(&body).client_message(), LOGIN_MALFORMED, "a string of {announced} in 3 bytes");
    }
    // Longer than what is kept, with a length that is off by one.
    let mut body = login_body(1, &[b'x'; 40]);
    body[2] = 39;
    assert_eq!(frame(&body).client_message(), LOGIN_MALFORMED);
}

#[test]
fn unknown_kinds_are_told() {
    for kind in (0..=255u8).filter(|kind| !(1..=4).contains(kind)) {
        for body in [&[kind][..], &[kind; 30]] {
            assert_eq!(frame(body).client_message(), Err(StreamError::UnknownKind(kind)));
            assert_eq!(frame(body).server_message(), Err(StreamError::UnknownKind(kind)));
        }
    }
}

#[test]
fn messages_of_the_wrong_direction_are_unexpected() {
    for (body, kind) in [(2, MessageKind::LoginAccepted), (3, MessageKind::LoginRejected)] {
        assert_eq!(frame(&[body]).client_message(), Err(StreamError::Unexpected(kind)));
    }
    let request = frame(&login_body(1, b"Ada")).server_message();
    assert_eq!(request, Err(StreamError::Unexpected(MessageKind::LoginRequest)));
}

#[test]
fn reason_messages_have_exactly_one_byte() {
    for (kind_byte, kind) in [(3, MessageKind::LoginRejected), (4, MessageKind::Logout)] {
        for len in (1..60).filter(|&len| len != 2) {
            let mut body = vec![0; len];
            body[0] = kind_byte;
            assert_eq!(frame(&body).server_message(), Err(StreamError::Malformed(kind)), "{len} bytes");
        }
    }
    assert_eq!(frame(&[4]).client_message(), Err(StreamError::Malformed(MessageKind::Logout)));
    assert_eq!(frame(&[4, 0, 0]).client_message(), Err(StreamError::Malformed(MessageKind::Logout)));
}

/// Unknown reasons have a meaning, and the connection goes on (6.5).
#[test]
fn unknown_reasons_are_read_as_the_general_one() {
    for reason in 0..=255u8 {
        let logout = match reason {
            1 => LogoutReason::ServerShutdown,
            2 => LogoutReason::ProtocolError,
            3 => LogoutReason::Timeout,
            4 => LogoutReason::Kicked,
            _ => LogoutReason::Quit,
        };
        assert_eq!(frame(&[4, reason]).client_message(), Ok(ClientMessage::Logout(logout)));
        assert_eq!(frame(&[4, reason]).server_message(), Ok(ServerMessage::Logout(logout)));
        let rejected = match reason {
            1 => RejectReason::BadVersion,
            2 => RejectReason::BadName,
            3 => RejectReason::ServerFull,
            4 => RejectReason::ShuttingDown,
            5 => RejectReason::RateLimited,
            _ => RejectReason::Refused,
        };
        assert_eq!(frame(&[3, reason]).server_message(), Ok(ServerMessage::LoginRejected(rejected)));
    }
}

#[test]
fn a_login_accepted_of_invalid_values_or_another_size_is_malformed() {
    let good = [2, 1, 0, 0, 0, 0x93, 0x10, 3, 60, 3];
    assert!(frame(&good).server_message().is_ok());
    let malformed = Err(StreamError::Malformed(MessageKind::LoginAccepted));
    for (at, value) in [(1, 0), (7, 4), (7, 255), (8, 0), (9, 0)] {
        let mut body = good;
        body[at] = value;
        assert_eq!(frame(&body).server_message(), malformed, "byte {at} is {value}");
    }
    for len in 1..good.len() {
        assert_eq!(frame(&good[..len]).server_message(), malformed, "{len} bytes");
    }
    for extra in 1..40 {
        assert_eq!(frame(&[&good[..], &vec![0; extra]].concat()).server_message(), malformed, "{extra} more");
    }
}

/// The reasons that a log line gives (6.7).
#[test]
fn errors_read_as_a_log_line_says_them() {
    assert_eq!(StreamError::TooLarge.to_string(), "message too large");
    assert_eq!(StreamError::Malformed(MessageKind::LoginRequest).to_string(), "malformed LoginRequest");
    assert_eq!(StreamError::Unexpected(MessageKind::Logout).to_string(), "unexpected Logout");
    assert_eq!(StreamError::Empty.to_string(), "empty message");
    assert_eq!(StreamError::UnknownKind(9).to_string(), "unknown kind 9");
}

fn logouts() -> impl Strategy<Value = LogoutReason> {
    use LogoutReason::{Kicked, ProtocolError, Quit, ServerShutdown, Timeout};
    prop::sample::select(vec![Quit, ServerShutdown, ProtocolError, Timeout, Kicked])
}

fn server_messages() -> impl Strategy<Value = ServerMessage> {
    use RejectReason::{BadName, BadVersion, RateLimited, Refused, ServerFull, ShuttingDown};
    let rejects =
        prop::sample::select(vec![Refused, BadVersion, BadName, ServerFull, ShuttingDown, RateLimited]);
    prop_oneof![
        (1..=u32::MAX, any::<u16>(), 0..4u8, 1..=255u8, 1..=255u8).prop_map(
            |(session, udp_port, player, tick_rate, snapshot_interval)| ServerMessage::LoginAccepted {
                session,
                udp_port,
                player: PlayerId::new(player).unwrap(),
                tick_rate,
                snapshot_interval,
            }
        ),
        rejects.prop_map(ServerMessage::LoginRejected),
        logouts().prop_map(ServerMessage::Logout),
    ]
}

fn client_messages() -> impl Strategy<Value = ClientMessage> {
    let names = "\\PC{1,16}".prop_filter_map("a name", |text| Name::new(text.as_bytes()).ok());
    prop_oneof![
        (any::<u8>(), names)
            .prop_map(|(version, name)| ClientMessage::LoginRequest { version, name: Ok(name) }),
        logouts().prop_map(ClientMessage::Logout),
    ]
}

proptest! {
    #[test]
    fn messages_are_read_as_written(client in client_messages(), server in server_messages()) {
        let bytes = emitted(|out| client.emit(out));
        prop_assert_eq!(frame(&bytes[2..]).client_message(), Ok(client));
        let bytes = emitted(|out| server.emit(out));
        prop_assert_eq!(frame(&bytes[2..]).server_message(), Ok(server));
    }

    /// Random bytes in random pieces: no panic, no endless loop, no byte left behind.
    #[test]
    fn random_streams_do_no_harm(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20)) {
        let mut reader = FrameReader::new();
        for piece in &pieces {
            let mut rest = &piece[..];
            while let Some(result) = reader.push(&mut rest) {
                if let Ok(frame) = result {
                    let _ = (frame.client_message(), frame.server_message());
                }
            }
            prop_assert!(rest.is_empty());
        }
    }
}
