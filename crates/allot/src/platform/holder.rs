//! Who has a data folder: which process, what it is, and how to end it. Told to whoever finds the folder in use, since a process
//! that hangs keeps it for as long as it lives.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The store's file that its process has locked.
const LOCK: &str = "lock";
/// As much of a command line as helps.
const MOST_COMMAND_CHARS: usize = 200;

/// What is known of the process that has locked the store in that folder; empty where nothing is: on another system, or in
/// another namespace of processes.
pub(super) fn describe(store: &Path) -> String {
    let Ok(lock) = fs::metadata(store.join(LOCK)) else { return String::new() };
    let Ok(locks) = fs::read_to_string("/proc/locks") else { return String::new() };
    let Some(pid) = holder(&locks, lock.dev(), lock.ino()) else { return String::new() };
    let mut text = format!(": process {pid}");
    if let Ok(command) = fs::read(format!("/proc/{pid}/cmdline")) {
        let words = String::from_utf8_lossy(&command).replace('\0', " ");
        let command: String = words.trim().chars().take(MOST_COMMAND_CHARS).collect();
        // Writing to a String cannot fail.
        let _ = write!(text, " (`{command}`)");
    }
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| state(&stat));
    if let Some('T' | 't') = state {
        text.push_str(", which is stopped");
    }
    let _ = write!(
        text,
        "; if it hangs, `kill -CONT {pid}` wakes it and `kill -9 {pid}` ends it: nothing that was acknowledged is lost"
    );
    text
}

/// The process that has locked that file, by what `/proc/locks` says (proc(5)).
fn holder(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, pid, place) = (words.next()?, words.nth(2)?, words.next()?);
        // A line of somebody who waits has an arrow there.
        (kind == "FLOCK" && place == file).then(|| pid.parse().ok().filter(|pid| *pid > 0))?
    })
}

/// The parts of a device's number, as glibc packs them (makedev(3)).
fn major(device: u64) -> u64 {
    ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff)
}

fn minor(device: u64) -> u64 {
    (device & 0xff) | ((device >> 12) & !0xff)
}

/// The state of a process: behind its name, which may hold anything (proc(5)).
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_has_the_lock_is_found_by_device_and_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fd:02:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 fd:02:12 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 12 fd:02:12 0 EOF\n3: FLOCK  ADVISORY  WRITE 0 fd:02:13 0 EOF\n";
        let device = 0xfd02;
        assert_eq!(holder(locks, device, 12), Some(4711));
        assert_eq!(holder(locks, device, 13), None, "a process that cannot be seen from here");
        assert_eq!(holder(locks, device, 14), None);
        assert_eq!(holder(locks, 0xfd03, 12), None);
    }

    #[test]
    fn device_numbers_are_taken_apart() {
        for (device, expect) in [(0xfd02, (0xfd, 2)), (0x0010_0305, (3, 0x105)), (0, (0, 0))] {
            assert_eq!((major(device), minor(device)), expect, "{device:#x}");
        }
    }

    #[test]
    fn a_name_with_anything_in_it_hides_no_state() {
        assert_eq!(state("7 (a) T (b) R 1 2"), Some('R'));
        assert_eq!(state("7 (allot) T 1 2"), Some('T'));
        assert_eq!(state(""), None);
    }
}
