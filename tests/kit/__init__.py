"""What the end-to-end suites share: real processes on free ports, and ways to wait for them that do not sleep blindly."""
