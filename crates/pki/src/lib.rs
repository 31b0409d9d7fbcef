//! allotment-pki
