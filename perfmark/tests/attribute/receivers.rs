//! Receivers, and methods of traits.

use std::fmt;
use std::ops::{Add, Deref, Index};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use perfmark::perfmark;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Text(String);

impl Text {
    #[perfmark(time)]
    fn by_value(self) -> String {
        self.0
    }

    #[perfmark(time)]
    fn by_mut_value(mut self) -> Self {
        self.0.push('!');
        self
    }

    #[perfmark(time)]
    fn by_reference(&self) -> &str {
        &self.0
    }

    #[perfmark(time)]
    fn by_named_lifetime<'a>(&'a self, other: &str) -> &'a str {
        self.0.strip_prefix(other).unwrap_or(&self.0)
    }

    #[perfmark(time)]
    fn by_mut_reference(&mut self) -> &mut String {
        &mut self.0
    }

    #[perfmark(time)]
    #[expect(clippy::needless_arbitrary_self_type, reason = "a test")]
    fn by_typed(self: &Self) -> usize {
        self.0.len()
    }

    #[perfmark(time)]
    #[expect(clippy::boxed_local, reason = "a test")]
    fn by_box(self: Box<Self>) -> Self {
        *self
    }

    #[perfmark(time)]
    fn by_rc(self: Rc<Self>) -> usize {
        Rc::strong_count(&self)
    }

    #[perfmark(time)]
    fn by_reference_to_arc(self: &Arc<Self>) -> Arc<Self> {
        Arc::clone(self)
    }

    #[perfmark(time)]
    fn by_pin(mut self: Pin<&mut Self>) -> usize {
        self.0.push('?');
        self.0.len()
    }

    #[perfmark(time)]
    fn by_nothing() -> Self {
        Self(String::new())
    }

    /// `this` is often the name of a receiver.
    #[perfmark(time)]
    fn beside_self(&self, this: &Self) -> bool {
        self == this
    }
}

#[perfmark(time)]
trait Shape {
    const SIDES: u64;
    type Unit: Into<u64>;

    fn side(&self) -> Self::Unit;

    fn name(&self) -> String;

    fn around(&self) -> u64
    where
        Self: Sized,
    {
        self.side().into() * Self::SIDES
    }

    fn boxed<'a>(self) -> Box<dyn Fn() -> u64 + 'a>
    where
        Self: Sized + 'a,
    {
        Box::new(move || self.around())
    }

    #[must_use]
    fn unit() -> u64 {
        1
    }
}

struct Square(u8);

impl Shape for Square {
    const SIDES: u64 = 4;
    type Unit = u8;

    #[perfmark(time)]
    fn side(&self) -> u8 {
        self.0
    }

    #[perfmark(time)]
    fn name(&self) -> String {
        "square".to_owned()
    }
}

#[perfmark(time)]
impl<T> Add<T> for Text
where
    T: fmt::Display,
{
    type Output = Self;

    fn add(self, with: T) -> Self::Output {
        Self(format!("{}{with}", self.0))
    }
}

#[perfmark(time)]
impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

#[perfmark(time)]
impl<const N: usize> Index<[usize; N]> for Text {
    type Output = u8;
    fn index(&self, indices: [usize; N]) -> &u8 {
        &self.0.as_bytes()[indices.iter().sum::<usize>()]
    }
}

#[test]
fn methods_behave_as_before() {
    let text = || Text("text".to_owned());
    assert_eq!((text().by_value().as_str(), text().by_mut_value().0.as_str()), ("text", "text!"));
    assert_eq!((text().by_reference(), text().by_named_lifetime("te"), text().by_typed()), ("text", "xt", 4));
    let mut changed = text();
    changed.by_mut_reference().push('s');
    assert_eq!((Pin::new(&mut changed).by_pin(), changed.0.as_str()), (6, "texts?"));
    assert_eq!((Box::new(text()).by_box(), Rc::new(text()).by_rc()), (text(), 1));
    assert_eq!((*Arc::new(text()).by_reference_to_arc()).clone(), text());
    assert!(!Text::by_nothing().beside_self(&text()));
    assert_eq!((Square(2).around(), Square(3).boxed()(), Square::unit()), (8, 12, 1));
    assert_eq!(Square(2).name(), "square");
    assert_eq!(((text() + 1).0.as_str(), text().len(), text()[[1, 2]]), ("text1", 4, b't'));
    crate::assert_calls(&[
        ("receivers::Text::by_value", 1),
        ("receivers::Text::by_mut_value", 1),
        ("receivers::Text::by_reference", 1),
        ("receivers::Text::by_named_lifetime", 1),
        ("receivers::Text::by_mut_reference", 1),
        ("receivers::Text::by_typed", 1),
        ("receivers::Text::by_box", 1),
        ("receivers::Text::by_rc", 1),
        ("receivers::Text::by_reference_to_arc", 1),
        ("receivers::Text::by_pin", 1),
        ("receivers::Text::by_nothing", 1),
        ("receivers::Text::beside_self", 1),
        ("receivers::Shape::around", 2),
        ("receivers::Shape::boxed", 1),
        ("receivers::Shape::unit", 1),
    ]);
}
