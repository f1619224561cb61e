//! Signals: names and numbers, blocking, and handlers.

mod blocked;
pub(crate) mod background;
#[cfg(all(any(target_os = "linux", target_os = "android"), any(feature = "signal", not(miri))))]
mod disposition;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
mod interrupt;
/// On other systems, `Alarm::wake` takes a lock, so no handler may call it.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
mod interrupt {
    pub(crate) fn prepare() -> std::io::Result<()> {
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "it requires Linux"))
    }

    pub(crate) fn before_end(_: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        Ok(())
    }
}
#[cfg(all(feature = "signal", any(target_os = "linux", target_os = "android")))]
mod handled;
#[cfg(all(feature = "signal", any(target_os = "linux", target_os = "android")))]
mod listener;
/// On other systems, and without the feature, signals cannot be handled.
#[cfg(not(all(feature = "signal", any(target_os = "linux", target_os = "android"))))]
mod handled {
    pub(crate) fn from_name(_: &str) -> Result<i32, String> {
        Err("this build of perfmark handles no signals: enable its feature `signal`, on Linux".into())
    }
}
#[cfg(all(feature = "signal", not(any(target_os = "linux", target_os = "android"))))]
mod listener {
    #[derive(Debug)]
    pub(crate) struct Listener;

    pub(crate) fn leave_to_dumps(_: i32) {}

    pub(crate) fn outlive(_: i32) {}

    pub(crate) fn set_blocked(_: &[i32], _: bool) {}

    impl Listener {
        pub(crate) fn new(_: &[i32], _: &std::sync::Arc<crate::platform::alarm::Alarm>) -> std::io::Result<Self> {
            Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "dumps at signals require Linux"))
        }
    }
}

pub(crate) use blocked::BlockedSignals;
pub(crate) use handled::from_name;
pub(crate) use interrupt::{before_end, prepare as prepare_before_end};
#[cfg(feature = "signal")]
pub(crate) use listener::{Listener, leave_to_dumps, outlive, set_blocked};
