//! BPF programs of tracepoints and probes.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use crate::counter::Counter;
use crate::error::Error;
use crate::source::Refusal;

/// Requests of `ioctl(2)` (`include/uapi/linux/perf_event.h`, linux 6.12).
const IOC_SET_BPF: u64 = 0x4004_2408;
const IOC_QUERY_BPF: u64 = 0xc008_240a;

/// The most programs of an event (`BPF_TRACE_MAX_PROGS` in `include/linux/trace_events.h`, linux 6.12).
const PROGRAMS: u32 = 64;

/// `struct perf_event_query_bpf`.
#[repr(C)]
struct Query {
    room: u32,
    count: u32,
    ids: [u32; PROGRAMS as usize],
}

impl Counter {
    /// Runs a loaded BPF program at each occurrence of a tracepoint or probe. If it returns 0, the event is not
    /// counted. The kernel runs it for every event of that tracepoint, also those of other processes, until this
    /// counter is dropped.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: the event has no programs, the program is of another type, or the counter has one
    /// already.
    pub fn set_bpf(&self, program: BorrowedFd<'_>) -> Result<(), Error> {
        // Open, so it is not negative.
        let number = u64::try_from(program.as_raw_fd()).unwrap_or(u64::MAX);
        let set = self.source().ioctl(IOC_SET_BPF, number);
        set.map_err(|refusal| self.explain_bpf("ioctl(SET_BPF)", refusal))
    }

    /// The ids of the BPF programs that run at each occurrence of the tracepoint. Requires `CAP_PERFMON`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses. Only tracepoints have a list of programs.
    pub fn bpf_programs(&self) -> Result<Vec<u32>, Error> {
        let mut query = Query { room: PROGRAMS, count: 0, ids: [0; PROGRAMS as usize] };
        let asked = self.source().ioctl_pointer(IOC_QUERY_BPF, &mut query);
        asked.map_err(|refusal| self.explain_bpf("ioctl(QUERY_BPF)", refusal))?;
        Ok((0..query.count).zip(query.ids).map(|(_, id)| id).collect())
    }

    fn explain_bpf(&self, call: &str, refusal: Refusal) -> Error {
        let explain = |errno, why| Error::os(errno, call, self.event().to_string(), why);
        match refusal {
            Refusal::Os(errno @ (libc::EINVAL | libc::EOPNOTSUPP)) => {
                explain(errno, "only tracepoints and probes have programs, and the program must be of their type")
            }
            Refusal::Os(errno @ libc::EEXIST) => explain(errno, "this event has a program already"),
            Refusal::Os(errno @ (libc::EPERM | libc::EACCES)) => explain(errno, "it requires CAP_PERFMON"),
            refusal => refusal.explain(call, self.event().to_string()),
        }
    }
}
