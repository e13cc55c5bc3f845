//! A proxy between two processes of a job that forwards connections and tampers with one of their
//! records after the handshake. Knows the shape of the messages and no key.

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
    /// The record of the same number of an earlier connection comes in its place. Connections of
    /// which there is no earlier one pass unchanged, and are recorded.
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

/// The direction of the changed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the connector.
    Forth,
    /// To the connector.
    Back,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Forth, Self::Back];
}

/// Which record is changed, and how.
#[derive(Debug, Clone, Copy)]
pub struct Tampering {
    /// The purpose of the connections, as their hello gives it.
    pub purpose: u8,
    /// In which direction.
    pub direction: Direction,
    /// Records that pass before.
    pub after: usize,
    /// What is done to the next.
    pub attack: Attack,
}

/// Records by their direction and their number in their connection.
type Records = HashMap<(Direction, usize), Vec<u8>>;

/// Forwards connections until the test ends.
#[derive(Debug, Clone)]
pub struct TamperingProxy {
    tampering: Tampering,
    /// Those of earlier connections.
    recorded: Arc<Mutex<Records>>,
    /// How often a record was changed.
    done: Arc<Mutex<usize>>,
}

impl TamperingProxy {
    /// A proxy that changes what `tampering` says.
    pub fn new(tampering: Tampering) -> Self {
        Self {
            tampering,
            recorded: Arc::default(),
            done: Arc::default(),
        }
    }

    /// How many connections were changed.
    pub fn done(&self) -> usize {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the next connection can be tampered with: for a replay, another one must have sent
    /// as many records before.
    pub fn is_ready(&self) -> bool {
        let Tampering {
            direction,
            after,
            attack,
            ..
        } = self.tampering;
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        attack != Attack::Replay || recorded.contains_key(&(direction, after))
    }

    /// Listens at `bind` and forwards to `target`; returns the address to connect to.
    pub fn in_front_of(&self, target: SocketAddr, bind: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(bind)?;
        let address = listener.local_addr()?;
        let this = self.clone();
        spawn("hvd-test-proxy", move || {
            while let Ok((stream, _)) = listener.accept() {
                let this = this.clone();
                let _ = spawn("hvd-test-tamper", move || {
                    drop(this.forward(stream, target));
                });
            }
        })?;
        Ok(address)
    }

    fn forward(&self, connector: TcpStream, target: SocketAddr) -> io::Result<()> {
        let acceptor = TcpStream::connect(target)?;
        connector.set_nodelay(true)?;
        acceptor.set_nodelay(true)?;
        let mut hello = [0; HELLO];
        (&connector).read_exact(&mut hello)?;
        (&acceptor).write_all(&hello)?;
        let is_target = hello[PURPOSE] == self.tampering.purpose;
        let directions = [
            (
                Direction::Forth,
                connector.try_clone()?,
                acceptor.try_clone()?,
            ),
            (Direction::Back, acceptor, connector),
        ];
        for (direction, from, to) in directions {
            let this = self.clone();
            spawn("hvd-test-forward", move || {
                if is_target {
                    let _ = this.tamper(direction, &from, &to);
                } else {
                    let _ = io::copy(&mut &from, &mut &to);
                }
                // The other direction ends by itself, as it would without a proxy.
                let _ = to.shutdown(Shutdown::Write);
            })?;
        }
        Ok(())
    }

    fn tamper(
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
            let is_passed = direction != self.tampering.direction
                || number != self.tampering.after
                || (self.tampering.attack == Attack::Replay && before.is_none());
            if is_passed {
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
        match self.tampering.attack {
            Attack::Flip => record[middle] ^= 1,
            Attack::Stretch => record[0] ^= 1,
            Attack::Drop => record.clear(),
            Attack::Repeat => record.extend_from_within(..),
            Attack::Swap => record.splice(..0, read_record(from)?).for_each(drop),
            Attack::Replay => record = other.unwrap_or_default(),
        }
        Ok(record)
    }
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
