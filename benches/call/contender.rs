//! A row of the table: a case, and the process that measures it.

use std::cell::LazyCell;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{env, io};

use perfmark_rdpmc::{Counter, Error};

use crate::batch::{Case, Team};

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) case: Arc<Case>,
    team: LazyCell<Team, Box<dyn FnOnce() -> Team>>,
    /// Why this machine cannot measure it.
    pub(crate) absent: Option<Error>,
    in_child: bool,
    is_slow: bool,
}

/// The argument that requests a batch of one contender. The contender's name and the number of threads follow.
const BATCH: &str = "--batch";

impl Contender {
    pub(crate) fn new(name: &'static str, case: Case) -> Self {
        let case = Arc::new(case);
        let shared = Arc::clone(&case);
        let team: Box<dyn FnOnce() -> Team> = Box::new(move || Team::new(&shared));
        Self { name, case, team: LazyCell::new(team), absent: None, in_child: false, is_slow: false }
    }

    /// Measures this contender only if the counter is available.
    pub(crate) fn needs(self, counter: Result<Counter, Error>) -> Self {
        Self { absent: counter.err(), ..self }
    }

    /// Measures each batch in a new process, in which marks are off.
    pub(crate) fn in_child(self) -> Self {
        Self { in_child: true, ..self }.slow()
    }

    /// Includes this contender in fewer rounds, because its batches take much longer than others.
    pub(crate) fn slow(self) -> Self {
        Self { is_slow: true, ..self }
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// The ticks that a mark adds to a call, on each of this many threads at once.
    ///
    /// # Errors
    ///
    /// If the child process does not start or does not answer.
    pub(crate) fn batch(&self, threads: usize) -> io::Result<Vec<f64>> {
        if !self.in_child {
            return Ok(self.team.batch(threads));
        }
        let output = Command::new(env::current_exe()?)
            .args([BATCH, self.name, &threads.to_string()])
            .env("PERFMARK", "off")
            .stderr(Stdio::inherit())
            .output()?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let costs: Vec<f64> = answer.split_whitespace().filter_map(|cost| cost.parse().ok()).collect();
        if output.status.success() && costs.len() == threads {
            return Ok(costs);
        }
        Err(io::Error::other(format!(
            "the child for {} ended with {} and printed {answer:?}",
            self.name, output.status
        )))
    }
}

/// The requested contender's name and number of threads, if this process is a child.
pub(crate) fn requested(arguments: &[String]) -> Option<(&str, usize)> {
    match arguments {
        [batch, name, threads, ..] if batch == BATCH => Some((name, threads.parse().ok()?)),
        _ => None,
    }
}

/// Answers the parent with the costs of a batch.
pub(crate) fn answer(contenders: &[Contender], name: &str, threads: usize) {
    let contender = contenders.iter().find(|contender| contender.name == name);
    for cost in contender.map_or_else(Vec::new, |contender| contender.team.batch(threads)) {
        println!("{cost}");
    }
}
