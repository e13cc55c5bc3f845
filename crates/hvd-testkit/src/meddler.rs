//! Somebody on the way between two processes of a job: passes connections on, and changes one of
//! them once its handshake is over. Knows the shape of the messages and no key.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Bytes of the messages before the first record.
const HELLO: usize = 54;
const ANSWER: usize = 53;
/// Where the hello says what the connection is for.
const PURPOSE: usize = 5;
/// More than any record has.
const LONGEST: usize = 1 << 20;

/// What is done to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attack {
    /// One bit of its text is changed.
    Flip,
    /// One bit of its length is changed.
    Stretch,
    /// It is left out.
    Drop,
    /// It comes twice.
    Repeat,
    /// It comes after its successor.
    Swap,
    /// A record of another connection comes in its place.
    Replay,
}

impl Attack {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Flip,
        Self::Stretch,
        Self::Drop,
        Self::Repeat,
        Self::Swap,
        Self::Replay,
    ];
}

/// Which way the changed bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the one who connects.
    Forth,
    /// To the one who connects.
    Back,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Forth, Self::Back];
}

/// What is to be changed.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The purpose of the connections, as their hello gives it.
    pub purpose: u8,
    /// Which way.
    pub direction: Direction,
    /// Records that pass before.
    pub after: usize,
    /// What is done to the next.
    pub attack: Attack,
}

/// Records by their way and their number in their connection.
type Records = HashMap<(Direction, usize), Vec<u8>>;

/// Passes connections on until the test ends.
#[derive(Debug, Clone)]
pub struct Meddler {
    plan: Plan,
    /// Those of earlier connections.
    recorded: Arc<Mutex<Records>>,
    /// How often the plan was carried out.
    done: Arc<Mutex<usize>>,
}

impl Meddler {
    /// Somebody with a plan.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            recorded: Arc::default(),
            done: Arc::default(),
        }
    }

    /// How many connections were changed.
    pub fn done(&self) -> usize {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address at which connections to `target` are changed. `bind` is where to listen.
    pub fn before(&self, target: SocketAddr, bind: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(bind)?;
        let address = listener.local_addr()?;
        let this = self.clone();
        spawn("hvd-test-meddler", move || {
            while let Ok((stream, _)) = listener.accept() {
                let this = this.clone();
                let _ = spawn("hvd-test-meddling", move || drop(this.pass(stream, target)));
            }
        })?;
        Ok(address)
    }

    fn pass(&self, connector: TcpStream, target: SocketAddr) -> io::Result<()> {
        let acceptor = TcpStream::connect(target)?;
        connector.set_nodelay(true)?;
        acceptor.set_nodelay(true)?;
        let mut hello = [0; HELLO];
        (&connector).read_exact(&mut hello)?;
        (&acceptor).write_all(&hello)?;
        let is_meant = hello[PURPOSE] == self.plan.purpose;
        let ways = [
            (
                Direction::Forth,
                connector.try_clone()?,
                acceptor.try_clone()?,
            ),
            (Direction::Back, acceptor, connector),
        ];
        for (direction, from, to) in ways {
            let this = self.clone();
            spawn("hvd-test-way", move || {
                if is_meant {
                    let _ = this.meddle(direction, &from, &to);
                } else {
                    let _ = io::copy(&mut &from, &mut &to);
                }
                // The other way ends by itself, as it would without somebody between.
                let _ = to.shutdown(Shutdown::Write);
            })?;
        }
        Ok(())
    }

    fn meddle(
        &self,
        direction: Direction,
        mut from: &TcpStream,
        mut to: &TcpStream,
    ) -> io::Result<()> {
        if direction == Direction::Back {
            let mut answer = [0; ANSWER];
            from.read_exact(&mut answer)?;
            to.write_all(&answer)?;
        }
        for number in 0.. {
            let record = read_record(from)?;
            let before = self.record(direction, number, &record);
            if direction != self.plan.direction || number != self.plan.after {
                to.write_all(&record)?;
                continue;
            }
            *self.done.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            to.write_all(&self.change(record, before, from)?)?;
        }
        Ok(())
    }

    /// Keeps a record and returns one of another connection with the same number.
    fn record(&self, direction: Direction, number: usize, record: &[u8]) -> Option<Vec<u8>> {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.insert((direction, number), record.to_vec())
    }

    fn change(
        &self,
        mut record: Vec<u8>,
        other: Option<Vec<u8>>,
        from: &TcpStream,
    ) -> io::Result<Vec<u8>> {
        let middle = 4 + (record.len() - 4) / 2;
        match self.plan.attack {
            Attack::Flip => record[middle] ^= 1,
            Attack::Stretch => record[0] ^= 1,
            Attack::Drop => record.clear(),
            Attack::Repeat => record.extend_from_within(..),
            Attack::Swap => record.splice(..0, read_record(from)?).for_each(drop),
            // Without another connection so far, one's own length in zeros.
            Attack::Replay => record = other.unwrap_or_else(|| zeros(&record)),
        }
        Ok(record)
    }
}

fn zeros(record: &[u8]) -> Vec<u8> {
    let mut zeros = record.to_vec();
    zeros[4..].fill(0);
    zeros
}

fn read_record(mut from: &TcpStream) -> io::Result<Vec<u8>> {
    let mut record = vec![0; 4];
    from.read_exact(&mut record)?;
    let length = u32::from_le_bytes([record[0], record[1], record[2], record[3]]) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    record.resize(4 + length, 0);
    from.read_exact(&mut record[4..])?;
    Ok(record)
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map(drop)
}
