//! streamfleet
