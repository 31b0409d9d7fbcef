//! What clients cost in memory, as the kernel counts it for the whole process: nothing else may run meanwhile, which
//! [`House`](super::House) sees to.

/// More memory than the clients of any test may cost, in bytes: some three times what they do. Without the bound
/// that a test is about they would cost at least twice this, most of them a gigabyte.
pub(super) const MUCH: usize = 96 * 1024 * 1024;

/// Notes how much memory the process has at the most from now on.
pub(super) struct Memory {
    before: usize,
}

impl Memory {
    pub(super) fn now() -> Memory {
        // Lets the peak begin anew (proc(5)).
        std::fs::write("/proc/self/clear_refs", "5").expect("the kernel lets a process do it to itself");
        Memory { before: of_process("VmRSS:") }
    }

    /// How many bytes more than before the process had at once, though it may have given them back.
    pub(super) fn taken(&self) -> usize {
        of_process("VmHWM:").saturating_sub(self.before)
    }
}

/// A line of `/proc/self/status`, in bytes.
fn of_process(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("is there");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of that name");
    let kibibytes: usize = line.trim().strip_suffix(" kB").and_then(|text| text.parse().ok()).expect("a number");
    kibibytes * 1024
}

#[tokio::test]
async fn memory_that_was_given_back_counts_all_the_same() {
    const BYTES: usize = 200 * 1024 * 1024;
    let _turn = super::TURN.lock().await;
    let memory = Memory::now();
    drop(std::hint::black_box(vec![1_u8; BYTES]));
    // The kernel counts pages by the handful.
    assert!((BYTES / 8 * 7..BYTES * 2).contains(&memory.taken()), "{} bytes", memory.taken());
    let memory = Memory::now();
    assert!(memory.taken() < BYTES / 2, "the peak begins anew: {} bytes", memory.taken());
}
