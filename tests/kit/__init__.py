"""What the end-to-end suites share: real processes on free ports, and waiting that is not blind sleeping."""
