//! Messages survive the wire; anything else is refused without harm.

use std::sync::Arc;

use hvd_types::{DType, Device, OpKind, ProcessSetId, Rank, Ranks, ReduceOp, Shape};
use hvd_wire::{
    CacheId, Error, MergedRequestLists, MessageKind, Operation, ReadyNotice, Request, RequestList,
    Response, ResponseList, Schedule, ScheduleCommand, ScheduleHalt, SetChange, SetChangeResult,
    SharedRequest, SharedRequestList, TensorRef, TensorSpec, Tuned,
};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Arc<str>> {
    ".{0,20}".prop_map(Arc::from)
}

fn shape() -> impl Strategy<Value = Shape> {
    prop::collection::vec(any::<u64>(), 0..5).prop_map(Shape::new)
}

fn kind() -> impl Strategy<Value = OpKind> {
    prop::sample::select(OpKind::ALL.to_vec())
}

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::ALL.to_vec())
}

fn reduce_op() -> impl Strategy<Value = ReduceOp> {
    prop::sample::select(ReduceOp::ALL.to_vec())
}

fn device() -> impl Strategy<Value = Device> {
    prop_oneof![Just(Device::Cpu), any::<u16>().prop_map(Device::Gpu)]
}

fn cache_ids() -> impl Strategy<Value = Vec<CacheId>> {
    prop::collection::vec(any::<u64>().prop_map(CacheId), 0..8)
}

/// Factors without NaN, which is not equal to itself.
fn factor() -> impl Strategy<Value = f64> {
    prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::INFINITE
}

prop_compose! {
    fn request()(
        name in name(), kind in kind(), dtype in dtype(), shape in shape(), root in any::<u32>(),
        device in device(), reduce_op in reduce_op(), prescale in factor(), postscale in factor(),
        group in prop::option::of(name()),
    ) -> Request {
        let root = Rank::new(root);
        Request { name, kind, dtype, shape, root, device, reduce_op, prescale, postscale, group }
    }
}

prop_compose! {
    fn tensor_spec()(
        name in name(), cache in prop::option::of(1..u64::MAX), shape in shape(),
        first_dimensions in prop::collection::vec(any::<u64>(), 0..5),
    ) -> TensorSpec {
        TensorSpec { name, cache: cache.map(CacheId), shape, first_dimensions }
    }
}

fn tensor_ref() -> impl Strategy<Value = TensorRef> {
    prop_oneof![
        any::<u64>().prop_map(|id| TensorRef::Cached(CacheId(id))),
        tensor_spec().prop_map(TensorRef::New),
    ]
}

prop_compose! {
    fn operation()(
        kind in kind(), dtype in dtype(), reduce_op in reduce_op(), prescale in factor(),
        postscale in factor(), root in any::<u32>(), divisor in any::<u32>(),
        tensors in prop::collection::vec(tensor_ref(), 0..5),
    ) -> Operation {
        let root = Rank::new(root);
        Operation { kind, dtype, reduce_op, prescale, postscale, root, divisor, tensors }
    }
}

fn response() -> impl Strategy<Value = Response> {
    prop_oneof![
        operation().prop_map(Response::Execute),
        (name(), ".{0,40}").prop_map(|(name, reason)| Response::Refuse { name, reason }),
        any::<u32>().prop_map(|last| Response::Joined {
            last: Rank::new(last)
        }),
    ]
}

fn ranks() -> impl Strategy<Value = Vec<Rank>> {
    prop::collection::vec(any::<u32>().prop_map(Rank::new), 0..6)
}

fn process_set() -> impl Strategy<Value = ProcessSetId> {
    any::<u32>().prop_map(ProcessSetId::new)
}

fn set_change() -> impl Strategy<Value = SetChange> {
    prop_oneof![
        ranks().prop_map(SetChange::Add),
        process_set().prop_map(SetChange::Remove)
    ]
}

fn set_change_result() -> impl Strategy<Value = SetChangeResult> {
    prop_oneof![
        (process_set(), ranks()).prop_map(|(id, ranks)| SetChangeResult::Added { id, ranks }),
        process_set().prop_map(SetChangeResult::Removed),
        ".{0,40}".prop_map(SetChangeResult::Refused),
    ]
}

prop_compose! {
    fn request_list()(
        process_set in process_set(), changes in prop::collection::vec(set_change(), 0..4),
        seen in any::<u64>(), cached in cache_ids(),
        requests in prop::collection::vec(request(), 0..6), shutdown in any::<bool>(),
        halted in prop::option::of(halted()),
    ) -> RequestList {
        RequestList { process_set, seen, cached, requests, changes, shutdown, halted }
    }
}

prop_compose! {
    fn halted()(schedule in any::<u64>(), next in any::<u64>()) -> ScheduleHalt {
        ScheduleHalt { schedule, next }
    }
}

prop_compose! {
    fn schedule()(
        number in any::<u64>(), operations in prop::collection::vec(operation(), 0..4),
    ) -> Schedule {
        Schedule { number, operations }
    }
}

fn schedule_command() -> impl Strategy<Value = ScheduleCommand> {
    prop_oneof![
        schedule().prop_map(ScheduleCommand::Begin),
        any::<u64>().prop_map(ScheduleCommand::Halt),
        halted().prop_map(
            |ScheduleHalt {
                 schedule: number,
                 next,
             }| ScheduleCommand::End { number, next }
        ),
    ]
}

prop_compose! {
    fn ready_notice()(
        schedule in any::<u64>(), operation in any::<u64>(),
        tensors in prop::collection::vec(any::<u8>(), 0..40),
    ) -> ReadyNotice {
        ReadyNotice { schedule, operation, tensors }
    }
}

prop_compose! {
    fn tuned()(
        chunk_bytes in 1..=Tuned::LIMIT, small_allreduce_bytes in 0..=Tuned::LIMIT,
        hierarchical_allreduce in any::<bool>(), hierarchical_allgather in any::<bool>(),
    ) -> Tuned {
        Tuned { chunk_bytes, small_allreduce_bytes, hierarchical_allreduce, hierarchical_allgather }
    }
}

prop_compose! {
    fn response_list()(
        process_set in process_set(), changes in prop::collection::vec(set_change_result(), 0..4),
        sequence in any::<u64>(), evicted in cache_ids(), tuned in prop::option::of(tuned()),
        responses in prop::collection::vec(response(), 0..6),
        schedule in prop::option::of(schedule_command()), shutdown in prop::option::of(any::<u32>()),
    ) -> ResponseList {
        let shutdown = shutdown.map(Rank::new);
        ResponseList { process_set, sequence, evicted, tuned, responses, schedule, changes, shutdown }
    }
}

prop_compose! {
    fn shared_list()(
        list in request_list(), numbers in prop::collection::btree_set(0_u32..50, 1..8),
        each in any::<bool>(), device in device(),
    ) -> SharedRequestList {
        let ranks: Ranks = numbers.into_iter().map(Rank::new).collect();
        let count = if each { ranks.len() } else { 0 };
        let mut list = SharedRequestList { ranks, ..SharedRequestList::of(Rank::new(0), list) };
        for shared in &mut list.requests {
            shared.first_dimensions = vec![3; count];
            shared.devices = vec![device; count];
        }
        list
    }
}

prop_compose! {
    fn merged()(
        lists in prop::collection::vec(shared_list(), 0..4),
        seen in prop::collection::vec((process_set(), any::<u64>()), 0..4), routed in any::<u64>(),
    ) -> MergedRequestLists {
        MergedRequestLists { lists, seen, routed }
    }
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn request_list_round_trips(message in request_list()) {
        let bytes = encoded(|out| message.encode(out));
        prop_assert_eq!(RequestList::decode(&bytes).unwrap(), message);
    }

    #[test]
    fn merged_request_lists_round_trip(message in merged()) {
        let bytes = encoded(|out| message.encode(out));
        prop_assert_eq!(MergedRequestLists::decode(&bytes).unwrap(), message);
    }

    #[test]
    fn response_list_round_trips(message in response_list()) {
        let bytes = encoded(|out| message.encode(out));
        prop_assert_eq!(ResponseList::decode(&bytes).unwrap(), message);
    }

    #[test]
    fn ready_notice_round_trips(message in ready_notice()) {
        let bytes = encoded(|out| {
            out.push(MessageKind::ReadyNotice as u8);
            message.encode(out);
        });
        let (kind, rest) = MessageKind::split(&bytes).unwrap();
        prop_assert_eq!(kind, MessageKind::ReadyNotice);
        prop_assert_eq!(ReadyNotice::decode(rest).unwrap(), message);
        for end in 0..16 {
            prop_assert!(ReadyNotice::decode(&rest[..end]).is_err());
        }
    }

    #[test]
    fn no_shorter_or_longer_message_is_accepted(message in response_list(), extra in any::<u8>()) {
        let mut bytes = encoded(|out| message.encode(out));
        for end in 0..bytes.len() {
            prop_assert!(ResponseList::decode(&bytes[..end]).is_err());
        }
        bytes.push(extra);
        prop_assert!(ResponseList::decode(&bytes).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = RequestList::decode(&bytes);
        let _ = ResponseList::decode(&bytes);
        let _ = MessageKind::split(&bytes).map(|(_, rest)| ReadyNotice::decode(rest));
        let _ = MergedRequestLists::decode(&bytes);
    }
}

#[test]
fn a_list_that_does_not_fit_its_ranks_is_refused() {
    let request = Request {
        name: "w".into(),
        kind: OpKind::Allgather,
        dtype: DType::Float32,
        shape: Shape::new([3]),
        root: Rank::new(0),
        device: Device::Cpu,
        reduce_op: ReduceOp::Sum,
        prescale: 1.0,
        postscale: 1.0,
        group: None,
    };
    let mut list = SharedRequestList {
        ranks: [1, 2, 5].into_iter().map(Rank::new).collect(),
        requests: vec![SharedRequest::from(request)],
        ..SharedRequestList::default()
    };
    let decoded = |list: &SharedRequestList| {
        let merged = MergedRequestLists {
            lists: vec![list.clone()],
            ..MergedRequestLists::default()
        };
        MergedRequestLists::decode(&encoded(|out| merged.encode(out)))
    };
    assert!(decoded(&list).is_ok());
    list.requests[0].first_dimensions = vec![1, 2];
    assert_eq!(decoded(&list), Err(Error::BadRanks));
    assert_eq!(
        decoded(&SharedRequestList::default()),
        Err(Error::BadRanks),
        "no rank says it"
    );
}

#[test]
fn golden_bytes_of_a_ready_message() {
    let request = Request {
        name: "w".into(),
        kind: OpKind::Allreduce,
        dtype: DType::Float32,
        shape: Shape::new([3]),
        root: Rank::new(0),
        device: Device::Cpu,
        reduce_op: ReduceOp::Sum,
        prescale: 1.0,
        postscale: 0.5,
        group: None,
    };
    let list = RequestList {
        seen: 2,
        cached: vec![CacheId(7)],
        requests: vec![request],
        shutdown: true,
        ..RequestList::default()
    };
    let expected: Vec<u8> = [
        &0_u32.to_le_bytes()[..], // the global process set
        &2_u64.to_le_bytes(),     // seen
        &1_u32.to_le_bytes(),     // one cached number
        &7_u64.to_le_bytes(),     //
        &1_u32.to_le_bytes(),     // one request
        &1_u32.to_le_bytes(),     // length of its name
        b"w",                     //
        &[0, 7],                  // allreduce of float32
        &1_u32.to_le_bytes(),     // one dimension
        &3_u64.to_le_bytes(),     //
        &0_u32.to_le_bytes(),     // root
        &(-1_i32).to_le_bytes(),  // CPU
        &[1],                     // sum
        &1.0_f64.to_le_bytes(),   // prescale
        &0.5_f64.to_le_bytes(),   // postscale
        &[0],                     // no group
        &0_u32.to_le_bytes(),     // no change of process sets
        &[1],                     // shutdown
        &[0],                     // no schedule was halted
    ]
    .concat();
    assert_eq!(encoded(|out| list.encode(out)), expected);
}

#[test]
fn sizes_out_of_range_are_refused() {
    let decode = |chunk_bytes, small_allreduce_bytes| {
        let tuned = Tuned {
            chunk_bytes,
            small_allreduce_bytes,
            hierarchical_allreduce: true,
            hierarchical_allgather: false,
        };
        let list = ResponseList {
            tuned: Some(tuned),
            ..ResponseList::default()
        };
        ResponseList::decode(&encoded(|out| list.encode(out)))
    };
    let most = Tuned::LIMIT;
    assert!(decode(1, 0).is_ok() && decode(most, most).is_ok());
    let refused = |size, least| Err(Error::SizeOutOfRange { size, least, most });
    assert_eq!(decode(0, 0), refused(0, 1));
    assert_eq!(decode(most + 1, 0), refused(most + 1, 1));
    assert_eq!(decode(1, u64::MAX), refused(u64::MAX, 0));
}

#[test]
fn a_list_longer_than_its_message_is_refused_before_memory_is_taken() {
    let mut bytes = 0_u64.to_le_bytes().to_vec();
    bytes.extend(u32::MAX.to_le_bytes());
    assert!(RequestList::decode(&bytes).is_err());
}
