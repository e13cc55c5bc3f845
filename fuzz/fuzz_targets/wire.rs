//! Whatever arrives on a control connection: frames cut out of arbitrary bytes, then messages.
//! Nothing may panic, and what decodes must encode to the same bytes.
#![no_main]

use hvd_wire::frame::Assembler;
use hvd_wire::{MergedRequestLists, MessageKind, ReadyNotice, RequestList, ResponseList};
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
    if let Ok(list) = RequestList::decode(bytes) {
        list.encode(&mut again);
        assert_eq!(again, bytes);
    }
    again.clear();
    if let Ok(notice) = ReadyNotice::decode(bytes) {
        notice.encode(&mut again);
        assert_eq!(again, bytes);
    }
    if let Ok((_, message)) = MessageKind::split(bytes) {
        assert_eq!(message.len() + 1, bytes.len());
    }
    again.clear();
    if let Ok(merged) = MergedRequestLists::decode(bytes) {
        merged.encode(&mut again);
        assert_eq!(again, bytes);
    }
    again.clear();
    if let Ok(list) = ResponseList::decode(bytes) {
        list.encode(&mut again);
        assert_eq!(again, bytes);
    }
}
