//! Generic functions with a separate mark for each set of types.
#![allow(unsafe_code, reason = "the identity of types that have lifetimes")]

use std::any::{TypeId, type_name};
use std::marker::PhantomData;
use std::mem;

use crate::recording::mark::Mark;
use crate::recording::recorder::thread::own_work;
use crate::settings::recording::is_off;

/// The mark of a generic function for its types, which are a part of the type of a closure inside it. It takes about 20
/// instructions, for up to some hundred types.
#[inline]
#[must_use]
pub fn of_types<Closure>(mark: &'static Mark, _: &Closure) -> &'static Mark {
    if mark.is_off() {
        return mark;
    }
    let id = id_of::<Closure>();
    mark.by_types.find(id).unwrap_or_else(|| add(mark, id, type_name::<Closure>()))
}

/// The identity of a type that may have lifetimes. Types that differ only in lifetimes have the same one.
#[inline]
fn id_of<T>() -> TypeId {
    trait Identity {
        fn id(&self) -> TypeId
        where
            Self: 'static;
    }
    impl<T> Identity for PhantomData<T> {
        #[inline]
        fn id(&self) -> TypeId
        where
            Self: 'static,
        {
            TypeId::of::<T>()
        }
    }
    let phantom: &dyn Identity = &PhantomData::<T>;
    // SAFETY: only the lifetime in the type of the trait object differs. `id` uses no value of `T`, and generated code
    // does not depend on lifetimes.
    unsafe { mem::transmute::<&dyn Identity, &(dyn Identity + 'static)>(phantom) }.id()
}

#[cold]
#[inline(never)]
fn add(mark: &'static Mark, id: TypeId, types: &'static str) -> &'static Mark {
    if is_off() {
        mark.switch_off();
        return mark;
    }
    // While perfmark is at work nothing is recorded, and the mark does not matter.
    own_work(|| mark.add_types(id, types)).unwrap_or(mark)
}
