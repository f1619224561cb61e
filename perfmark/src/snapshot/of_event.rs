//! What the statistics of a mark and of a node have in common.

/// Figures of one event, whose name is the key in forms that have keys.
pub(crate) trait OfEvent {
    fn event(&self) -> &str;
    #[cfg(feature = "serde")]
    fn of(self, event: String) -> Self;
}
