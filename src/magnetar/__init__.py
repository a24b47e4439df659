"""Magnetar: geo-replicated publish/subscribe that keeps a consumer's place between clusters."""

__version__ = "0.1.0"
