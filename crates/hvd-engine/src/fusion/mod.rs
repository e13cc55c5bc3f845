//! Small tensors travel together: which ones ([`batches`]) and in what memory (the executor's
//! buffer, which grows to the largest fused operation and is kept).

pub(crate) mod batches;
