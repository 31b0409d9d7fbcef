//! A child process that ends with its owner: killed by its id when dropped, a panic included.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// How much of a log an error repeats, in bytes: the end says why a program ended.
const TAIL: usize = 4000;

/// A running program with its output in a file.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with its output in `dir/NAME.log`.
    pub(crate) fn start(program: &Path, args: &[String], dir: &Path) -> Result<Process> {
        let name = program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let path = dir.join(format!("{name}.log"));
        let log = std::fs::File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let child = Command::new(program)
            .args(args)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {} (cargo xtask assets builds it)", program.display()))?;
        Ok(Process { name, child, log: path })
    }

    /// Fails, with the end of its log, if the program has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, self.tail()),
            None => Ok(()),
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The end of what it printed.
    pub(crate) fn tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(TAIL)..]).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
