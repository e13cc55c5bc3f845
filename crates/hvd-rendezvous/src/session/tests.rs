//! What an attacker on the path can and cannot do to a session.

use proptest::prelude::*;

use super::*;

fn pair() -> (SecureSession, SecureSession) {
    let (one, two) = ([1; 32], [2; 32]);
    let ours = SecureSession::new(&one, &two).unwrap();
    let theirs = SecureSession::new(&two, &one).unwrap();
    (ours, theirs)
}

/// The records of these texts, one each.
fn records(session: &mut SecureSession, texts: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut seal = |text: &&[u8]| {
        let mut record = Vec::new();
        session.sealer.seal(text, &mut record).unwrap();
        record
    };
    texts.iter().map(&mut seal).collect()
}

fn read_all(session: &mut SecureSession, wire: &[u8]) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    session.over(wire).read_to_end(&mut received)?;
    Ok(received)
}

/// What arrives if the records come like this; every text is the number of its record.
fn received(change: impl FnOnce(&mut Vec<Vec<u8>>)) -> io::Result<Vec<u8>> {
    let (mut ours, mut theirs) = pair();
    let mut sent = records(&mut ours, &[b"0", b"1", b"2"]);
    change(&mut sent);
    read_all(&mut theirs, &sent.concat())
}

#[test]
fn seal_2_what_is_changed_left_out_repeated_or_moved_does_not_open() {
    assert_eq!(received(|_| ()).unwrap(), b"012");
    let length = received(|sent| drop(sent.drain(1..))).unwrap().len();
    assert_eq!(length, 1, "a record has one letter");
    for at in 0..HEADER + 1 + TAG {
        let error = received(|sent| sent[1][at] ^= 1).unwrap_err();
        let expected = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof];
        assert!(expected.contains(&error.kind()), "byte {at}: {error}");
    }
    for (what, outcome) in [
        ("left out", received(|sent| drop(sent.remove(0)))),
        ("repeated", received(|sent| sent.insert(1, sent[0].clone()))),
        ("swapped", received(|sent| sent.swap(1, 2))),
    ] {
        assert_eq!(outcome.unwrap_err().to_string(), TAMPERED, "{what}");
    }
    let cut = received(|sent| sent[2].truncate(9)).unwrap_err();
    assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn seal_1_records_of_another_session_or_direction_do_not_open() {
    let (mut ours, mut theirs) = pair();
    let back = records(&mut ours, &[b"text"]).concat();
    assert!(read_all(&mut ours, &back).is_err(), "sent back");
    let mut stranger = SecureSession::new(&[3; 32], &[3; 32]).unwrap();
    let other = records(&mut stranger, &[b"text"]).concat();
    assert!(read_all(&mut theirs, &other).is_err(), "another session");
}

#[test]
fn seal_3_an_impossible_length_is_refused_before_memory_is_taken() {
    for length in [0, 15, LONGEST + TAG + 1, u32::MAX as usize] {
        let (_, mut theirs) = pair();
        let header = u32::try_from(length).unwrap().to_le_bytes();
        let error = read_all(&mut theirs, &header).unwrap_err();
        assert_eq!(error.to_string(), TAMPERED, "{length}");
        assert!(theirs.opener.buffer.len() <= HEADER);
    }
}

#[test]
fn seal_4_both_ends_change_their_key_at_the_same_record() {
    let (mut ours, mut theirs) = pair();
    ours.sealer.0.used = REKEY_AFTER - 1;
    theirs.opener.cipher.used = REKEY_AFTER - 1;
    let wire = records(&mut ours, &[b"last", b" and first"]).concat();
    assert_eq!(read_all(&mut theirs, &wire).unwrap(), b"last and first");
    assert_eq!(ours.sealer.0.used, 1);

    let (mut ours, mut theirs) = pair();
    ours.sealer.0.used = REKEY_AFTER;
    let wire = records(&mut ours, &[b"new key"]).concat();
    assert!(read_all(&mut theirs, &wire).is_err(), "under the old one");
}

#[test]
fn reading_takes_nothing_that_follows_the_record() {
    let (mut ours, mut theirs) = pair();
    let wire = [&records(&mut ours, &[b"sealed"]).concat()[..], b"plain"].concat();
    let mut rest = &wire[..];
    let mut received = [0; 6];
    theirs.over(&mut rest).read_exact(&mut received).unwrap();
    assert_eq!((&received, rest), (b"sealed", &b"plain"[..]));
}

proptest! {
    #[test]
    fn text_comes_back_however_it_is_cut(
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
        pieces in prop::collection::vec(1_usize..300, 1..20),
        room in 1_usize..400,
    ) {
        let (mut ours, mut theirs) = pair();
        let mut wire = Vec::new();
        for text in &texts {
            ours.sealer.seal_all(text, &mut wire).unwrap();
        }
        let (mut rest, mut received, mut pieces) = (&wire[..], Vec::<u8>::new(), pieces.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*pieces.next().unwrap()));
            theirs.opener.room(piece.len())[..piece.len()].copy_from_slice(piece);
            theirs.opener.filled(piece.len());
            rest = after;
            let mut out = vec![0; room];
            loop {
                let is_ready = theirs.opener.is_ready();
                let taken = theirs.opener.take(&mut out).unwrap();
                prop_assert_eq!(is_ready, taken > 0);
                if taken == 0 {
                    break;
                }
                received.extend(&out[..taken]);
            }
        }
        prop_assert_eq!(received, texts.concat());
    }

    #[test]
    fn garbage_never_panics(bytes: Vec<u8>) {
        let (_, mut theirs) = pair();
        let _ = read_all(&mut theirs, &bytes);
    }
}
