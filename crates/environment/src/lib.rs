//! Host, container and VM as places to run the agent.
