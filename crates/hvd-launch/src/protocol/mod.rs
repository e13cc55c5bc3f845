//! What the driver and the agent of a host send each other over their link: messages
//! (`message.rs`) and connections of ranks to the key-value store (`tunnel.rs`).

mod message;
mod tunnel;

pub(crate) use message::{
    ASSIGNMENT_LIMIT, AgentNotice, AgentOrder, Assignment, GREETING, INTRODUCTION_LIMIT,
    Introduction, LINK_OVER_STDIO, LINK_OVER_TCP, Opening, RankAssignment, Secret, TAKEN, Urgency,
};
pub(crate) use tunnel::carry;
