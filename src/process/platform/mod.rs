//! Everything about processes and open files that differs between operating systems: one file per system, chosen here.

mod linux;

pub(super) use linux::{
    SPAWN_SETSID, Stat, executable_of, has_entry, has_locked, has_open, is_in_namespace, name_of, own_children, processes, set_adopter,
};
pub use linux::{path_of, umask};
