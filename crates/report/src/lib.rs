//! Tables for the terminal, JSON, one self-contained HTML page with plots.
