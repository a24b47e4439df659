"""The common kit of the end-to-end suites: real processes on free ports, and waiting with conditions."""
