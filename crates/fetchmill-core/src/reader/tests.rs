//! Destinations, as their users see them.
