//! The error numbers that the crate uses, for targets whose libc defines none (WebAssembly without an operating
//! system). Nothing returns them there. The values are Linux's (`include/uapi/asm-generic/errno*.h`).

macro_rules! numbers {
    ($($name:ident $number:literal)*) => { $(pub(crate) const $name: i32 = $number;)* };
}

numbers! {
    EPERM 1 ENOENT 2 ESRCH 3 EINTR 4 EIO 5 E2BIG 7 EBADF 9 EAGAIN 11 ENOMEM 12 EACCES 13 EFAULT 14 EBUSY 16 EEXIST 17
    ENODEV 19 ENOTDIR 20 EISDIR 21 EINVAL 22 ENFILE 23 EMFILE 24 EFBIG 27 ENOSPC 28 ENOSYS 38 ELOOP 40 EPROTO 71
    EOVERFLOW 75 EOPNOTSUPP 95
}
