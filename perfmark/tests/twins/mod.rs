//! The same functions marked and unmarked: modules `marked` and `plain`, which see these names of the module around
//! them.

macro_rules! twins {
    (use {$($name:ident),*}; $($item:item)*) => {
        mod plain {
            use super::{$($name),*};
            $($item)*
        }

        #[perfmark(time)]
        mod marked {
            use super::{$($name),*};
            $($item)*
        }
    };
}
