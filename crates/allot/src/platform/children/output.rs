//! What providers print goes to the log, a line at a time, under their name. How much of it is bounded: a provider that
//! floods the log must not drown everybody else's lines.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;
use tracing::{info, warn};

/// The longest line that is logged whole; the rest of a longer one is left out.
const LONGEST_LINE: usize = 4096;
/// Lines of one stream in one window; more are counted, not logged.
const MOST_LINES: usize = 200;
const WINDOW: Duration = Duration::from_secs(10);

/// Logs everything that comes until the stream ends.
pub(super) async fn log(provider: &str, stream: impl AsyncRead + Unpin) {
    let mut stream = stream;
    let mut lines = Lines::default();
    let mut budget = Budget { since: Instant::now(), logged: 0, dropped: 0 };
    let mut buffer = vec![0; 4096];
    loop {
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        lines.take(&buffer[..read], read == 0, |line| {
            if budget.allows(Instant::now(), |dropped| warn!(provider, "{dropped} lines of it were left out")) {
                info!(provider, "{line}");
            }
        });
        if read == 0 {
            return;
        }
    }
}

/// Puts lines together.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    cut: bool,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], last: bool, mut tell: impl FnMut(&str)) {
        for byte in bytes {
            match byte {
                b'\n' => self.end(&mut tell),
                _ if self.line.len() < LONGEST_LINE => self.line.push(*byte),
                _ => self.cut = true,
            }
        }
        if last {
            self.end(&mut tell);
        }
    }

    fn end(&mut self, tell: &mut impl FnMut(&str)) {
        let mut text: String = String::from_utf8_lossy(&self.line)
            .chars()
            // A terminal that shows the log must not obey a provider.
            .map(|c| if c.is_control() && c != '\t' { ' ' } else { c })
            .collect();
        if std::mem::take(&mut self.cut) {
            text.push_str(" [cut]");
        }
        self.line.clear();
        let text = text.trim_end();
        if !text.is_empty() {
            tell(text);
        }
    }
}

/// How many lines may still be logged.
#[derive(Debug)]
struct Budget {
    since: Instant,
    logged: usize,
    dropped: usize,
}

impl Budget {
    fn allows(&mut self, now: Instant, tell: impl FnOnce(usize)) -> bool {
        if now.duration_since(self.since) >= WINDOW {
            let dropped = std::mem::take(&mut self.dropped);
            (self.since, self.logged) = (now, 0);
            if dropped > 0 {
                tell(dropped);
            }
        }
        let allowed = self.logged < MOST_LINES;
        if allowed {
            self.logged += 1;
        } else {
            self.dropped += 1;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_cut_and_made_harmless() {
        let mut lines = Lines::default();
        let mut told = Vec::new();
        let mut take = |bytes: &[u8], last| lines.take(bytes, last, |line| told.push(line.to_owned()));
        take(b"one\ntw", false);
        take(b"o\r\n\n\x1b[31mred\xff\n", false);
        take(&vec![b'x'; LONGEST_LINE + 10], false);
        take(b"\nrest", true);
        assert_eq!(told[..3], ["one", "two", " [31mred\u{fffd}"]);
        assert_eq!((told[3].len(), told[3].ends_with("x [cut]")), (LONGEST_LINE + 6, true));
        assert_eq!(told[4], "rest");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_counted_and_told_of() {
        let mut budget = Budget { since: Instant::now(), logged: 0, dropped: 0 };
        let allowed = (0..MOST_LINES + 5).filter(|_| budget.allows(Instant::now(), |_| panic!("too early"))).count();
        assert_eq!(allowed, MOST_LINES);
        tokio::time::advance(WINDOW).await;
        let mut told = 0;
        assert!(budget.allows(Instant::now(), |dropped| told = dropped));
        assert_eq!(told, 5);
    }
}
