//! allotment-controllers
