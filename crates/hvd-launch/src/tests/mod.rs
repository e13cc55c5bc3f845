//! Tests that need both ends of the link between driver and agent, which must not know each other.

mod agent_link;
mod refusals;
mod tampering;
mod tunnel;
