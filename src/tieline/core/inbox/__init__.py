"""Inbox items that wait for a person: approvals, plan reviews and questions.

The values are defined in `model.inbox`; HTTP endpoints and the CLI are in `frontends` and `cli`.
"""
