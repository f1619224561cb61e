//! Targets without counters: nothing can be opened, so nothing can be read.

#[path = "no_emulator.rs"]
mod no_emulator;

use std::ffi::CStr;
use std::io::PipeReader;
use std::sync::atomic::{AtomicU8, AtomicU64};

pub(crate) use self::no_emulator::EmulatedPage;
use super::abi::{MmapPage, PerfEventAttr, ReadFormat, Ready, RingPage};
use crate::target::Target;

pub(crate) const SUPPORTED: bool = false;

#[derive(Debug)]
pub(crate) enum Descriptor {}

#[derive(Debug)]
pub(crate) enum Mapping {}

#[derive(Debug)]
pub(crate) enum RingMapping {}

#[derive(Debug)]
pub(crate) enum AuxMapping {}

/// Functions that cannot be called, because the value after `=>` cannot exist.
macro_rules! never {
    ($($(#[$cfg:meta])? fn $name:ident $(<$generic:ident>)? ($($argument:tt)*) -> $result:ty => $value:ident;)*) => {$(
        $(#[$cfg])?
        pub(crate) fn $name $(<$generic>)? ($($argument)*) -> $result {
            match *$value {}
        }
    )*};
}

pub(crate) fn open(_: &PerfEventAttr, _: &Target, _: Option<&Descriptor>) -> Result<Descriptor, i32> {
    Err(libc::ENOSYS)
}

pub(crate) fn attr_size() -> Option<u32> {
    None
}

pub(crate) fn poll(fds: &[&Descriptor], _: Option<&PipeReader>, _: i32) -> Result<Vec<Ready>, i32> {
    match fds {
        [] => Ok(Vec::new()),
        [fd, ..] => match **fd {},
    }
}

pub(crate) fn cpu() -> Option<u32> {
    None
}

pub(crate) fn stay_on_cpu() -> Result<(), i32> {
    Err(libc::ENOSYS)
}

pub(crate) fn page_size() -> u64 {
    4096
}

pub(crate) fn generation() -> u32 {
    0
}

pub(crate) fn enable_all_of_thread(_: bool) -> Result<(), i32> {
    Err(libc::ENOSYS)
}

never! {
    fn read(fd: &Descriptor) -> Result<Option<ReadFormat>, i32> => fd;
    fn ioctl(fd: &Descriptor, _: u64, _: u64) -> Result<(), i32> => fd;
    fn ioctl_pointer<T>(fd: &Descriptor, _: u64, _: &mut T) -> Result<(), i32> => fd;
    fn ioctl_text(fd: &Descriptor, _: u64, _: &CStr) -> Result<(), i32> => fd;
    fn ioctl_descriptor(fd: &Descriptor, _: u64, _: Option<&Descriptor>) -> Result<(), i32> => fd;
    fn read_numbers(fd: &Descriptor, _: &mut [u64]) -> Result<usize, i32> => fd;
}

impl Descriptor {
    never! {
        #[cfg(unix)]
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> => self;
        fn is_ours(&self) -> bool => self;
        fn has_id(&self, _: u64) -> bool => self;
        fn is_identified(&self) -> bool => self;
        fn why_unmarked(&self) -> Option<i32> => self;
        fn send_signal(&mut self, _: i32, _: Option<u32>) -> Result<(), i32> => self;
    }
}

impl RingMapping {
    never! {
        fn new(fd: &Descriptor, _: usize, _: bool) -> Result<Self, i32> => fd;
        fn page(&self) -> Option<&RingPage> => self;
        fn data(&self) -> Option<&[AtomicU64]> => self;
        fn data_bytes(&self) -> usize => self;
    }
}

impl AuxMapping {
    never! {
        fn new(fd: &Descriptor, _: &RingPage, _: bool) -> Result<Self, i32> => fd;
        fn data(&self) -> &[AtomicU8] => self;
    }
}

impl Mapping {
    never! {
        fn new(fd: &Descriptor) -> Result<Self, i32> => fd;
        fn page(&self) -> &MmapPage => self;
    }
}
