//! Known formats of strings.
