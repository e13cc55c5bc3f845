//! Whatever arrives on a control connection: frames cut out of arbitrary bytes, then messages.
//! Nothing may panic, and what decodes must encode to the same bytes.
#![no_main]

use hvd_wire::frame::Assembler;
use hvd_wire::{Gathered, Kind, Note, Ready, Verdict};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut assembler = Assembler::default();
    for piece in bytes.chunks(7) {
        assembler.push(piece);
        while let Ok(Some(message)) = assembler.next_message() {
            round_trip(message);
        }
    }
    round_trip(bytes);
});

fn round_trip(bytes: &[u8]) {
    let mut again = Vec::new();
    if let Ok(ready) = Ready::decode(bytes) {
        ready.encode(&mut again);
        assert_eq!(again, bytes);
    }
    again.clear();
    if let Ok(note) = Note::decode(bytes) {
        note.encode(&mut again);
        assert_eq!(again, bytes);
    }
    if let Ok((_, message)) = Kind::split(bytes) {
        assert_eq!(message.len() + 1, bytes.len());
    }
    again.clear();
    if let Ok(gathered) = Gathered::decode(bytes) {
        gathered.encode(&mut again);
        assert_eq!(again, bytes);
    }
    again.clear();
    if let Ok(verdict) = Verdict::decode(bytes) {
        verdict.encode(&mut again);
        assert_eq!(again, bytes);
    }
}
