//! The letters behind an event: `cycles:u`.

use std::fmt;

macro_rules! modifiers {
    ($($(#[$doc:meta])* $variant:ident = $letter:literal;)+) => {
        /// What a letter behind an event asks for, as far as it is of use to counting.
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
    /// Count user mode, and of the other modes those named only.
    User = 'u';
    /// Count the kernel, and of the other modes those named only.
    Kernel = 'k';
    /// Count the hypervisor, and of the other modes those named only.
    Hypervisor = 'h';
    /// Count what virtual machines execute, and the host only if named.
    Guest = 'G';
    /// Count what the host executes, and virtual machines only if named.
    Host = 'H';
    /// Leave out the idle task.
    NotIdle = 'I';
    /// Always on the PMU, or in error state.
    Pinned = 'D';
    /// Alone on the PMU.
    Exclusive = 'e';
}

/// perf's other letters, and why counting has no use for them (`tools/perf/Documentation/perf-list.txt`, linux 6.16).
const OF_NO_USE: &[(char, &str)] = &[
    (
        'p',
        "it moves samples nearer to the instruction, and counting takes no samples (linux refuses it so on x86: EINVAL)",
    ),
    ('P', "it moves samples as near to the instruction as can be, and counting takes no samples"),
    ('S', "it makes a group's leader sample its members, and counting takes no samples"),
    ('W', "it splits a group that does not fit the PMU, and then its counts may not be divided by one another"),
    ('b', "it shares counters among runs of `perf stat`"),
    ('R', "it reads a latency out of samples, and counting takes no samples"),
    ('X', "it concerns the groups that `perf stat` makes by itself"),
];

/// A set of modifiers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Modifiers(u16);

impl Modifiers {
    /// Whether it is among them.
    #[must_use]
    pub fn contains(self, modifier: Modifier) -> bool {
        self.0 & 1 << modifier as u16 != 0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// These and one more.
    #[must_use]
    pub fn with(self, modifier: Modifier) -> Self {
        Self(self.0 | 1 << modifier as u16)
    }

    /// Whether one of them names a mode of the processor.
    pub(crate) fn name_modes(self) -> bool {
        [Modifier::User, Modifier::Kernel, Modifier::Hypervisor].iter().any(|&mode| self.contains(mode))
    }

    /// Whether perf takes all these letters for modifiers, of use or not.
    pub(super) fn are_letters(text: &str) -> bool {
        let known = |letter| {
            Modifier::ALL.iter().any(|modifier| modifier.letter() == letter)
                || OF_NO_USE.iter().any(|&(unused, _)| unused == letter)
        };
        !text.is_empty() && text.chars().all(known)
    }

    /// Gives what is wrong with them where one is unknown, of no use, or there twice.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut modifiers = Self::default();
        for letter in text.chars() {
            let known = Modifier::ALL.iter().find(|modifier| modifier.letter() == letter);
            if let Some(&modifier) = known {
                if modifiers.contains(modifier) {
                    return Err(format!("the modifier {letter} is there twice"));
                }
                modifiers = modifiers.with(modifier);
            } else if let Some((_, why)) = OF_NO_USE.iter().find(|&&(unused, _)| unused == letter) {
                return Err(format!("the modifier {letter} is of no use here: {why}; leave it out"));
            } else {
                let letters: String = Modifier::ALL.iter().map(|modifier| modifier.letter()).collect();
                return Err(format!("there is no modifier {letter:?}; there are {letters}"));
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
