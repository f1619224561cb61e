//! The letters after an event: `cycles:u`.

use std::fmt;

macro_rules! modifiers {
    ($($(#[$doc:meta])* $variant:ident = $letter:literal;)+) => {
        /// A letter after an event, among those that apply to counting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Modifier {
            $($(#[$doc])* $variant,)+
        }

        impl Modifier {
            /// All of them, in the order in which they are written.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// perf's letter.
            #[must_use]
            pub fn letter(self) -> char {
                match self { $(Self::$variant => $letter,)+ }
            }
        }
    };
}

modifiers! {
    /// Count user mode; other modes only if named.
    User = 'u';
    /// Count kernel mode; other modes only if named.
    Kernel = 'k';
    /// Count the hypervisor; other modes only if named.
    Hypervisor = 'h';
    /// Count virtual machines; the host only if named.
    Guest = 'G';
    /// Count the host; virtual machines only if named.
    Host = 'H';
    /// Exclude the idle task.
    NotIdle = 'I';
    /// Always on the PMU, or in error state.
    Pinned = 'D';
    /// Alone on the PMU.
    Exclusive = 'e';
}

/// perf's other letters, and why they do not apply to counting (`tools/perf/Documentation/perf-list.txt`, linux 6.16).
const UNSUPPORTED: &[(char, &str)] = &[
    ('p', "it makes sample addresses more precise, and counting takes no samples (on x86 linux refuses it: EINVAL)"),
    ('P', "it makes sample addresses as precise as possible, and counting takes no samples"),
    ('S', "it makes a group's leader sample its members, and counting takes no samples"),
    ('W', "it splits a group that does not fit the PMU, and its counts may then not be divided by one another"),
    ('b', "it shares counters between runs of `perf stat`"),
    ('R', "it reads a latency from samples, and counting takes no samples"),
    ('X', "it concerns groups that `perf stat` creates by itself"),
];

/// A set of modifiers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Modifiers(u16);

impl Modifiers {
    /// Whether the set contains `modifier`.
    #[must_use]
    pub fn contains(self, modifier: Modifier) -> bool {
        self.0 & 1 << modifier as u16 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set with one more modifier.
    #[must_use]
    pub fn with(self, modifier: Modifier) -> Self {
        Self(self.0 | 1 << modifier as u16)
    }

    /// Whether one of them names a mode of the processor.
    pub(crate) fn name_modes(self) -> bool {
        [Modifier::User, Modifier::Kernel, Modifier::Hypervisor].iter().any(|&mode| self.contains(mode))
    }

    /// Whether perf accepts all these letters as modifiers, supported here or not.
    pub(super) fn are_letters(text: &str) -> bool {
        let known = |letter| {
            Modifier::ALL.iter().any(|modifier| modifier.letter() == letter)
                || UNSUPPORTED.iter().any(|&(unused, _)| unused == letter)
        };
        !text.is_empty() && text.chars().all(known)
    }

    /// Parses the letters. Fails with the reason if one is unknown, unsupported or repeated.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut modifiers = Self::default();
        for letter in text.chars() {
            let known = Modifier::ALL.iter().find(|modifier| modifier.letter() == letter);
            if let Some(&modifier) = known {
                if modifiers.contains(modifier) {
                    return Err(format!("the modifier {letter} is given twice"));
                }
                modifiers = modifiers.with(modifier);
            } else if let Some((_, why)) = UNSUPPORTED.iter().find(|&&(unused, _)| unused == letter) {
                return Err(format!("the modifier {letter} does not apply to counting: {why}; leave it out"));
            } else {
                let letters: String = Modifier::ALL.iter().map(|modifier| modifier.letter()).collect();
                return Err(format!("there is no modifier {letter:?}; expected one of {letters}"));
            }
        }
        Ok(modifiers)
    }
}

impl fmt::Display for Modifiers {
    /// Their letters: `ukh`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Modifier::ALL
            .iter()
            .filter(|&&modifier| self.contains(modifier))
            .try_for_each(|modifier| write!(f, "{}", modifier.letter()))
    }
}

impl fmt::Debug for Modifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Modifiers({self})")
    }
}

impl FromIterator<Modifier> for Modifiers {
    fn from_iter<I: IntoIterator<Item = Modifier>>(modifiers: I) -> Self {
        modifiers.into_iter().fold(Self::default(), Self::with)
    }
}
