//! Asking other ranks how they stand. The question and the answer travel on the lifelines, whose
//! thread answers even while a rank's engine is in the middle of an operation and its program does
//! something else. What is said is none of the transport's business: it is bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use hvd_rendezvous::deadline;
use hvd_types::Rank;

use super::{Lifeline, Order, Orders};

/// The most bytes of an answer.
pub const LONGEST_ANSWER: usize = 60 * 1024;

/// What a rank says when it is asked. Called on the thread of the lifelines, so it must be quick
/// and wait for nobody.
#[derive(Clone)]
pub struct Witness(Arc<dyn Fn() -> Vec<u8> + Send + Sync>);

impl Witness {
    /// A witness that says what `tell` returns; of more than [`LONGEST_ANSWER`] nothing is said.
    pub fn new(tell: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// The answer.
    pub fn tell(&self) -> Vec<u8> {
        let answer = (self.0)();
        if answer.len() > LONGEST_ANSWER {
            return Vec::new();
        }
        answer
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

/// Where an answer goes.
pub(super) type Reply = mpsc::Sender<(Rank, Vec<u8>)>;

/// Asks ranks. Rank 0 reaches all others, they reach rank 0 only.
#[derive(Debug, Clone)]
pub struct Inquiry {
    me: Rank,
    witness: Witness,
    /// None in a job of one rank.
    orders: Option<Arc<Orders>>,
    last: Arc<AtomicU32>,
}

impl Inquiry {
    /// From now on `witness` answers here, and this rank, `me`, may ask.
    pub fn open(me: Rank, lifeline: Option<&Lifeline>, witness: Witness) -> Self {
        let orders = lifeline.map(|lifeline| Arc::clone(&lifeline.orders));
        if let Some(orders) = &orders {
            // The first witness stays; there is one engine to a mesh.
            let _ = orders.witness.set(witness.clone());
        }
        Self {
            me,
            witness,
            orders,
            last: Arc::default(),
        }
    }

    /// Asks `ranks` and waits until all have answered or `limit` has passed. Whoever has not
    /// answered by then is left out.
    pub fn ask(&self, ranks: &[Rank], limit: Duration) -> BTreeMap<Rank, Vec<u8>> {
        let end = deadline::after(limit);
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (reply, answers) = mpsc::channel();
        let others: Vec<Rank> = ranks.iter().copied().filter(|&it| it != self.me).collect();
        let mut waiting = others.len();
        let mut heard = BTreeMap::new();
        if let Some(orders) = &self.orders {
            orders.give(Order::Ask {
                number,
                ranks: others,
                reply,
            });
        }
        if ranks.contains(&self.me) {
            heard.insert(self.me, self.witness.tell());
        }
        while waiting > 0 {
            let left = end.saturating_duration_since(Instant::now());
            let Ok((rank, answer)) = answers.recv_timeout(left) else {
                break;
            };
            heard.insert(rank, answer);
            waiting -= 1;
        }
        if let Some(orders) = &self.orders {
            orders.give(Order::Forget(number));
        }
        heard
    }
}
