//! Systems on which no emulator counts.

#[derive(Debug)]
pub(crate) enum EmulatedPage {}

impl EmulatedPage {
    pub(crate) fn request(_: usize) -> Result<Option<Self>, (&'static str, i32)> {
        Ok(None)
    }

    pub(crate) fn if_counted() -> Option<Self> {
        None
    }

    pub(crate) fn is_this_process(&self) -> bool {
        match *self {}
    }

    pub(crate) fn count(&self, _: usize) -> u64 {
        match *self {}
    }

    pub(crate) fn set(&self, _: usize, _: u64) {
        match *self {}
    }

    pub(crate) fn emulator(&self) -> String {
        match *self {}
    }
}
