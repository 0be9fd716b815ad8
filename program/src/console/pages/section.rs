//! The sections of the navigation.

use crate::console::access::Role;

/// A section of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Incidents,
    Jobs,
    Running,
    Dead,
    Decisions,
    Campaigns,
    Gates,
    Recurring,
    Workers,
    Submit,
    Audit,
    Alerts,
}

impl Section {
    /// All sections, in the order of the navigation.
    pub(super) const ALL: [Self; 13] = [
        Self::Overview,
        Self::Incidents,
        Self::Jobs,
        Self::Running,
        Self::Dead,
        Self::Decisions,
        Self::Campaigns,
        Self::Gates,
        Self::Recurring,
        Self::Workers,
        Self::Submit,
        Self::Audit,
        Self::Alerts,
    ];

    /// The address of its page.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Overview => "/",
            Self::Incidents => "/incidents",
            Self::Jobs => "/jobs",
            Self::Running => "/running",
            Self::Dead => "/dead",
            Self::Decisions => "/decisions",
            Self::Campaigns => "/campaigns",
            Self::Gates => "/gates",
            Self::Recurring => "/recurring",
            Self::Workers => "/workers",
            Self::Submit => "/submit",
            Self::Audit => "/audit",
            Self::Alerts => "/alerts",
        }
    }

    /// Whether the navigation is there.
    pub(super) fn is_at(self, at: &Option<Self>) -> bool {
        *at == Some(self)
    }

    /// The key of its name.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Overview => "nav.overview",
            Self::Incidents => "nav.incidents",
            Self::Jobs => "nav.jobs",
            Self::Running => "nav.running",
            Self::Dead => "nav.dead",
            Self::Decisions => "nav.decisions",
            Self::Campaigns => "nav.campaigns",
            Self::Gates => "nav.gates",
            Self::Recurring => "nav.recurring",
            Self::Workers => "nav.workers",
            Self::Submit => "nav.submit",
            Self::Audit => "nav.audit",
            Self::Alerts => "nav.alerts",
        }
    }

    /// The key that leads there after `g`.
    pub(super) const fn shortcut(self) -> char {
        match self {
            Self::Overview => 'o',
            Self::Incidents => 'i',
            Self::Jobs => 'j',
            Self::Running => 'r',
            Self::Dead => 'x',
            Self::Decisions => 'd',
            Self::Campaigns => 'c',
            Self::Gates => 'g',
            Self::Recurring => 'e',
            Self::Workers => 'w',
            Self::Submit => 's',
            Self::Audit => 'a',
            Self::Alerts => 'l',
        }
    }

    /// Who sees it.
    pub(super) const fn role(self) -> Role {
        match self {
            Self::Submit => Role::Submitter,
            Self::Alerts => Role::Operator,
            Self::Overview
            | Self::Incidents
            | Self::Jobs
            | Self::Running
            | Self::Dead
            | Self::Decisions
            | Self::Campaigns
            | Self::Gates
            | Self::Recurring
            | Self::Workers
            | Self::Audit => Role::Viewer,
        }
    }
}
