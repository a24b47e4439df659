"""Tests of Magnetar."""
