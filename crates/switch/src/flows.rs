//! Flow tables of a running switch.
use std::sync::Arc;

use flow_tables::Tables;

use crate::View;
use crate::error::ChangeError;

impl View<'_> {
    /// The flow tables that hold; none if the switch learns addresses.
    pub fn flows(&self) -> Option<Arc<Tables>> {
        self.control.attachments.common.flows()
    }

    /// Replaces the flow tables. After the function returns, no frame is forwarded by the former tables.
    ///
    /// # Errors
    /// The switch was started without flow tables.
    pub fn set_flows(&mut self, tables: Tables) -> Result<(), ChangeError> {
        if self.flows().is_none() {
            return Err(ChangeError::NoFlows);
        }
        self.control.attachments.pool.set_flows(&Arc::new(tables));
        Ok(())
    }
}
