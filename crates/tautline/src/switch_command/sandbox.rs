//! placeholder
pub fn prepare() -> Option<String> {
    None
}
pub fn confine_worker() -> std::io::Result<()> {
    Ok(())
}
