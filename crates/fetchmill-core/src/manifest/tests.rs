//! Manifests as their users see them.
