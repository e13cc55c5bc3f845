//! The halves of a TCP connection with their session between them and the link: what is written is
//! sealed, what is read was sealed by the other end. A link through `ssh` does without.

use std::{
    io,
    net::TcpStream as StdTcpStream,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hvd_rendezvous::{
    SecureSession,
    session::{Opener, Sealer},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// Read at once.
const READ_SIZE: usize = 16 << 10;

/// A connection between driver and agent, and what protects it.
#[derive(Debug)]
pub(crate) struct SealedStream {
    pub(crate) stream: StdTcpStream,
    pub(crate) session: SecureSession,
}

/// Puts a connection into the runtime's hands.
pub(crate) fn split(
    sealed: SealedStream,
) -> io::Result<(SealedReader<OwnedReadHalf>, SealedWriter<OwnedWriteHalf>)> {
    let SealedStream { stream, session } = sealed;
    let _ = stream.set_nodelay(true);
    stream.set_nonblocking(true)?;
    let (reader, writer) = TcpStream::from_std(stream)?.into_split();
    Ok((
        SealedReader::new(reader, session.opener),
        SealedWriter::new(writer, session.sealer),
    ))
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct SealedReader<R> {
    stream: R,
    opener: Opener,
}

impl<R> SealedReader<R> {
    pub(crate) fn new(stream: R, opener: Opener) -> Self {
        Self { stream, opener }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for SealedReader<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, opener } = self.get_mut();
        loop {
            let taken = opener.take(out.initialize_unfilled())?;
            if taken > 0 || out.remaining() == 0 {
                out.advance(taken);
                return Poll::Ready(Ok(()));
            }
            let is_amid = opener.is_amid_record();
            let mut room = ReadBuf::new(opener.room(READ_SIZE));
            ready!(Pin::new(&mut *stream).poll_read(context, &mut room))?;
            match room.filled().len() {
                0 if is_amid => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                0 => return Poll::Ready(Ok(())),
                count => opener.filled(count),
            }
        }
    }
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct SealedWriter<W> {
    stream: W,
    sealer: Sealer,
    /// Records that are being sent, and how much of them has gone.
    records: Vec<u8>,
    gone: usize,
}

impl<W> SealedWriter<W> {
    pub(crate) fn new(stream: W, sealer: Sealer) -> Self {
        let (records, gone) = (Vec::new(), 0);
        Self {
            stream,
            sealer,
            records,
            gone,
        }
    }
}

impl<W: AsyncWrite + Unpin> SealedWriter<W> {
    /// Sends what was sealed.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.gone < self.records.len() {
            let rest = &self.records[self.gone..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.gone += count,
            }
        }
        self.records.clear();
        self.gone = 0;
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for SealedWriter<W> {
    /// Takes the next bytes when those before them have gone; a flush sends them.
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        text: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        let sealed = this.sealer.seal(text, &mut this.records)?;
        if let Poll::Ready(Err(error)) = this.poll_drain(context) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(sealed))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}
