//! The heap of the process.

/// Limits glibc to one arena, which all threads share. With another C library it does nothing. Call
/// it before another thread starts.
///
/// By default glibc gives threads separate arenas, and a thread cannot allocate from the free
/// memory of another arena. Here usually only one thread works at a time, so threads rarely wait
/// for the lock of the arena.
///
/// It changes nothing if `MALLOC_ARENA_MAX` is in the environment, or `GLIBC_TUNABLES` sets
/// `glibc.malloc.arena_max`.
pub(crate) fn limit_to_one_arena() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if !is_set_by_environment() {
        #[expect(unsafe_code, reason = "mallopt is a function of C")]
        // SAFETY: mallopt must not run while another thread allocates. `main` calls this before it
        // starts a thread.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

/// Returns true if the environment sets the number of arenas.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn is_set_by_environment() -> bool {
    let tunables = std::env::var_os("GLIBC_TUNABLES").unwrap_or_default();
    std::env::var_os("MALLOC_ARENA_MAX").is_some()
        || tunables.to_string_lossy().contains("glibc.malloc.arena_max=")
}
