//! The report as text.

use std::fmt;

use super::data::Support;
use super::findings::Status;

/// The width of the report in columns.
const WIDTH: usize = 110;
const SUBJECT: usize = 14;

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = self.kernel.as_ref().map(|release| format!("Linux {release}, ")).unwrap_or_default();
        writeln!(f, "perfmark-rdpmc on {kernel}{}: {}", std::env::consts::ARCH, self.summary())?;
        let mut subject = "";
        for finding in self.findings() {
            let sign = match finding.status {
                Status::Good => '✓',
                Status::Bad => '✗',
                Status::Note => '·',
            };
            let shown = if finding.subject == subject { "" } else { finding.subject };
            subject = finding.subject;
            write!(f, "  {sign} {shown:SUBJECT$} ")?;
            wrapped(f, &finding.text, SUBJECT + 5)?;
            if let Some(remedy) = &finding.remedy {
                write!(f, "{:1$}→ ", "", SUBJECT + 5)?;
                wrapped(f, remedy, SUBJECT + 7)?;
            }
        }
        Ok(())
    }
}

/// Writes words in lines that start at `column`. The first line has already been started.
fn wrapped(f: &mut fmt::Formatter<'_>, text: &str, column: usize) -> fmt::Result {
    let mut at = column;
    for (i, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if i > 0 && at + 1 + length > WIDTH {
            write!(f, "\n{:column$}", "")?;
            at = column;
        } else if i > 0 {
            f.write_str(" ")?;
            at += 1;
        }
        f.write_str(word)?;
        at += length;
    }
    f.write_str("\n")
}
