//! allotment-sim
