//! RESP frames: just enough of the protocol to cut a byte stream into requests and replies.

/// Bytes that arrive in pieces and are returned as whole frames.
#[derive(Default)]
pub struct Frames {
    buffer: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Adds what was read from the socket.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole frame, if it has arrived.
    pub fn next_frame(&mut self) -> Option<&[u8]> {
        let start = self.taken;
        let len = frame_len(&self.buffer[start..])?;
        self.taken = start + len;
        Some(&self.buffer[start..self.taken])
    }
}

/// Returns the length of the frame at the start of `bytes`; `None` if its end has not arrived.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    let line = line_len(bytes)?;
    let header = &bytes[..line];
    match header[0] {
        b'$' | b'=' | b'!' => match count(header) {
            Some(body) => (bytes.len() >= line + body + 2).then_some(line + body + 2),
            None => Some(line),
        },
        b'*' | b'~' | b'>' => items_len(bytes, line, count(header).unwrap_or(0)),
        b'%' => items_len(bytes, line, 2 * count(header).unwrap_or(0)),
        b'|' => items_len(bytes, line, 2 * count(header).unwrap_or(0) + 1),
        _line => Some(line),
    }
}

fn items_len(bytes: &[u8], header: usize, items: usize) -> Option<usize> {
    let mut len = header;
    for _ in 0..items {
        len += frame_len(&bytes[len..])?;
    }
    Some(len)
}

fn line_len(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n").map(|at| at + 2)
}

/// Returns the number in `$12\r\n`; `None` for the nil `-1`.
fn count(header: &[u8]) -> Option<usize> {
    std::str::from_utf8(&header[1..header.len() - 2]).ok()?.parse().ok()
}

/// Whether a frame is a push message, which answers no request.
pub fn is_push(frame: &[u8]) -> bool {
    frame.first() == Some(&b'>')
}

/// Returns the arguments of a request frame, or the words of an inline command.
pub fn arguments(frame: &[u8]) -> Vec<&[u8]> {
    if frame.first() != Some(&b'*') {
        return frame.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    }
    let mut arguments = Vec::new();
    let mut at = line_len(frame).unwrap_or(frame.len());
    while at < frame.len() {
        let (Some(line), Some(len)) = (line_len(&frame[at..]), frame_len(&frame[at..])) else { break };
        arguments.push(&frame[at + line..(at + len).saturating_sub(2).max(at + line)]);
        at += len;
    }
    arguments
}

/// Whether `bytes` contains `needle`. Every byte string contains the empty one.
pub fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    needle.is_empty() || bytes.windows(needle.len()).any(|window| window == needle)
}
