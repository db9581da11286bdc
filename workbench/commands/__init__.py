"""The `workbench` command: one module for each group of commands."""
