//! An acceptor that runs out of files, and one that passes connections on.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::mpsc;

use rustix::io::Errno;

use super::*;
use crate::handshake;

const LONG: Duration = Duration::from_secs(20);

/// A listener that fails with these errors before it accepts.
#[derive(Debug)]
struct Failing {
    listener: TcpListener,
    errors: Mutex<Vec<Errno>>,
}

impl std::os::fd::AsFd for Failing {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Listener for Failing {
    type Stream = TcpStream;
    fn next(&self) -> io::Result<(TcpStream, String)> {
        match self.errors.lock().unwrap().pop() {
            Some(error) => Err(error.into()),
            None => self.listener.next(),
        }
    }
}

#[test]
fn accept_5_a_shortage_pauses_the_acceptor_and_does_not_stop_it() {
    let errors = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::CONNABORTED,
        Errno::PROTO,
        Errno::MFILE,
    ];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let failing = Failing {
        listener,
        errors: Mutex::new(errors.to_vec()),
    };
    let key = JobKey::generate().unwrap();
    let (sender, served) = mpsc::channel();
    let _acceptor = Acceptor::start(failing, "hvd-test", &key, move |accepted| {
        sender.send(accepted.purpose()).unwrap();
        Ok(())
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    handshake::connect(&mut stream, &key, Purpose::Probe).unwrap();
    assert_eq!(served.recv_timeout(LONG).unwrap(), Purpose::Probe);
}

#[test]
fn a_forwarding_acceptor_reads_the_hello_only() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let key = JobKey::generate().unwrap();
    let (sender, passed) = mpsc::channel();
    let authenticator = HelloOnly(key.clone());
    let _acceptor = Acceptor::start_with(authenticator, listener, "hvd-test", move |accepted| {
        sender.send(accepted.keep()).unwrap();
        Ok(())
    });
    let stranger = TcpStream::connect(address).unwrap();
    stranger.set_read_timeout(Some(LONG)).unwrap();
    let error = handshake::connect(&mut &stranger, &JobKey::generate().unwrap(), Purpose::Store);
    assert!(matches!(error, Err(crate::Error::WrongKey)), "{error:?}");

    let connector = thread::Builder::new()
        .name("hvd-test-connector".into())
        .spawn({
            let key = key.clone();
            move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(LONG)).unwrap();
                handshake::connect(&mut stream, &key, Purpose::Store).map(|_| stream)
            }
        })
        .unwrap();
    let (stream, hello) = passed.recv_timeout(LONG).unwrap();
    // The process behind the acceptor gets the hello first, and then all the rest.
    let (mut inner, mut behind) = UnixStream::pair().unwrap();
    inner.write_all(&hello).unwrap();
    let acceptor = thread::Builder::new()
        .name("hvd-test-behind".into())
        .spawn(move || handshake::accept(&mut behind, &key).map(|(purpose, _)| purpose))
        .unwrap();
    let mut answer = [0; 5 + 48];
    inner.read_exact(&mut answer).unwrap();
    (&*stream).write_all(&answer).unwrap();
    let mut confirmation = [0; 20];
    (&*stream).read_exact(&mut confirmation).unwrap();
    inner.write_all(&confirmation).unwrap();
    assert_eq!(acceptor.join().unwrap().unwrap(), Purpose::Store);
    connector.join().unwrap().unwrap();
}
