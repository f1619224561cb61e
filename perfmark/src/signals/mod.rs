//! Signals: by name and number, held back, and heard of.

mod held_back;
pub(crate) mod background;
#[cfg(all(feature = "signal", any(target_os = "linux", target_os = "android")))]
mod handled;
#[cfg(all(feature = "signal", any(target_os = "linux", target_os = "android")))]
mod listener;
/// Elsewhere, and without the feature, nobody hears of signals.
#[cfg(not(all(feature = "signal", any(target_os = "linux", target_os = "android"))))]
mod handled {
    pub(crate) fn from_name(_: &str) -> Result<i32, String> {
        Err("this build of perfmark handles no signals: enable its feature `signal`, on linux".into())
    }
}
#[cfg(all(feature = "signal", not(any(target_os = "linux", target_os = "android"))))]
mod listener {
    #[derive(Debug)]
    pub(crate) struct Listener;

    impl Listener {
        pub(crate) fn start(_: &[i32], _: impl Fn() + Send + 'static) -> std::io::Result<Self> {
            Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "dumps at signals are for linux"))
        }
    }
}

pub(crate) use handled::from_name;
pub(crate) use held_back::HeldBack;
#[cfg(feature = "signal")]
pub(crate) use listener::Listener;
