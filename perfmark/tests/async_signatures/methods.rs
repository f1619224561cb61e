//! Marked async methods, their traits, and which futures are `Send`.

use std::cell::Cell;
use std::future::{Future, ready};
use std::rc::Rc;
use std::sync::Mutex;

use perfmark::perfmark;

// Methods.

#[derive(Clone, Default)]
pub(crate) struct Table(pub(crate) Vec<u64>);

#[perfmark(time)]
impl Table {
    pub(crate) async fn by_reference(&self, at: usize) -> Option<&u64> {
        ready(self.0.get(at)).await
    }

    pub(crate) async fn by_mutable(&mut self) -> &mut Vec<u64> {
        self.0.push(1);
        ready(()).await;
        &mut self.0
    }

    pub(crate) async fn by_value(mut self, by: u64) -> Self {
        self.0.push(by);
        ready(self).await
    }

    pub(crate) async fn boxed(self: Box<Self>) -> Vec<u64> {
        ready(self.0).await
    }

    pub(crate) async fn counted(self: Rc<Self>) -> usize {
        ready(Rc::strong_count(&self)).await
    }

    #[allow(clippy::needless_arbitrary_self_type, reason = "a test")]
    pub(crate) async fn of_lifetime<'a>(self: &'a Self, _: &str) -> &'a [u64] {
        ready(&self.0).await
    }

    pub(crate) async fn temporary(self) -> u64 {
        Mutex::new(self).lock().unwrap().0[0]
    }

    #[allow(clippy::unused_self, reason = "a test")]
    pub(crate) async fn unused(&self) {
        ready(()).await;
    }

    pub(crate) async fn new(items: impl IntoIterator<Item = u64>) -> Self {
        ready(Self(items.into_iter().collect())).await
    }
}

// Traits.

/// Has marks on default methods only.
#[allow(async_fn_in_trait, reason = "a test")]
pub(crate) trait Load {
    type Key: Default;

    async fn load(&self, key: Self::Key) -> Option<u64>;

    fn declared(&self) -> impl Future<Output = usize> + Send;

    #[perfmark(time)]
    async fn load_default(&self) -> Option<u64> {
        self.load(Self::Key::default()).await
    }

    #[perfmark(time)]
    async fn of_type(n: u64) -> u64
    where
        Self: Sized,
    {
        ready(n).await
    }
}

impl Load for Table {
    type Key = usize;

    #[perfmark(time)]
    async fn load(&self, key: usize) -> Option<u64> {
        self.by_reference(key).await.copied()
    }

    #[perfmark(time)]
    async fn declared(&self) -> usize {
        ready(self.0.len()).await
    }

    async fn of_type(n: u64) -> u64 {
        ready(n + 1).await
    }
}

/// Has one mark on the complete trait.
#[perfmark(time)]
pub(crate) trait Store<T> {
    async fn store(&mut self, item: T) -> &mut Self;

    async fn store_all(&mut self, items: Vec<T>) {
        for item in items {
            self.store(item).await;
        }
    }
}

impl<T: Into<u64>> Store<T> for Table {
    async fn store(&mut self, item: T) -> &mut Self {
        self.0.push(item.into());
        ready(self).await
    }
}

// Threads.

#[perfmark(time)]
pub(crate) async fn stays(count: Rc<Cell<u32>>) -> u32 {
    ready(()).await;
    count.get()
}

#[perfmark(time)]
pub(crate) async fn may_leave(text: String, more: &str) -> usize {
    let both = text + more;
    ready(()).await;
    both.len()
}

/// `Send` if its argument is.
#[perfmark(time)]
pub(crate) async fn as_its_argument<T>(item: T) -> T {
    ready(()).await;
    item
}
