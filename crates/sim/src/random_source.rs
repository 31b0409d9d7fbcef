//! The process's random source, seeded per thread.
//!
//! Hash maps of the standard library and of crates are keyed from `getrandom(2)`, and the order in which
//! they iterate shows in what a program does. This replaces the libc function for the test binaries that
//! link this crate: a thread that runs a simulation gets what its seed decides, every other thread what
//! the kernel gives. It is the only `unsafe` in the repository.

use std::cell::RefCell;

use crate::chance::Chance;

thread_local! {
    static SEEDED: RefCell<Option<Chance>> = const { RefCell::new(None) };
}

/// Seeds this thread's random source, for good.
pub(crate) fn seed_this_thread(chance: Chance) {
    SEEDED.with(|seeded| *seeded.borrow_mut() = Some(chance));
    // The standard library draws its keys once a thread: now, before anybody else draws.
    let _ = std::hash::RandomState::new();
}

/// Whether this thread's randomness is decided by a seed; fills `out` if so.
fn fill_seeded(out: &mut [u8]) -> bool {
    SEEDED.try_with(|seeded| seeded.borrow_mut().as_mut().map(|chance| chance.fill(out)).is_some()).unwrap_or(false)
}

/// `getrandom(2)` as libc declares it.
///
/// # Safety
/// `buffer` must be valid for writes of `length` bytes, as for the function that this replaces.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut libc::c_void, length: usize, flags: libc::c_uint) -> isize {
    if length > 0 && !buffer.is_null() {
        // SAFETY: the caller promises that the buffer is valid for writes of `length` bytes.
        let out = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
        if fill_seeded(out) {
            return length as isize;
        }
    }
    // SAFETY: the system call has the same contract as this function.
    unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) as isize }
}
