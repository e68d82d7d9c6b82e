//! One side of a conversation as explicit steps on a byte stream, and what that side saw.

use crate::wait;
use socket2::SockRef;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One step of a side.
#[derive(Debug, Clone)]
pub enum Step {
    /// Writes these bytes.
    Send(Vec<u8>),
    /// Writes these bytes in pieces of the given size, each alone on the wire.
    SendPieces(Vec<u8>, usize, Duration),
    /// Writes so many bytes of the pattern.
    SendPattern(u64),
    /// Writes so many bytes of the pattern as chunks of the given size; no last chunk.
    SendChunks(u64, usize),
    /// Reads a head, through its empty line.
    Head,
    /// Reads exactly so many bytes.
    Read(usize),
    /// Reads through these bytes.
    Until(Vec<u8>),
    /// Reads so many bytes of the pattern and checks each.
    ReadPattern(u64),
    /// As [`Step::ReadPattern`], in small reads with a pause after each.
    ReadPatternSlowly(u64, usize, Duration),
    /// Reads a chunked body of so many bytes of the pattern, however it is cut, and its end.
    ReadChunks(u64),
    /// Reads to the end of the stream, and notes how it ended.
    End,
    /// Reads until the stream is of no more use, and does not care how it ended.
    Drained,
    /// Writes until the other side's end makes it fail.
    SendUntilRefused,
    /// Ends the sending direction.
    CloseWrite,
    /// Closes the connection in order.
    Close,
    /// Closes the connection with a reset.
    Reset,
    /// Goes on with a fresh connection (clients only).
    Reconnect,
    /// Informs the other side that this point is reached.
    Tell(u8),
    /// Waits until the other side tells.
    Await(u8),
    /// Leaves the connection silent for a while; where silence is the subject.
    Silence(Duration),
    Repeat(u32, Vec<Step>),
}

/// What a side saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A head; compared without what belongs to each hop.
    Head(Vec<u8>),
    /// Bytes; compared exactly.
    Bytes(Vec<u8>),
    /// So many bytes of the pattern, each as it should be.
    Pattern(u64),
    /// The orderly end.
    End,
    /// The end by reset.
    Reset,
    /// A step that could not be done, and why: never part of a good run.
    Failed(String),
}

/// Both sides' agreement on points reached.
#[derive(Debug, Default)]
pub struct Signals {
    told: Mutex<Vec<u8>>,
    more: Condvar,
}

impl Signals {
    fn tell(&self, point: u8) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(point);
        self.more.notify_all();
    }

    /// Each telling is used up by one waiting.
    fn wait(&self, point: u8, limit: Duration) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut told, _) = self
            .more
            .wait_timeout_while(told, limit, |told| !told.contains(&point))
            .unwrap_or_else(PoisonError::into_inner);
        told.iter().position(|p| *p == point).map(|at| told.remove(at)).is_some()
    }
}

/// Byte `at` of the pattern: no period that a buffer size divides.
fn pattern(at: u64) -> u8 {
    (at % 251) as u8
}

/// A piece of the pattern long enough for one period and one buffer.
fn pattern_from(at: u64, count: usize) -> Vec<u8> {
    (at..at + count as u64).map(pattern).collect()
}

/// One side's connection.
#[derive(Debug)]
pub struct Side<'a> {
    stream: Option<TcpStream>,
    address: Option<SocketAddr>,
    buffer: Vec<u8>,
    signals: &'a Signals,
    limit: Duration,
    seen: Vec<Seen>,
}

impl<'a> Side<'a> {
    /// The side that connects.
    pub fn client(address: SocketAddr, signals: &'a Signals, limit: Duration) -> Self {
        let mut side = Self {
            stream: None,
            address: Some(address),
            buffer: Vec::new(),
            signals,
            limit,
            seen: Vec::new(),
        };
        if let Err(why) = side.step(&Step::Reconnect) {
            side.seen.push(Seen::Failed(format!("connect: {why}")));
        }
        side
    }

    /// The side that was connected to.
    pub fn server(stream: TcpStream, signals: &'a Signals, limit: Duration) -> Self {
        drop(stream.set_nodelay(true));
        let (address, buffer, seen) = (None, Vec::new(), Vec::new());
        Self { stream: Some(stream), address, buffer, signals, limit, seen }
    }

    /// Whether the connection is still there for another exchange.
    pub fn is_open(&self) -> bool {
        self.stream.is_some() && !matches!(self.seen.last(), Some(Seen::End | Seen::Reset))
    }

    /// The connection.
    pub fn stream(&self) -> Option<&TcpStream> {
        self.stream.as_ref()
    }

    /// Whether bytes were read that no step has asked for yet.
    pub fn has_surplus(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Takes the steps, up to the first that cannot be taken, and returns what was seen.
    pub fn play(&mut self, steps: &[Step]) -> Vec<Seen> {
        if !matches!(self.seen.last(), Some(Seen::Failed(_))) {
            for (number, step) in steps.iter().enumerate() {
                if let Err(why) = self.step(step) {
                    let step = format!("{step:?}");
                    let step: String = step.chars().take(60).collect();
                    self.seen.push(Seen::Failed(format!("step {number}, {step}: {why}")));
                    break;
                }
            }
        }
        std::mem::take(&mut self.seen)
    }

    /// What arrived and was not asked for: the bytes are shown where a step failed.
    fn unread(&self) -> String {
        let shown = &self.buffer[..self.buffer.len().min(300)];
        format!("{} bytes unread: {:?}", self.buffer.len(), String::from_utf8_lossy(shown))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Send(bytes) => self.send(bytes),
            Step::SendPieces(bytes, size, pause) => bytes.chunks(*size).try_for_each(|piece| {
                self.send(piece)?;
                std::thread::sleep(*pause);
                Ok(())
            }),
            Step::SendPattern(count) => self.send_pattern(*count),
            Step::SendChunks(count, size) => self.send_chunks(*count, *size),
            Step::Head => self.take_until(b"\r\n\r\n").map(|head| self.seen.push(Seen::Head(head))),
            Step::Until(marker) => self.take_until(marker).map(|bytes| self.saw(bytes)),
            Step::Read(count) => {
                self.fill(*count)?;
                let rest = self.buffer.split_off(*count);
                let bytes = std::mem::replace(&mut self.buffer, rest);
                self.saw(bytes);
                Ok(())
            }
            Step::ReadPattern(count) => self.read_pattern(*count, 256 * 1024, Duration::ZERO),
            Step::ReadPatternSlowly(count, size, pause) => self.read_pattern(*count, *size, *pause),
            Step::ReadChunks(count) => self.read_chunks(*count),
            Step::End => self.read_to_end(),
            Step::Drained => loop {
                self.buffer.clear();
                match self.receive() {
                    Ok(1..) => {}
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {
                        break Err(format!("no end within {:?}", self.limit));
                    }
                    Ok(0) | Err(_) => break Ok(()),
                }
            },
            Step::SendUntilRefused => self.send_until_refused(),
            Step::CloseWrite => self.open()?.shutdown(Shutdown::Write).map_err(|e| e.to_string()),
            Step::Close => {
                drop(self.stream.take());
                Ok(())
            }
            Step::Reset => {
                if let Some(stream) = self.stream.take() {
                    let reset = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                    reset.map_err(|e| e.to_string())?;
                }
                Ok(())
            }
            Step::Reconnect => self.connect(),
            Step::Tell(point) => {
                self.signals.tell(*point);
                Ok(())
            }
            Step::Await(point) => match self.signals.wait(*point, self.limit) {
                true => Ok(()),
                false => Err(format!("the other side never reached {point}; {}", self.unread())),
            },
            Step::Silence(duration) => {
                std::thread::sleep(*duration);
                Ok(())
            }
            Step::Repeat(times, steps) => {
                (0..*times).try_for_each(|_| steps.iter().try_for_each(|step| self.step(step)))
            }
        }
    }

    /// Neighbouring bytes are one sight: how reads cut them means nothing.
    fn saw(&mut self, bytes: Vec<u8>) {
        match self.seen.last_mut() {
            Some(Seen::Bytes(before)) => before.extend(bytes),
            _ => self.seen.push(Seen::Bytes(bytes)),
        }
    }

    fn connect(&mut self) -> Result<(), String> {
        let address = self.address.ok_or("a server cannot connect")?;
        drop(self.stream.take());
        self.buffer.clear();
        let stream =
            TcpStream::connect_timeout(&address, wait::LIMIT).map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        self.stream = Some(stream);
        Ok(())
    }

    fn open(&mut self) -> Result<&mut TcpStream, String> {
        let limit = self.limit;
        let stream = self.stream.as_mut().ok_or("the connection is closed")?;
        stream.set_read_timeout(Some(limit)).map_err(|e| e.to_string())?;
        stream.set_write_timeout(Some(limit)).map_err(|e| e.to_string())?;
        Ok(stream)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.open()?.write_all(bytes).map_err(|e| e.to_string())
    }

    fn send_pattern(&mut self, count: u64) -> Result<(), String> {
        const PIECE: usize = 251 * 1024; // A whole number of periods: one piece serves all.
        let piece = pattern_from(0, PIECE);
        let mut left = count;
        while left > 0 {
            let now = left.min(PIECE as u64) as usize;
            self.send(&piece[..now])?;
            left -= now as u64;
        }
        Ok(())
    }

    fn send_until_refused(&mut self) -> Result<(), String> {
        const ENOUGH: u64 = 256 << 20; // Far more than all buffers of two proxies and six sockets.
        match self.send_pattern(ENOUGH) {
            // The write limit has passed: still connected, and nobody reads.
            Err(why) if why.contains("temporarily unavailable") => Err(why),
            Err(_) => Ok(()),
            Ok(()) => Err(format!("{ENOUGH} bytes were taken after the other side's end")),
        }
    }

    fn send_chunks(&mut self, count: u64, size: usize) -> Result<(), String> {
        let mut at = 0;
        while at < count {
            let now = (count - at).min(size as u64) as usize;
            let mut chunk = format!("{now:x}\r\n").into_bytes();
            chunk.extend(pattern_from(at, now));
            chunk.extend(b"\r\n");
            self.send(&chunk)?;
            at += now as u64;
        }
        Ok(())
    }

    /// One read into the buffer; 0 at the end of the stream.
    fn receive(&mut self) -> std::io::Result<usize> {
        let limit = self.limit;
        let stream = self.stream.as_mut().ok_or(ErrorKind::NotConnected)?;
        stream.set_read_timeout(Some(limit))?;
        let mut piece = [0; 64 * 1024];
        let count = stream.read(&mut piece)?;
        self.buffer.extend_from_slice(&piece[..count]);
        Ok(count)
    }

    fn receive_some(&mut self) -> Result<(), String> {
        match self.receive() {
            Ok(0) => Err(format!("the stream ended; {}", self.unread())),
            Ok(_) => Ok(()),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                Err(format!("nothing within {:?}; {}", self.limit, self.unread()))
            }
            Err(e) => Err(format!("{e}; {}", self.unread())),
        }
    }

    fn fill(&mut self, count: usize) -> Result<(), String> {
        while self.buffer.len() < count {
            self.receive_some()?;
        }
        Ok(())
    }

    fn take_until(&mut self, marker: &[u8]) -> Result<Vec<u8>, String> {
        let mut from = 0;
        loop {
            if let Some(at) = find(&self.buffer[from..], marker) {
                let rest = self.buffer.split_off(from + at + marker.len());
                return Ok(std::mem::replace(&mut self.buffer, rest));
            }
            from = self.buffer.len().saturating_sub(marker.len());
            self.receive_some()?;
        }
    }

    fn read_pattern(&mut self, count: u64, size: usize, pause: Duration) -> Result<(), String> {
        let mut piece = vec![0; size];
        let mut at: u64 = 0;
        let early = std::mem::take(&mut self.buffer);
        let mut early = early.as_slice();
        while at < count {
            let room = piece.len().min((count - at) as usize);
            let now = if early.is_empty() {
                self.open()?.read(&mut piece[..room]).map_err(|e| format!("{e} at {at}"))?
            } else {
                early.read(&mut piece[..room]).map_err(|e| e.to_string())?
            };
            if now == 0 {
                return Err(format!("the stream ended after {at} of {count} bytes"));
            }
            check_pattern(&piece[..now], at)?;
            at += now as u64;
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
        }
        self.buffer = early.to_vec();
        self.seen.push(Seen::Pattern(count));
        Ok(())
    }

    fn read_chunks(&mut self, count: u64) -> Result<(), String> {
        let mut at = 0;
        loop {
            let line = self.take_until(b"\r\n")?;
            let size = String::from_utf8_lossy(&line[..line.len() - 2]).into_owned();
            let size = u64::from_str_radix(&size, 16).map_err(|e| format!("{size:?}: {e}"))?;
            self.fill(size as usize + 2)?;
            let rest = self.buffer.split_off(size as usize + 2);
            let chunk = std::mem::replace(&mut self.buffer, rest);
            check_pattern(&chunk[..size as usize], at)?;
            at += size;
            if size == 0 {
                break;
            }
        }
        if at != count {
            return Err(format!("{at} bytes in chunks instead of {count}"));
        }
        self.seen.push(Seen::Pattern(count));
        Ok(())
    }

    fn read_to_end(&mut self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let outcome = self.receive();
            let bytes = std::mem::take(&mut self.buffer);
            if !bytes.is_empty() {
                self.saw(bytes);
            }
            match outcome {
                Ok(0) => {
                    self.seen.push(Seen::End);
                    return Ok(());
                }
                Ok(_) if began.elapsed() < self.limit => {}
                Ok(_) => return Err(format!("no end within {:?}", self.limit)),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => {
                    self.seen.push(Seen::Reset);
                    return Ok(());
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    return Err(format!("no end within {:?}", self.limit));
                }
                Err(e) => return Err(e.to_string()),
            }
        }
    }
}

fn check_pattern(bytes: &[u8], at: u64) -> Result<(), String> {
    let period = bytes.len().min(251);
    let good = (0..period).all(|i| bytes[i] == pattern(at + i as u64))
        && bytes[period..].iter().zip(bytes).all(|(later, earlier)| later == earlier);
    if good { Ok(()) } else { Err(format!("the bytes from {at} on are not those that were sent")) }
}

/// Where the marker begins.
pub fn find(within: &[u8], marker: &[u8]) -> Option<usize> {
    within.windows(marker.len()).position(|window| window == marker)
}
