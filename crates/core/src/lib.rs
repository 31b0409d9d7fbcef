//! allotment-core
