//! Processes of a host at the socket for shared memory that do not belong to its job: they get no
//! file, and the ranks of the job get theirs.

use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;

use hvd_rendezvous::deadline;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Counts the files that travel beside the bytes.
struct Watched<'a> {
    stream: &'a UnixStream,
    files: usize,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut vector = [IoSliceMut::new(buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message = recvmsg(self.stream, &mut vector, &mut control, flags)?;
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = part {
                self.files += files.count();
            }
        }
        Ok(message.bytes)
    }
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Runs `speak` on a connection to the socket and reads to its end; returns what `speak` does, and
/// how many files came.
fn visit<T>(name: &str, speak: impl FnOnce(&mut Watched<'_>) -> T) -> (T, usize) {
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let stream = UnixStream::connect_addr(&address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut watched = Watched {
        stream: &stream,
        files: 0,
    };
    let spoken = speak(&mut watched);
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = watched.read_to_end(&mut Vec::new());
    (spoken, watched.files)
}

fn host_group() -> HostGroup {
    HostGroup {
        ranks: vec![Rank::new(0), Rank::new(1)],
        has_flags: true,
    }
}

#[test]
fn a_process_without_the_job_key_gets_no_file_and_the_ranks_get_theirs() {
    let (key, other) = (JobKey::generate().unwrap(), JobKey::generate().unwrap());
    let offer = MemoryOffer::open().unwrap();
    let name = offer.name().to_owned();
    let server = offer.serve(&host_group(), Capacities::for_ranks(2), &key);
    let server = server.unwrap();

    let connect = |key: &JobKey, purpose| {
        visit(&name, |stream| {
            handshake::connect(stream, key, purpose).map(drop)
        })
    };
    let (refused, files) = connect(&other, Purpose::Segment);
    assert!(matches!(refused, Err(StoreError::WrongKey)), "{refused:?}");
    assert_eq!(files, 0, "with another key");
    let (_, files) = visit(&name, |stream| stream.write_all(&[0xff; 54]));
    assert_eq!(files, 0, "without a key");
    let (accepted, files) = connect(&key, Purpose::Store);
    assert!(accepted.is_ok(), "{accepted:?}");
    assert_eq!(files, 0, "for another purpose");
    let (accepted, files) = connect(&key, Purpose::Segment);
    assert!(accepted.is_ok(), "{accepted:?}");
    assert_eq!(files, 3, "the segment and a flag for each rank");

    let fetched = fetch(&name, host_group(), &other, deadline::after(LONG));
    let error = fetched.err().unwrap().to_string();
    assert!(error.contains("does not know the key"), "{error}");
    let fetched = fetch(&name, host_group(), &key, deadline::after(LONG)).unwrap();
    let own = server.attach(host_group()).unwrap();
    // Both see the same memory: a part of it can be claimed once.
    own.segment.claim(Rank::new(0)).unwrap();
    assert!(fetched.segment.claim(Rank::new(0)).is_err());
    assert_eq!((fetched.segment.ranks(), fetched.flags.len()), (2, 2));
}
