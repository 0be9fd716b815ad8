//! Light or dark.

/// How the pages look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Theme {
    /// As the browser prefers.
    #[default]
    Auto,
    Light,
    Dark,
}

impl Theme {
    /// All themes.
    pub(super) const ALL: [Self; 3] = [Self::Auto, Self::Light, Self::Dark];

    /// Its name, for the cookie and the style sheet.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The theme with this name.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.as_str() == name)
    }

    /// The key of its text.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Auto => "theme.auto",
            Self::Light => "theme.light",
            Self::Dark => "theme.dark",
        }
    }
}
