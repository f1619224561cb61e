//! Signals: names and numbers, blocking, and listening.

mod blocked;
pub(crate) mod background;
#[cfg(all(any(target_os = "linux", target_os = "android"), any(feature = "signal", not(miri))))]
mod wakeup;
#[cfg(all(any(target_os = "linux", target_os = "android"), any(feature = "signal", not(miri))))]
mod disposition;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
mod interrupt;
/// Other systems have no semaphores without names.
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

    pub(crate) fn leave_to_listeners(_: i32) {}

    impl Listener {
        pub(crate) fn new(_: &[i32]) -> std::io::Result<Self> {
            Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "dumps at signals require Linux"))
        }

        pub(crate) fn start(&mut self, _: impl Fn() + Send + 'static) -> std::io::Result<()> {
            Ok(())
        }
    }
}

pub(crate) use blocked::BlockedSignals;
pub(crate) use handled::from_name;
pub(crate) use interrupt::{before_end, prepare as prepare_before_end};
#[cfg(feature = "signal")]
pub(crate) use listener::{Listener, leave_to_listeners};
