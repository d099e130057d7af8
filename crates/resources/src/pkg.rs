//! Packages: what kinds about them share, and the managers behind them.
//!
//! A kind is a [`wish::Wish`]. All wishes of one level are looked at together ([`check`]), carried out together ([`apply`])
//! and taken back together ([`take_back`]), whatever their kinds are: one look, one plan, one transaction.

mod apk;
mod apply;
mod apt;
mod apt_lists;
pub mod asked;
mod check;
mod dnf;
mod due;
#[cfg(test)]
pub(crate) mod fake_apt;
mod installed_packages;
pub(crate) mod kind;
mod manager;
mod pacman;
mod record;
mod session;
mod take_back;
mod version;
pub(crate) mod wanted;
pub(crate) mod wish;
mod zypper;

#[cfg(test)]
pub(crate) mod real_apt;
#[cfg(test)]
mod real_pacman;
#[cfg(test)]
mod real_rpm;
#[cfg(test)]
mod tests;

pub use kind::{PackageMember, apply_together, check_together, is_about_packages, revert_together};
