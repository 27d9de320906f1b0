//! The heap of the process.

/// Makes all threads share one heap, if the C library is glibc. Call it before another thread starts.
///
/// Otherwise each thread has an arena of its own, and memory that is free in one of them serves no other. One thread works at
/// a time, nearly always, so that they do not wait for each other.
///
/// The environment variables that glibc reads for this, `MALLOC_ARENA_MAX` and `GLIBC_TUNABLES`, take precedence.
pub(crate) fn share_among_threads() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if !is_set_by_environment(std::env::var_os("MALLOC_ARENA_MAX"), std::env::var_os("GLIBC_TUNABLES")) {
        #[expect(unsafe_code, reason = "no library has a safe function for it")]
        // SAFETY: it takes two numbers and sets a limit, which malloc reads under its own locks. If glibc refuses the
        // value, nothing changes.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

/// Whether one of the two variables sets the number of arenas.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn is_set_by_environment(
    arena_max: Option<std::ffi::OsString>,
    tunables: Option<std::ffi::OsString>,
) -> bool {
    let tunables = tunables.unwrap_or_default();
    arena_max.is_some() || tunables.to_string_lossy().contains("glibc.malloc.arena_max=")
}
