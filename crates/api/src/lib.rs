//! allotment-api
