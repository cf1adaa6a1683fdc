"""Inbox items that wait for a person: approvals, plan reviews and questions."""
