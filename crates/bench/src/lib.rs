//! `leno bench`: measures Leno, a bare baseline and other meshes with the same tape.
//!
//! A black box: it drives real programs as processes or in pods, links nothing of the proxy, and treats Leno as one
//! mesh among others. Start reading at the crate `leno-load` for how requests are made and recorded, at [`result`] for what is kept.

#![forbid(unsafe_code)]

pub mod chaos;
pub mod cluster;
pub mod compare;
pub mod load;
pub mod measure;
pub mod mesh;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
pub mod selftest;
pub mod statistics;
