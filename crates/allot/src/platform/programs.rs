//! Runs programs of this machine for providers.
//!
//! # Guarantees
//! A program is the head of a process group of its own, all of which ends when its time is up or nobody waits any more.
//! It runs in a folder that is empty, its alone, and goes with it.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use allotment_controllers::providers::kind::{MOST_OUTPUT, ProgramError, Programs, Ran};
use allotment_machinery::seams::Entropy as _;
use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::seams::RandomBytes;

/// The programs of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachinePrograms;

#[async_trait]
impl Programs for MachinePrograms {
    async fn run(
        &self,
        program: &str,
        arguments: &[String],
        input: &str,
        limit: Duration,
    ) -> Result<Ran, ProgramError> {
        let failed = |error: &io::Error| not_run(program, error);
        let folder = Scratch::new().map_err(|error| failed(&error))?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&folder.0).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ProgramError::NotFound { program: program.to_owned() });
            }
            Err(error) => return Err(failed(&error)),
        };
        let mut group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        match timeout(limit, to_its_end(child, input)).await {
            Ok(Ok(ran)) => {
                group.0 = None;
                Ok(ran)
            }
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => Err(ProgramError::TooSlow { program: program.to_owned(), limit_secs: limit.as_secs() }),
        }
    }
}

fn not_run(program: &str, error: &io::Error) -> ProgramError {
    ProgramError::NotRun { program: program.to_owned(), why: error.to_string() }
}

async fn to_its_end(mut child: Child, input: &str) -> io::Result<Ran> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let give = async {
        if let Some(mut stdin) = stdin {
            // One that ends without reading is no failure of ours.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let ((), stdout, stderr) = tokio::join!(give, text_of(stdout), text_of(stderr));
    let status = child.wait().await?;
    Ok(Ran { success: status.success(), stdout: stdout?, stderr: stderr? })
}

/// What a program prints, to its end, of which the beginning is kept.
async fn text_of(stream: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let Some(mut stream) = stream else { return Ok(String::new()) };
    let mut kept = Vec::new();
    let mut part = [0; 8192];
    loop {
        let count = stream.read(&mut part).await?;
        if count == 0 {
            return Ok(String::from_utf8_lossy(&kept).into_owned());
        }
        let room = MOST_OUTPUT.saturating_sub(kept.len());
        kept.extend_from_slice(&part[..count.min(room)]);
    }
}

/// A process group that ends with this.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended already; there is nobody to tell.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// An empty folder that only we read and that goes with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        // A name that nobody can have taken before, on purpose or not.
        let path = std::env::temp_dir().join(format!("allot-run-{}", RandomBytes.uid()));
        make_private(&path)?;
        Ok(Scratch(path))
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    async fn sh(script: &str, input: &str, limit: Duration) -> Result<Ran, ProgramError> {
        MachinePrograms.run("sh", &["-c".to_owned(), script.to_owned()], input, limit).await
    }

    #[tokio::test]
    async fn a_program_reads_its_input_and_its_output_and_success_are_told() {
        let ran = sh("cat; echo oh >&2; ls -A; exit 3", "text", LIMIT).await.expect("it ends");
        assert_eq!((ran.success, ran.stdout.as_str(), ran.stderr.as_str()), (false, "text", "oh\n"));
        assert!(sh("true", &"x".repeat(1 << 20), LIMIT).await.expect("it ends").success, "input that nobody reads");
    }

    #[tokio::test]
    async fn one_that_is_not_there_is_known_as_such() {
        let error = MachinePrograms.run("no-such-program", &[], "", LIMIT).await.expect_err("not there");
        assert_eq!(error, ProgramError::NotFound { program: "no-such-program".to_owned() });
    }

    #[tokio::test]
    async fn when_its_time_is_up_it_ends_with_all_that_it_started() {
        let mark = std::env::temp_dir().join(format!("allot-test-group-{}", std::process::id()));
        let _ = std::fs::remove_file(&mark);
        let script = format!("(sleep 600; true) & echo $! > {}; wait", mark.display());
        let error = sh(&script, "", Duration::from_millis(500)).await.expect_err("it never ends");
        assert!(matches!(error, ProgramError::TooSlow { .. }), "{error}");
        let id = std::fs::read_to_string(&mark).expect("it began");
        let _ = std::fs::remove_file(&mark);
        let begin = tokio::time::Instant::now();
        let gone = |id: &str| {
            !std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).is_ok_and(|stat| !stat.contains(") Z "))
        };
        while !gone(&id) {
            assert!(begin.elapsed() < LIMIT, "process {id} outlived the program that started it");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn more_than_can_be_kept_is_read_and_dropped() {
        let ran = sh("head -c 3000000 /dev/zero", "", LIMIT).await.expect("it ends");
        assert!(ran.success);
        assert_eq!(ran.stdout.len(), MOST_OUTPUT);
    }
}
