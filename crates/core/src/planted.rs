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

/// The holders of the bugs of a room whose machines are told which one they have.
macro_rules! flaws {
    () => {
        /// A holder of bugs: the product has none, and the compiler removes the switches.
        pub trait Flaws {
            /// Whether this bug is switched on.
            fn has(&self, _bug: Planted) -> bool {
                false
            }
        }

        /// Has none.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Sound;

        impl Flaws for Sound {}

        /// Has this one.
        impl Flaws for Planted {
            fn has(&self, bug: Planted) -> bool {
                *self == bug
            }
        }
    };
}
pub(crate) use flaws;
