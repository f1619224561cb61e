//! The common interface of the values of a mark and of a node.

/// Values of one event, whose name is the key in formats that have keys.
pub(crate) trait OfEvent {
    fn event(&self) -> &str;
    #[cfg(feature = "serde")]
    fn of(self, event: String) -> Self;
}
