//! CPU, memory, operating-system and wake-up work that runs unchanged in every environment: the agent.
