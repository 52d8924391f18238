//! Bugs on purpose: a test that cannot notice them proves nothing.

/// The bugs that tests can switch on in a room, and the list of them.
macro_rules! planted {
    (
        $(#[doc = $of:literal])+
        pub enum Planted {
            $($(#[doc = $doc:literal])+ $name:ident,)+
        }
    ) => {
        $(#[doc = $of])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Planted {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Planted {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}
pub(crate) use planted;
