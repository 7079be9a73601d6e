//! What may be given as a path or a name: bytes, text, or the paths of this system.
//!
//! A server's names are bytes, as Linux's are: any but `/` and NUL, in no particular encoding. So a [`Path`] is
//! taken as the bytes that it has, and a name that is no UTF-8 can be given and comes back as it is.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A path or name on a server: `"a/b"`, `b"a/b"`, a [`Path`], and whatever holds one of these.
///
/// A method that takes a path begins at the export's root, whether the path has a `/` in front or not.
pub trait AsPath: sealed::Sealed {
    /// The path's bytes, as the server is told them.
    fn as_path(&self) -> &[u8];
}

mod sealed {
    #[expect(unnameable_types, reason = "nobody else is to implement it")]
    pub trait Sealed {}
}

macro_rules! as_path {
    ($($type:ty: |$this:ident| $bytes:expr;)*) => {$(
        impl sealed::Sealed for $type {}

        impl AsPath for $type {
            fn as_path(&self) -> &[u8] {
                let $this = self;
                $bytes
            }
        }
    )*};
}

as_path! {
    [u8]: |this| this;
    Vec<u8>: |this| this;
    str: |this| this.as_bytes();
    String: |this| this.as_bytes();
    OsStr: |this| this.as_bytes();
    OsString: |this| this.as_bytes();
    Path: |this| this.as_os_str().as_bytes();
    PathBuf: |this| this.as_os_str().as_bytes();
}

impl<const N: usize> sealed::Sealed for [u8; N] {}

impl<const N: usize> AsPath for [u8; N] {
    fn as_path(&self) -> &[u8] {
        self
    }
}

impl<P: AsPath + ?Sized> sealed::Sealed for &P {}

impl<P: AsPath + ?Sized> AsPath for &P {
    fn as_path(&self) -> &[u8] {
        (**self).as_path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_bytes_whatever_it_comes_as() {
        fn bytes(path: impl AsPath) -> Vec<u8> {
            path.as_path().to_vec()
        }
        let odd = b"a/\xff\xfe b";
        assert_eq!(bytes(odd), odd);
        assert_eq!(bytes(&odd[..]), odd);
        let owned = odd.to_vec();
        assert_eq!(bytes(&owned), odd);
        assert_eq!(bytes(owned), odd);
        let path = Path::new(OsStr::from_bytes(odd));
        assert_eq!(bytes(path), odd);
        assert_eq!(bytes(path.to_owned()), odd);
        assert_eq!(bytes(path.as_os_str()), odd);
        assert_eq!(bytes(path.as_os_str().to_owned()), odd);
        assert_eq!(bytes("\u{e9}/x"), b"\xc3\xa9/x");
        assert_eq!(bytes("x".to_owned()), b"x");
        assert_eq!(bytes(b""), b"");
    }
}
