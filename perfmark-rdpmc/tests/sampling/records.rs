//! Records besides samples, as this machine's kernel writes them.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::mpsc;

use perfmark_rdpmc::sample::{Body, Content, MappedFile, Origin, Records, Sampler, Task, ThreadId};

use super::memory::page_size;
use super::{for_each_record, gettid, open};

/// Maps a page of this program's code, and returns where.
fn map_this_program() -> u64 {
    let file = File::open("/proc/self/exe").expect("readable");
    let access = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a new mapping at an address of the kernel's choice, which is unmapped before anything uses it.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), page_size(), access, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        assert_ne!(start, libc::MAP_FAILED);
        libc::munmap(start, page_size());
        start.addr() as u64
    }
}

fn set_name(name: &CStr) {
    // SAFETY: a live text.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
}

pub(super) fn mappings_names_and_threads() {
    let records = Records::MMAP2 | Records::COMM | Records::TASK;
    let content = Content::THREAD | Content::TIME | Content::CPU | Content::ID | Content::IDENTIFIER;
    for (build_id, has_origin) in [(false, true), (true, true), (false, false)] {
        let records = if build_id { records | Records::BUILD_ID } else { records };
        let ring = open(&Sampler::dummy().records(records).content(content).sample_id_all(has_origin));
        let address = map_this_program();
        set_name(c"a-new-name");
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(gettid()).expect("received")).join().expect("does not panic");
        let created = receiver.recv().expect("sent");

        let (pid, tid, id) = (std::process::id(), gettid(), ring.id().expect("readable"));
        let is_this = |thread: ThreadId| (thread.pid, thread.tid) == (pid, tid);
        let is_here = |origin: &Origin| match origin {
            Origin { thread: Some(thread), time: Some(1..), id: Some(of), cpu: Some(_), .. } => {
                has_origin && is_this(*thread) && *of == id
            }
            origin => !has_origin && *origin == Origin::default(),
        };
        let mut found = [0; 3];
        for_each_record(&ring, |record| {
            assert!(is_here(&record.origin), "{record:?}");
            match record.body {
                // Others may be the allocator's or the new thread's stack.
                Body::Mmap(mmap) if mmap.address == address => {
                    assert!(is_this(mmap.thread) && !mmap.is_data && mmap.length == page_size() as u64);
                    let program = std::env::current_exe().expect("known");
                    assert_eq!(mmap.path, program.as_os_str().as_bytes());
                    let more = mmap.more.expect("MMAP2");
                    assert_eq!(more.protection, u32::try_from(libc::PROT_READ | libc::PROT_EXEC).expect("small"));
                    // A file without a build id has its inode all the same.
                    let is_inode = matches!(more.file, MappedFile::Inode { inode: 1.., .. });
                    assert!(is_inode || build_id && matches!(more.file, MappedFile::BuildId([_, ..])), "{more:?}");
                    found[0] += 1;
                }
                Body::Mmap(mmap) => assert!(is_this(mmap.thread)),
                Body::Comm(comm) => {
                    assert!(is_this(comm.thread) && comm.name == b"a-new-name" && !comm.is_exec, "{comm:?}");
                    found[1] += 1;
                }
                Body::Fork(Task { thread, parent, .. }) => {
                    assert!(is_this(parent) && (thread.pid, thread.tid) == (pid, created), "{record:?}");
                    found[2] += 1;
                }
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(found, [1; 3], "a mapping, a name, a thread");
    }
}
